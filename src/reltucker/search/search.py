"""A search from its beginning to the best model: plan, trials, result."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from reltucker.atomic import write_with
from reltucker.choices import ObjectiveName, PrunerName, SamplerName
from reltucker.errors import NoModelError, StudyError
from reltucker.evaluation import PROTOCOLS, rank_split
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.progress import TrainingProgress, track
from reltucker.search.folder import SearchFolder, first_line, without_test
from reltucker.search.live import LiveView
from reltucker.search.objective import trained
from reltucker.search.outcome import Outcome, outcome_of
from reltucker.search.plan import Plan, make_plan
from reltucker.search.space import Space
from reltucker.search.storage import open_storage, storage_url, study_lock
from reltucker.search.trials import OVER_BUDGET, PLAN, TOTAL, left, release
from reltucker.search.workers import Workers
from reltucker.training import Recipe, RunFolder, settled, trained_model

POLL_SECONDS = 0.5

TOO_MANY = 20
"""A search gives up at so many settings over the limit for each trial that was asked for."""


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
        folder, front = SearchFolder(self.out), self.outcome.skyline
        points = [{**self.point(row), "recipe": str(folder.recipe(row))} for row in front]
        return {
            "study": self.study,
            "trials": len(self.outcome.rows),
            "failed": self.outcome.count("failed"),
            "pruned": self.outcome.count("pruned"),
            "best": self.best,
            **({"skyline": points} if self.plan.objective == "skyline" else {}),
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
) -> SearchResult | None:
    """Search the space for the settings of the best model, train it and judge it on test once.

    `recipe` names the graph (`graph` is it, where it is open already) and all that is not searched.
    A study that exists goes on. With `join` this machine works on the trials of a study that
    another one has begun, and returns nothing. Without `judge` no test triple is looked at.
    """
    if graph is None:
        source = recipe.graph.source
        assert source is not None
        graph = load_graph(source, labels=recipe.graph.labels, seed=recipe.graph.seed)
    plan = make_plan(
        recipe, space, graph, sampler, pruner, objective, max_parameters=max_parameters, seed=seed
    )
    total = plan.trial_count(trials)
    folder = SearchFolder(out)
    name = study or f"{Path(graph.name).name}-{recipe.model.name}"
    folder.prepare(name, plan, graph)
    url = storage_url(storage, folder.path)
    found = _open_study(name, plan, url, None if join else total)
    try:
        with LiveView(name, total, is_shown=progress) as view:
            _run_trials(found, plan, url, Workers(folder.path, url, workers), view, join)
    except (SQLAlchemyError, StorageInternalError) as error:
        raise StudyError(
            f"the storage failed ({first_line(error)}); the same command goes on"
        ) from error
    if join:
        return None
    outcome = outcome_of(found, plan)
    test = _finish(folder, plan, outcome, graph, judge, progress)
    result = SearchResult(folder.path, name, plan, outcome, folder.best, test)
    folder.write_result(result.to_dict())
    return result


def outcome_so_far(out: Path) -> Outcome | None:
    """The trials up to now of the search in a folder that has its storage there, or None where
    none was begun. How much settings mattered is left out."""
    begun = SearchFolder(out).plan()
    if begun is None or not (out / "study.db").is_file():
        return None
    name, plan = begun
    try:
        study = optuna.load_study(study_name=name, storage=open_storage(storage_url(None, out)))
    except KeyError:  # stopped before it was made
        return None
    return outcome_of(study, plan, with_importance=False)


# -- the trials -------------------------------------------------------------------------------


def _open_study(name: str, plan: Plan, url: str, total: int | None) -> Study:
    """The study, with the same plan; without a total it is one that another machine has begun."""
    storage = open_storage(url)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        if total is None:
            study = optuna.load_study(study_name=name, storage=storage)
        else:
            study = optuna.create_study(
                study_name=name,
                storage=storage,
                directions=plan.directions(),
                load_if_exists=True,
            )
    except KeyError:
        raise StudyError(
            f"the storage holds no study {name!r} to join; begin it without --join"
        ) from None
    finally:
        optuna.logging.set_verbosity(verbosity)
    with study_lock(url):
        if PLAN not in study.user_attrs:
            study.set_user_attr(PLAN, plan.model_dump(mode="json"))
        plan.check_same(Plan.model_validate(study.user_attrs[PLAN]), f"the study {name!r}")
        if total is not None:
            study.set_user_attr(TOTAL, total)
    return study


def _run_trials(
    study: Study, plan: Plan, url: str, workers: Workers, view: LiveView, join: bool
) -> None:
    """Have all trials run, here and elsewhere; those whose workers die are taken up again."""

    def look() -> tuple[list[FrozenTrial], int]:
        with study_lock(url):
            release(study)
        trials = study.get_trials(deepcopy=False)
        return trials, left(study, trials)

    # The database is read in a thread, where Ctrl-C cannot break into a transaction.
    with ThreadPoolExecutor(1) as reader:
        try:
            while True:
                trials, remaining = reader.submit(look).result()
                view.update(trials)
                over = sum(OVER_BUDGET in trial.user_attrs for trial in trials)
                if over > TOO_MANY * view.total:
                    raise StudyError(
                        f"{over} settings had more than {plan.max_parameters:,} effective "
                        "parameters; give the space smaller sizes"
                    )
                running = sum(trial.state == TrialState.RUNNING for trial in trials)
                workers.attend(remaining, running)
                if not remaining and not len(workers) and (join or not running):
                    return
                time.sleep(POLL_SECONDS)
        finally:
            workers.stop()
            reader.submit(look).result()


# -- the end ----------------------------------------------------------------------------------


def _finish(
    folder: SearchFolder,
    plan: Plan,
    outcome: Outcome,
    graph: KnowledgeGraph,
    judge: bool,
    progress: bool,
) -> dict[str, Any]:
    """Write trials, recipes and the best model's run; its figures on test by protocol.

    What an earlier start has done with the same best trial is not done again.
    """
    write_with(folder.path / "trials.parquet", outcome.frame().write_parquet)
    best = outcome.best
    if best is None:
        reasons = [row["reason"] for row in outcome.rows if row["reason"]]
        reason = f"; the first reason: {reasons[0]}" if reasons else ""
        raise NoModelError(f"none of the {len(outcome.rows)} trials ended with a model{reason}")

    def recipe_of(row: dict[str, Any]) -> Recipe:
        recipe, _ = plan.recipe_for(outcome.values(row))
        assert recipe is not None, "a trial that ended keeps to the limit"
        return settled(recipe, graph)

    recipe = recipe_of(best)
    recipe.save(folder.path / "best.toml")
    if plan.objective == "skyline":
        for row in outcome.skyline:
            recipe_of(row).save(folder.recipe(row))
    earlier = folder.result(best)
    if earlier is None:
        # The run of a trial of another machine is trained again; one that is here stays as it is.
        shown = TrainingProgress("best", recipe.train.epochs) if progress else None
        with shown or nullcontext():
            trained(folder.trial(best), recipe, without_test(graph), shown)
        folder.keep_best(folder.trial(best), graph)
        earlier = {}
    if not judge or set(PROTOCOLS) <= set(earlier):
        return {protocol: earlier[protocol] for protocol in PROTOCOLS if protocol in earlier}
    run = RunFolder(folder.best)
    graph = run.graph()
    model = trained_model(run, graph)
    with track("ranking test", 2 * len(graph.test), "queries", progress) as advance:
        metrics = rank_split(model, graph, "test", advance=advance).metrics()
    return {protocol: metrics[protocol].to_dict() for protocol in PROTOCOLS}
