"""Every route answers what the run does, and tells of mistakes in one sentence."""

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from reltucker import __version__
from reltucker.run import Run
from reltucker.serving.http import Limits, Predictor, make_app
from tests.serving.http.client import Client
from tests.serving.http.conftest import HOSTILE, RUN

ASKED = {"subject": "e9", "relation": "r1"}


def test_health_and_runs(client: Client, run: Run) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": __version__}
    (summary,) = client.get("/api/runs").json()
    assert summary["name"] == "run"
    assert summary["entities"] == len(run.graph.entities)
    assert summary["triples"]["train"] == len(run.graph.train)
    assert run.result is not None
    assert summary["figures"]["seen"] == run.result["seen"]
    details = client.get(RUN).json()
    assert details["sizes"] == run.describe()
    assert client.get(f"{RUN}/epochs").json() == {"epochs": run.epochs()}


def test_results_by_relation_are_those_of_evaluate(client: Client, run: Run) -> None:
    found = client.get(f"{RUN}/results").json()
    expected = run.evaluate(by="relation", progress=False).to_dict()
    assert found["relations"] == expected["by_relation"]
    assert found["metrics"]["seen"] == expected["seen"]
    assert found["triples"] == len(run.graph.test)


@pytest.mark.parametrize(
    "question",
    [("e9", "r1", "?"), ("?", "r2", HOSTILE[0]), (HOSTILE[3], None, HOSTILE[2]), ("e8", "r0", "?")],
)
@pytest.mark.parametrize("options", [{}, {"top": 3, "known": True}, {"held_out": True}])
def test_answers_are_those_of_the_run(
    client: Client, run: Run, question: tuple[str, ...], options: dict[str, Any]
) -> None:
    asked = dict(zip(("subject", "relation", "object"), question, strict=True))
    document = {"questions": [asked, ASKED], **options}
    answers = client.post(f"{RUN}/predict", document).json()["answers"]
    for found, parts in zip(answers, (question, ("e9", "r1", "?")), strict=True):
        expected = run.predict(*parts, **options).to_dicts()
        for row in (*found, *expected):
            row["score"] = pytest.approx(row["score"], abs=1e-5)
        assert found == expected


def test_scores_are_those_of_the_run(client: Client, run: Run) -> None:
    triples = [("e9", "r1", HOSTILE[0]), ("Entity 6", "r0", "e9"), ("e9", "r3", "e31")]
    found = client.post(f"{RUN}/score", {"triples": triples}).json()["triples"]
    assert found == run.score(triples, progress=False).to_dicts()
    assert found[2]["score"] is None
    reply = client.post(f"{RUN}/score", {"triples": [*triples, ("e9", "r1", "nobody")]})
    assert reply.status == 422
    assert reply.json()["detail"].startswith("row 4: no entity is called 'nobody'")


def test_calibration_is_told(client: Client, run: Run) -> None:
    assert run.calibration is not None
    found = client.get(f"{RUN}/calibration").json()
    assert found["reliability"] == run.calibration.to_dict()["reliability"]
    assert found["threshold"] == run.calibration.threshold
    assert client.get("/api/runs").json()[0]["calibrated"] is True


def test_without_calibration_there_is_no_probability(predictor: Predictor) -> None:
    plain = replace(predictor, calibration=None)
    with Client(make_app([plain])) as client:
        ((answer, *_),) = client.post(f"{RUN}/predict", {"questions": [ASKED]}).json()["answers"]
        reply = client.get(f"{RUN}/calibration")
    assert answer["probability"] is None
    assert reply.status == 422
    assert "`reltucker calibrate` makes them" in reply.json()["detail"]


def test_questions_that_wait_are_answered_together(predictor: Predictor, run: Run) -> None:
    app = make_app([predictor])
    with Client(app) as client:
        questions = [{"subject": f"e{n}", "relation": "r0"} for n in range(10, 30)]

        async def ask_all() -> Any:
            documents = [{"questions": [question]} for question in questions]
            return await asyncio.gather(
                *(client.post_later(f"{RUN}/predict", document) for document in documents)
            )

        replies = client.runner.run(ask_all())
        figures = client.get("/metrics").body.decode()
    for question, reply in zip(questions, replies, strict=True):
        (found,) = reply.json()["answers"]
        expected = run.predict(question["subject"], "r0")
        assert [row["answer"] for row in found] == expected["answer"].to_list()
    assert "reltucker_questions_total 20\n" in figures
    (batches,) = re.findall(r"^reltucker_batches_total (\d+)$", figures, re.MULTILINE)
    assert 1 <= int(batches) < 10


