"""A search from its beginning to the best model: plan, workers, result folder.

OUT/study.db          the study (SQLite), unless another storage is named
OUT/search.json       the plan: base recipe, space, sampler
OUT/graph/            the graph without its test triples, all that trials see
OUT/trials/NUMBER/    the run of each trial
OUT/workers/N.log     what workers had to say
OUT/trials.parquet    all trials
OUT/best.toml         the best recipe; OUT/recipes/NUMBER.toml those of the skyline
OUT/best/             the best model's run, with the whole graph
OUT/result.json       what came out, written last
"""

import json
import shutil
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.distributions import distribution_to_json
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from reltucker.atomic import is_free, write_json, write_with
from reltucker.errors import GraphError, NoModelError, RunError, StudyError
from reltucker.evaluation import PROTOCOLS
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.progress import TrainingProgress
from reltucker.run import Run
from reltucker.search.bookkeeping import Releaser, plan_trials
from reltucker.search.live import LiveView
from reltucker.search.outcome import Outcome, outcome_of, trial_folder
from reltucker.search.paper_sampler import GUIDED_POINTS, RANDOM_POINTS
from reltucker.search.plan import (
    ObjectiveName,
    Plan,
    PrunerName,
    SamplerName,
    check_plan,
    digest,
    narrowed,
)
from reltucker.search.space import Space, adjusted, extremes
from reltucker.search.storage import HEARTBEAT_SECONDS, open_storage, storage_url, study_lock
from reltucker.search.trial import worker_name, worker_of
from reltucker.search.worker import Job, graph_folder, trials_folder
from reltucker.search.workers import Workers
from reltucker.training import Recipe, RunFolder, Training, build_model, check

PLAN = "plan"
DEFAULT_TRIALS = 30
LARGEST_DEFAULT_GRID = 1_000
POLL_SECONDS = 0.5
PLAN_FILE = "search.json"
RESULT_FILE = "result.json"


