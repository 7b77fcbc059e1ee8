"""The HTTP API: routes, each a few lines over a served run."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from reltucker import __version__
from reltucker.choices import Alikeness, NameKind
from reltucker.errors import ReltuckerError
from reltucker.serving.http import schema
from reltucker.serving.http.guard import Guard, Limits
from reltucker.serving.http.metrics import Metrics
from reltucker.serving.http.model_thread import DroppedError, ModelThread, TooSlowError
from reltucker.serving.http.neighbourhood import neighbourhood
from reltucker.serving.http.predictor import Predictor
from reltucker.serving.http.static import Files, read_page
from reltucker.serving.http.streaming import NdjsonResponse, stream_facts
from reltucker.serving.relation_links import relation_links
from reltucker.serving.similarity import duplicates, similar

DETAIL = 500
"""Characters of a message, in which names may be long."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Problem, "description": description}
    for status, description in {
        400: "The request cannot be read",
        401: "The token is missing or wrong",
        403: "The request comes from a page of another site",
        404: "No run has this name",
        408: "The body did not come in time",
        413: "The body is too large",
        415: "The body is not JSON",
        422: "The request cannot be answered as it is; `detail` says why",
        429: "Too many requests at once",
        503: "The answer took too long",
    }.items()
}

IN_JSON: dict[int | str, dict[str, Any]] = {
    status: {
        "description": problem["description"],
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, problem in PROBLEMS.items()
}
"""The same for routes whose answers are not JSON."""


def make_app(
    predictors: Sequence[Predictor],
    limits: Limits | None = None,
    *,
    token: str | None = None,
    local: bool = True,
    more: Files | None = None,
) -> ASGIApp:
    """The application that serves these runs. `local` says that it is bound to this machine, and
    answers to its names alone; `more` are files beside those of the page."""
    limits = limits or Limits()
    metrics = Metrics()
    thread = ModelThread(limits.seconds, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        thread.start()
        yield
        thread.close()

    app = FastAPI(
        title="reltucker",
        version=__version__,
        description="Ask models of knowledge graphs.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=PROBLEMS,
    )
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ReltuckerError, _mistake)
    app.add_exception_handler(TooSlowError, _too_slow)
    app.add_exception_handler(DroppedError, _too_slow)
    app.add_exception_handler(MemoryError, _too_slow)
    _add_files(app, read_page() | (more or {}))
    _add_state(app, metrics)
    by_name = {predictor.name: predictor for predictor in predictors}
    app.include_router(_routes(by_name, thread, limits))
    return Guard(app, limits, metrics, token, local)


def _add_state(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/health", tags=["server"], response_model=schema.Health)
    async def health() -> Any:
        """That the server is there."""
        return {"status": "ok", "version": __version__}

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse, responses=IN_JSON)
    async def prometheus() -> Any:
        """Counts and times of requests, for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_files(app: FastAPI, files: Files) -> None:
    """Files that were read before: no path of a request reaches the file system."""
    for path, (content, kind) in files.items():

        async def get(request: Request, content: bytes = content, kind: str = kind) -> Response:
            return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

        app.add_route(path, get, methods=["GET"], include_in_schema=False)


def _routes(predictors: dict[str, Predictor], thread: ModelThread, limits: Limits) -> APIRouter:
    router = APIRouter(prefix="/api")

    async def chosen(run: Annotated[str, Path(description="the name of a run")]) -> Predictor:
        if run not in predictors:
            raise HTTPException(404, f"no run is called {run[:80]!r}; /api/runs lists them")
        return predictors[run]

    Chosen = Annotated[Predictor, Depends(chosen)]
    Name = Annotated[str, Query(max_length=schema.NAME_LENGTH)]

    @router.get("/runs", tags=["runs"], response_model=list[schema.Summary])
    async def runs() -> Any:
        """The runs that are served, with sizes and figures."""
        return _json([predictor.summary for predictor in predictors.values()])

    @router.get("/runs/{run}", tags=["runs"], response_model=schema.Details)
    async def details(run: Chosen) -> Any:
        """A run with its sizes."""
        return _json({**run.summary, "sizes": run.sizes})

    @router.get("/runs/{run}/epochs", tags=["runs"], response_model=schema.Epochs)
    async def epochs(run: Chosen) -> Any:
        """The learning curves."""
        return _json({"epochs": run.epochs})

    @router.get("/runs/{run}/results", tags=["runs"], response_model=schema.Results)
    async def results(run: Chosen) -> Any:
        """How well held-out triples are ranked, by relation."""
        return _json(run.results)

    @router.get("/runs/{run}/calibration", tags=["runs"], response_model=schema.Calibrated)
    async def calibration(run: Chosen) -> Any:
        """How far the probabilities hold."""
        return _json(run.reliability())

    @router.get("/runs/{run}/core", tags=["model"], response_model=schema.Core)
    async def core(run: Chosen) -> Any:
        """Where the core is dense."""
        return _json(run.density)

    @router.get("/runs/{run}/mixing", tags=["model"], response_model=schema.Mixing)
    async def mixing(run: Chosen, relation: Name) -> Any:
        """The mixing matrix of a relation."""
        return _json(await thread.run(lambda: run.mixing(relation)))

    @router.get("/runs/{run}/map", tags=["model"], response_model=list[schema.Place])
    async def places(run: Chosen, kind: NameKind = "entity") -> Any:
        """The most frequent entities, or all relations, in two dimensions."""
        return _json(run.maps[kind])

    @router.get("/runs/{run}/names", tags=["names"], response_model=list[schema.NameFound])
    async def names(
        run: Chosen,
        prefix: Name = "",
        kind: NameKind = "entity",
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> Any:
        """Names and labels in which a word begins with `prefix`, the most frequent first."""
        return _json(run.names(prefix, kind, limit))

    @router.get("/runs/{run}/neighbourhood", tags=["names"], response_model=schema.Neighbourhood)
    async def around(
        run: Chosen,
        name: Name,
        known: Annotated[int, Query(ge=0, le=200)] = 20,
        predicted: Annotated[int, Query(ge=0, le=200)] = 10,
    ) -> Any:
        """An entity with facts that the graph holds and new ones that the model predicts."""
        return _json(await thread.run(lambda: neighbourhood(run, name, known, predicted)))

    @router.post("/runs/{run}/predict", tags=["questions"], response_model=schema.Answers)
    async def predict(run: Chosen, body: schema.Questions) -> Any:
        """The best answers to each question. Questions of requests that wait are answered in one
        product."""
        options = body.options()
        _check_rows(len(body.questions) * body.top)
        parts = [question.parts() for question in body.questions]
        answers = await thread.ask(run, options, lambda: run.parse(parts, options))
        return _json({"answers": answers})

    @router.post("/runs/{run}/add", tags=["questions"], response_model=schema.AnswersWithNew)
    async def add(run: Chosen, body: schema.Added) -> Any:
        """Answers of the model with new entities, solved from some facts. Nothing is kept."""
        options = body.options()
        _check_rows(len(body.questions) * body.top)
        parts = [question.parts() for question in body.questions]
        return _json(await thread.run_long(lambda _: run.add(body.triples, parts, options)))

    @router.post("/runs/{run}/why", tags=["questions"], response_model=schema.Explained)
    async def why(run: Chosen, body: schema.WhyTriple) -> Any:
        """The parts that a score is the sum of, and the known facts that support it."""
        triple = (body.subject, body.relation, body.object)
        return _json(await thread.run_long(lambda _: run.why(triple, body.top)))

    @router.post("/runs/{run}/score", tags=["questions"], response_model=schema.Scores)
    async def score(run: Chosen, body: schema.Triples) -> Any:
        """Scores, probabilities and ranks of whole triples."""
        return _json({"triples": await thread.run(lambda: run.score(body.triples))})

    @router.post(
        "/runs/{run}/discover",
        tags=["facts"],
        response_model=schema.DiscoveryLine,
        response_class=NdjsonResponse,
        responses=IN_JSON,
    )
    async def discovered(run: Chosen, body: schema.Discovery) -> Any:
        """The most probable facts that are not in the graph, as lines of JSON."""
        if body.per_relation:
            _check_rows(body.top * len(body.relations or run.relations))
        return await stream_facts(run, thread, body.model_dump(), limits.discover_seconds)

    @router.get("/runs/{run}/similar", tags=["facts"], response_model=list[schema.Alike])
    async def alike(
        run: Chosen,
        name: Name,
        kind: NameKind = "entity",
        top: Annotated[int, Query(ge=1, le=schema.MANY)] = 10,
        by: Alikeness = "queries",
    ) -> Any:
        """The entities or relations that are most like one."""
        return _json(
            await thread.run_long(
                lambda _: similar(run.model, run.graph, name, kind=kind, top=top, by=by).to_dicts()
            )
        )

    @router.get("/runs/{run}/duplicates", tags=["facts"], response_model=list[schema.Duplicate])
    async def doubles(
        run: Chosen,
        top: Annotated[int, Query(ge=1, le=schema.MANY)] = 100,
        least: Annotated[float, Query(ge=-1, le=1)] = 0.9,
        by: Alikeness = "queries",
    ) -> Any:
        """Pairs of entities that may be one."""

        def work(checkpoint: Callable[[], None]) -> Any:
            found = duplicates(
                run.model,
                run.graph,
                top=top,
                least=least,
                by=by,
                progress=False,
                watch=checkpoint,
            )
            return found.to_dicts()

        return _json(await thread.run_long(work))

    @router.get("/runs/{run}/links", tags=["facts"], response_model=list[schema.Link])
    async def links(run: Chosen, least: Annotated[float, Query(ge=0, le=1)] = 0.8) -> Any:
        """Relations that are symmetric, or the same as others, their inverses or their sums."""
        return _json(
            await thread.run_long(
                lambda _: relation_links(run.model, run.graph, least=least).to_dicts()
            )
        )

    return router


def _check_rows(count: int) -> None:
    if count > schema.ROWS:
        raise HTTPException(422, f"ask for at most {schema.ROWS:,} answers in one request")


def _json(document: Any, status: int = 200) -> Response:
    content = to_json(document, inf_nan_mode="null")
    return Response(content, status, media_type="application/json")


def _problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    # Names in a message may hold what UTF-8 cannot.
    detail = detail[:DETAIL].encode("utf-8", "replace").decode("utf-8")
    response = _json({"detail": detail}, status)
    response.headers.update(headers or {})
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part)[:40] for part in first["loc"][1:])
    return _problem(422, f"{place}: {first['msg']}" if place else str(first["msg"]))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_parsing = error.status_code == 400  # of FastAPI, which says less
    detail = "the body cannot be read as JSON" if is_parsing else str(error.detail)
    return _problem(error.status_code, detail, dict(error.headers or {}))


async def _mistake(request: Request, error: Exception) -> Response:
    return _problem(422, str(error))


async def _too_slow(request: Request, error: Exception) -> Response:
    return _problem(
        503,
        "the answer took too long or too much memory; ask for less, or try again",
        {"retry-after": "5"},
    )