def test_one_mistake_leaves_other_questions_alone(client: Client) -> None:
    async def ask_both() -> Any:
        documents = [{"questions": [ASKED]}, {"questions": [{**ASKED, "subject": "nobody"}]}]
        return await asyncio.gather(
            *(client.post_later(f"{RUN}/predict", document) for document in documents)
        )

    good, bad = client.runner.run(ask_both())
    assert good.status == 200
    assert bad.status == 422
    assert bad.json()["detail"].startswith("question 1: no entity is called 'nobody'")


def test_names_and_their_neighbourhood(client: Client, run: Run) -> None:
    found = client.get(f"{RUN}/names", prefix="entity 1", limit=3).json()
    assert len(found) == 3
    assert all(row["label"].startswith("Entity 1") for row in found)
    relations = client.get(f"{RUN}/names", kind="relation").json()
    assert sorted(row["name"] for row in relations) == ["r0", "r1", "r2", "r3"]

    name = HOSTILE[0]
    around = client.get(f"{RUN}/neighbourhood", name=name, known=200, predicted=5).json()
    splits = ("train", "valid", "test")
    facts = {
        row
        for split in splits
        for row in run.graph.named(run.graph.split(split)).iter_rows()
        if name in (row[0], row[2])
    }
    parts = ("subject", "relation", "object")
    assert {tuple(row[part] for part in parts) for row in around["known"]} == facts
    assert around["facts"] == len(facts)
    assert len(around["predicted"]) == 5
    for row in around["predicted"]:
        triple = tuple(row[part] for part in parts)
        assert triple not in facts
        assert name in (triple[0], triple[2])


def test_pictures_of_the_model(client: Client, run: Run) -> None:
    core = client.get(f"{RUN}/core").json()
    assert core == {"density": 1.0, "slices": [1.0] * run.model.core.relation_dim}
    mixing = client.get(f"{RUN}/mixing", relation="r2").json()
    assert mixing["step"] == 1
    expected = run.model.mixing_matrix(2).tolist()
    for row, values in zip(mixing["values"], expected, strict=True):
        assert row == pytest.approx(values, rel=1e-3)
    for kind, count in (("entity", run.graph.seen_entities), ("relation", 4)):
        places = client.get(f"{RUN}/map", kind=kind).json()
        assert len(places) == count
        assert places[0]["count"] == max(place["count"] for place in places)


def test_a_large_mixing_matrix_is_thinned(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predictor.mixing("r0")["values"]
    monkeypatch.setattr("reltucker.serving.http.predictor.MATRIX", 4)
    thinned = predictor.mixing("r0")
    assert thinned["step"] == 2
    block = [whole[i][j] for i in (2, 3) for j in (4, 5)]
    assert thinned["values"][1][2] == max(block, key=abs)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "questions: Field required"),
        ({"questions": []}, "questions: List should have at least 1 item"),
        ({"questions": [ASKED], "top": 0}, "top: Input should be greater than or equal to 1"),
        ({"questions": [ASKED], "top": 10**30}, "top: Input should be less than or equal to 1000"),
        ({"questions": [ASKED], "top": "5"}, "top: Input should be a valid integer"),
        ({"questions": [ASKED], "other": 1}, "other: Extra inputs are not permitted"),
        ({"questions": [ASKED] * 1001}, "questions: List should have at most 1000 items"),
        ({"questions": [ASKED] * 200, "top": 1000}, "ask for at most 100,000 answers"),
        ({"questions": [{}]}, "question 1: ask for exactly one of subject, relation and object"),
        ({"questions": [{**ASKED, "subject": "x" * 20_001}]}, "questions.0.subject: String should"),
        ({"questions": [{**ASKED, "relation": None}]}, "question 1: ask for exactly one of"),
        ({"questions": [ASKED, {**ASKED, "relation": "r"}]}, "question 2: no relation is called"),
        (
            b'{"questions": [{"subject": "\\ud800"}]}',
            "questions.0.subject: Input should be a valid",
        ),
        (b'{"\\ud800": 1}', "Input should be a valid string"),
        (b'{"questions": NaN}', "questions: Input should be a valid list"),
        (b"{", "JSON decode error"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[" + b"9" * 100_000 + b"]", "cannot be read"),
    ],
)
def test_mistakes_are_told_in_a_sentence(client: Client, document: Any, message: str) -> None:
    reply = client.post(f"{RUN}/predict", document)
    assert reply.status in (400, 422)
    detail = reply.json()["detail"]
    assert message in detail
    assert len(detail) < 500