@dataclass(frozen=True)
class SearchResult:
    """A search that has ended: its trials, and the best model with its test figures, if it was
    judged."""

    out: Path
    study: str
    plan: Plan
    outcome: Outcome
    run: Path
    test: dict[str, Any]

    @property
    def best(self) -> dict[str, Any]:
        """The best trial, JSON-ready."""
        row = self.outcome.best
        assert row is not None
        return self.point(row)

    def point(self, row: dict[str, Any]) -> dict[str, Any]:
        """A trial, JSON-ready."""
        return {
            "number": row["number"],
            "parameters": self.outcome.values(row),
            "valid_mrr": row["mrr"],
            "effective_parameters": row["effective_parameters"],
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as `reltucker search --json` prints it; the protocols are those of test."""
        skyline: dict[str, Any] = {}
        if self.plan.objective == "skyline":
            skyline["skyline"] = [
                {**self.point(row), "recipe": str(recipe_path(self.out, row))}
                for row in self.outcome.skyline
            ]
        return {
            "study": self.study,
            "trials": len(self.outcome.rows),
            "failed": self.outcome.count("failed"),
            "pruned": self.outcome.count("pruned"),
            "best": self.best,
            **skyline,
            "run": str(self.run),
            **self.test,
        }


def run_search(
    recipe: Recipe,
    space: Space,
    *,
    out: Path | str,
    trials: int | None = None,
    sampler: SamplerName = "tpe",
    pruner: PrunerName = "none",
    objective: ObjectiveName = "mrr",
    max_parameters: int | None = None,
    storage: str | None = None,
    study: str | None = None,
    workers: int = 1,
    seed: int = 0,
    join: bool = False,
    judge: bool = True,
    graph: KnowledgeGraph | None = None,
    progress: bool = True,
    heartbeat: int = HEARTBEAT_SECONDS,
) -> SearchResult | None:
    """Search the space for the settings of the best model, train it and judge it on test once.

    `recipe` names the graph (`graph` is it, where it is open already) and all that is not searched.
    A study that exists goes on. With `join` this machine works on the trials of a study that
    another one has begun, and returns nothing. Without `judge` no test triple is looked at.
    """
    out = Path(out)
    if graph is None:
        source = recipe.graph.source
        assert source is not None
        graph = load_graph(source, labels=recipe.graph.labels, seed=recipe.graph.seed)
    plan = make_plan(
        recipe, space, graph, sampler, pruner, objective, max_parameters=max_parameters, seed=seed
    )
    total = trial_count(plan, trials)
    name = study or f"{Path(graph.name).name}-{recipe.model.name}"
    prepare(out, name, plan, graph)
    url = storage_url(storage, out)
    tables = open_storage(url, heartbeat)
    found = _open_study(name, tables, plan, join)
    job = Job(
        plan=plan, study=name, storage=url, out=out, number=0, heartbeat=heartbeat, is_alone=True
    )
    view = LiveView(name, total, trials_folder(out), is_shown=progress)
    try:
        with view:
            _run_trials(found, tables, plan, total, Workers(job, workers), view, join)
    except (SQLAlchemyError, StorageInternalError) as error:
        raise StudyError(
            f"the storage failed ({_first_line(error)}); the same command goes on"
        ) from error
    if join:
        return None
    return _finish(out, name, plan, graph, outcome_of(found, plan), judge, progress)


def make_plan(
    recipe: Recipe,
    space: Space,
    graph: KnowledgeGraph,
    sampler: SamplerName,
    pruner: PrunerName,
    objective: ObjectiveName,
    *,
    max_parameters: int | None,
    seed: int,
) -> Plan:
    """The plan of a search; what cannot be searched is refused by name."""
    if not graph.is_seen(graph.valid).any():
        raise GraphError(
            f"{graph.name}: a search needs validation triples whose entities occur in train"
        )
    distributions = space.distributions(recipe, len(graph.relations))
    plan = Plan(
        graph=digest(graph),
        entities=len(graph.entities),
        relations=len(graph.relations),
        recipe=recipe,
        space={key: distribution_to_json(value) for key, value in distributions.items()},
        adjustments=list(space.adjustments),
        sampler=sampler,
        pruner=pruner,
        objective=objective,
        max_parameters=max_parameters,
        seed=seed,
    )
    check_plan(plan)
    first = {key: extremes(distribution)[0] for key, distribution in distributions.items()}
    check(adjusted(recipe, first, plan.adjustments), graph)
    for key, distribution in distributions.items():
        for value in extremes(distribution):
            build = adjusted(recipe, {**first, key: value}, plan.adjustments)
            _check_build(build, plan)
    return narrowed(plan)


def outcome_so_far(out: Path) -> Outcome | None:
    """The trials up to now of the search in a folder that has its storage there, or None where
    none was begun. How much settings mattered is left out."""
    path = out / PLAN_FILE
    if not path.is_file() or not (out / "study.db").is_file():
        return None
    name, plan = _read_plan(path)
    storage = open_storage(storage_url(None, out))
    try:
        study = optuna.load_study(study_name=name, storage=storage)
        return outcome_of(study, plan, with_importance=False)
    except KeyError:  # stopped before it was made
        return None
    finally:
        storage.remove_session()
        storage.engine.dispose()


def recipe_path(out: Path, row: dict[str, Any]) -> Path:
    """Where the recipe of a point of the skyline is."""
    return out / "recipes" / f"{row['number']}.toml"


# -- the beginning ----------------------------------------------------------------------------


def _check_build(recipe: Recipe, plan: Plan) -> None:
    import torch

    with torch.device("meta"):
        build_model(recipe, plan.entities, plan.relations)


def trial_count(plan: Plan, trials: int | None) -> int:
    """How many trials are run: what was asked for, but no more than there are grid points."""
    if plan.sampler not in ("paper", "grid"):
        return DEFAULT_TRIALS if trials is None else trials
    grid = plan.grid()
    if trials is not None:
        return min(trials, len(grid))
    if plan.sampler == "paper":
        groups = {point.get("model.entity_dim") for point in grid}
        return min(len(groups) * (RANDOM_POINTS + GUIDED_POINTS), len(grid))
    if len(grid) > LARGEST_DEFAULT_GRID:
        raise StudyError(
            f"the grid has {len(grid):,} points; say by --trials how many of them to try"
        )
    return len(grid)


def prepare(out: Path, study: str, plan: Plan, graph: KnowledgeGraph) -> None:
    """Make the folder, or see that it belongs to the same search."""
    path = out / PLAN_FILE
    if path.is_file():
        name, written = _read_plan(path)
        if name != study:
            raise StudyError(f"{out} holds the study {name!r}; choose another --out for {study!r}")
        _check_same(str(out), written, plan)
    elif not is_free(out):
        raise StudyError(f"{out} exists and holds no search; choose another --out")
    try:
        # The plan first: whatever stops this process then, the next one knows the folder.
        write_json(path, {"study": study, "plan": plan.model_dump(mode="json")})
        # The test triples stay with this process, which looks at them when all trials are done.
        replace(graph, test=graph.test[:0]).save(graph_folder(out))
    except OSError as error:
        raise StudyError(f"{out} cannot be written: {error}") from None


def _read_plan(path: Path) -> tuple[str, Plan]:
    """The name of the study and its plan."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        return str(written["study"]), Plan.model_validate(written["plan"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} is damaged ({_first_line(error)})") from None


def _check_same(where: str, earlier: Plan, plan: Plan) -> None:
    different = plan.differences(earlier)
    if different:
        raise StudyError(
            f"{where} was begun with another {' and '.join(different)}; go on with the same, or "
            "begin a new search with another --out (and --study)"
        )