def test_an_unknown_run_and_an_unknown_path(client: Client) -> None:
    reply = client.get("/api/runs/..%2F..%2Fetc/epochs")
    assert reply.status == 404
    assert client.get("/api/runs/other").json()["detail"].startswith("no run is called 'other'")
    for path in ("/../../etc/passwd", "/page/index.html", "/docs", "/redoc", "//", "/%00"):
        assert client.get(path).status == 404, path
    assert client.runner.run(client.send("DELETE", "/api/runs")).status == 405


def test_every_reply_has_the_headers_of_a_careful_server(client: Client) -> None:
    for path in ("/", "/health", "/api/runs", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_loads_nothing_from_elsewhere(client: Client) -> None:
    text = client.get("/").body.decode()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", text)
    for address in re.findall(r'(?:src|href)="([^"#]+)"', text):
        assert client.get(f"/{address}").status == 200
    assert "://" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "", "127.0.0.1.evil.example"]
)
def test_only_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.get("/api/runs", {"host": host}).status == 400
    for good in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert client.get("/api/runs", {"host": good}).status == 200


def test_pages_of_other_sites_are_not_answered(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        assert client.get("/api/runs", {"sec-fetch-site": site}).status == 403
    assert client.get("/api/runs", {"sec-fetch-site": "same-origin"}).status == 200
    kind = {"content-type": "text/plain"}
    assert client.post(f"{RUN}/predict", {"questions": [ASKED]}, kind).status == 415


def test_a_token_is_needed_where_there_is_one(predictor: Predictor) -> None:
    token = "0123456789abcdef"
    with Client(make_app([predictor], token=token, local=False)) as client:
        for path in ("/api/runs", "/metrics", "/openapi.json"):
            for given in ("", "Bearer ", f"Basic {token}", f"Bearer {token[:-1]}", "Bearer \xff"):
                reply = client.get(path, {"authorization": given, "host": "far.example"})
                assert reply.status == 401
                assert reply.headers["www-authenticate"] == "Bearer"
            good = {"authorization": f"Bearer {token}", "host": "far.example"}
            assert client.get(path, good).status == 200
        assert client.get("/health").status == client.get("/").status == 200


def test_limits_on_size_number_and_time(predictor: Predictor) -> None:
    limits = Limits(body_bytes=100, requests=1, seconds=0.3)
    with Client(make_app([predictor], limits)) as client:
        assert client.post(f"{RUN}/predict", b" " * 101).status == 413
        lying = {"content-length": "5"}
        assert client.post(f"{RUN}/predict", b" " * 101, lying).status == 413
        assert client.post(f"{RUN}/predict", b"", {"content-length": "9" * 30}).status == 413
        assert client.post(f"{RUN}/predict", b"", {"content-length": "-1"}).status == 400

        async def two() -> Any:
            silent = client.send("POST", f"{RUN}/predict", b"", JSON, silent=True)
            return await asyncio.gather(silent, client.post_later(f"{RUN}/predict", b"{}"))

        first, second = client.runner.run(two())
        assert first.status == 408
        assert second.status == 429
        assert int(second.headers["retry-after"]) > 0


JSON = {"content-type": "application/json"}


def test_an_answer_that_takes_too_long_is_given_up(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Predictor, "answers", lambda *_: time.sleep(0.5))
    with Client(make_app([predictor], Limits(seconds=0.1))) as client:
        reply = client.post(f"{RUN}/predict", {"questions": [ASKED]})
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0


def test_a_bug_is_told_without_its_insides(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Predictor, "answers", broken)
    with Client(make_app([predictor])) as client:
        reply = client.post(f"{RUN}/predict", {"questions": [ASKED]})
        assert client.get("/health").status == 200
    assert reply.status == 500
    assert b"secret" not in reply.body
    assert "content-security-policy" in reply.headers
    assert "KeyError: 'secret'" in capsys.readouterr().err


def test_metrics_are_in_the_text_format_of_prometheus(client: Client) -> None:
    client.get(RUN)
    client.get('/odd"\n{path}')
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.decode().splitlines()
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [\d.]+')
    for line in lines:
        assert line.startswith("# TYPE ") or sample.fullmatch(line), line
    own = 'route="/api/runs/{run}",method="GET",status="200"}'
    assert any(line.startswith(f"reltucker_requests_total{{{own}") for line in lines)
    for name in ("bucket", "sum", "count"):
        assert any(line.startswith(f"reltucker_request_seconds_{name}") for line in lines)


def test_the_description_names_every_route_and_problem(client: Client) -> None:
    description = client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.")
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert {"200", "413", "422", "429", "503"} <= set(operation["responses"]), path
    text = json.dumps(description)
    assert "HTTPValidationError" not in text