def _open_study(name: str, storage: RDBStorage, plan: Plan, join: bool) -> Study:
    """The study of this name, with the same plan; a new one unless another machine begins it."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        if join:
            try:
                study = optuna.load_study(study_name=name, storage=storage)
            except KeyError:
                raise StudyError(
                    f"the storage holds no study {name!r} to join; begin it without --join"
                ) from None
        else:
            directions = [StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE]
            study = optuna.create_study(
                study_name=name,
                storage=storage,
                directions=directions[: 2 if plan.objective == "skyline" else 1],
                load_if_exists=True,
            )
    finally:
        optuna.logging.set_verbosity(verbosity)
    with study_lock(storage):
        written = study.user_attrs.get(PLAN)
        if written is None:
            study.set_user_attr(PLAN, plan.model_dump(mode="json"))
            return study
    _check_same(f"the study {name!r}", Plan.model_validate(written), plan)
    return study


# -- the trials -------------------------------------------------------------------------------


def _run_trials(
    study: Study,
    storage: RDBStorage,
    plan: Plan,
    total: int,
    workers: Workers,
    view: LiveView,
    join: bool,
) -> None:
    """Have all trials run, here and elsewhere; those whose workers die are taken up again."""
    releaser = Releaser(study)
    here = worker_name(0).rpartition("/")[0]
    try:
        while True:
            releaser.release()
            if not join:
                with study_lock(storage):
                    plan_trials(study, plan, total)
            trials = study.get_trials(deepcopy=False)
            view.update(trials)
            waiting = sum(trial.state == TrialState.WAITING for trial in trials)
            running = [trial for trial in trials if trial.state == TrialState.RUNNING]
            own = [t for t in running if (worker_of(t) or "").rpartition("/")[0] == here]
            workers.attend(waiting, len(own))
            if not waiting and not len(workers) and (join or not running):
                return
            time.sleep(POLL_SECONDS)
    finally:
        workers.stop()
        releaser.release()


# -- the end ----------------------------------------------------------------------------------


def _finish(
    out: Path,
    study: str,
    plan: Plan,
    graph: KnowledgeGraph,
    outcome: Outcome,
    judge: bool,
    progress: bool,
) -> SearchResult:
    """Write trials and recipes; train the best model if need be, and judge it on test once."""
    write_with(out / "trials.parquet", outcome.frame().write_parquet)
    best = outcome.best
    if best is None:
        reasons = [row["reason"] for row in outcome.rows if row["reason"]]
        reason = f"; the first reason: {reasons[0]}" if reasons else ""
        raise NoModelError(f"none of the {len(outcome.rows)} trials ended with a model{reason}")
    recipe = _recipe_of(plan, outcome, best)
    recipe.save(out / "best.toml")
    if plan.objective == "skyline":
        for row in outcome.skyline:
            _recipe_of(plan, outcome, row).save(recipe_path(out, row))
    run = out / "best"
    earlier = _earlier_result(out, best)
    if earlier is None:
        trial = trial_folder(trials_folder(out), best)
        _train_if_elsewhere(trial, recipe, graph, progress)
        _copy_run(trial, run, graph)
    figures = earlier or {}
    if judge and not set(PROTOCOLS) <= set(figures):
        figures = Run(run).evaluate("test", progress=progress).to_dict()
    test: dict[str, Any] = {p: figures[p] for p in PROTOCOLS if p in figures}
    result = SearchResult(out, study, plan, outcome, run, test)
    write_json(out / RESULT_FILE, result.to_dict())
    return result


def run_of(out: Path, row: dict[str, Any]) -> Path:
    """The run of a trial: OUT/best, with the whole graph, where it is the best of a search that
    has ended, else the trial's own, which knows no test triples."""
    is_kept = _earlier_result(out, row) is not None
    return out / "best" if is_kept else trial_folder(trials_folder(out), row)


def _recipe_of(plan: Plan, outcome: Outcome, row: dict[str, Any]) -> Recipe:
    recipe, _ = plan.recipe_for(outcome.values(row))
    assert recipe is not None, "a trial that ended keeps to the limit"
    return recipe


def _earlier_result(out: Path, best: dict[str, Any]) -> dict[str, Any] | None:
    """What was written where the search had ended before with the same best trial."""
    path = out / RESULT_FILE
    try:
        earlier: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if earlier["best"]["number"] != best["number"] or not (out / "best").is_dir():
            return None
        return earlier
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} is damaged ({_first_line(error)}); remove it") from None


def _train_if_elsewhere(path: Path, recipe: Recipe, graph: KnowledgeGraph, progress: bool) -> None:
    """The run of a trial that another machine has done, trained again here; a run that is here
    stays as it is."""
    blind = replace(graph, test=graph.test[:0])
    folder = RunFolder(path)
    if not folder.exists():
        folder = RunFolder.create(path, recipe, blind)
    if folder.result() is not None:
        return
    shown = TrainingProgress("best", recipe.train.epochs) if progress else None
    with shown or nullcontext():
        training = Training(recipe, blind, folder, shown)
        training.restore()
        training.run()


def _copy_run(trial: Path, run: Path, graph: KnowledgeGraph) -> None:
    """The best trial's run as one of its own, with the whole graph beside the weights."""
    working = run.with_name(f".{run.name}.tmp")
    try:
        shutil.rmtree(working, ignore_errors=True)
        shutil.copytree(trial, working)
        graph.save(working)
        shutil.rmtree(run, ignore_errors=True)
        working.rename(run)
    except OSError as error:
        raise RunError(f"{run} cannot be written: {error}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
