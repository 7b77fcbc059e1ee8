"""A search from its beginning to the best model: plan, trials, result."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from reltucker.choices import ObjectiveName, PrunerName, SamplerName
from reltucker.errors import RecipeError, StudyError
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.search.ending import MERGED, finish
from reltucker.search.folder import SearchFolder, first_line
from reltucker.search.live import LiveView
from reltucker.search.outcome import Outcome, outcome_of
from reltucker.search.plan import DEFAULT_TRIALS, Plan, make_plan
from reltucker.search.space import Space
from reltucker.search.storage import open_storage, shown_url, storage_url, study_lock
from reltucker.search.timing import Clock, first_share, has_model, left, reserve_for
from reltucker.search.trials import (
    OVER_BUDGET,
    PLAN,
    START,
    TOTAL,
    release,
    take_up_again,
)
from reltucker.search.workers import Workers
from reltucker.training import Recipe

POLL_SECONDS = 0.5

TOO_MANY = 20
"""A search gives up at so many settings over the limit for each trial that was asked for."""

LATE = 0.5
"""Of the time that is kept for the end, when workers are no longer waited for."""

MERGE_SECONDS, MERGE_PART = 600.0, 0.4
"""What merging may take without a limit of time; and its part of that, or of what is left."""

ENDLESS = 1_000_000
"""Trials of a search that only its time ends."""


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
    merged: dict[str, Any] | None = None
    """Which trials the model was merged from, with what validation MRR; None where it is that of
    the best trial."""

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
            **({"merged": self.merged} if self.merged else {}),
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
    minutes: float | None = None,
    sampler: SamplerName = "tpe",
    pruner: PrunerName | None = None,
    objective: ObjectiveName = "mrr",
    max_parameters: int | None = None,
    storage: str | None = None,
    study: str | None = None,
    workers: int = 1,
    seed: int = 0,
    join: bool = False,
    merge: bool | None = None,
    judge: bool = True,
    graph: KnowledgeGraph | None = None,
    progress: bool = True,
) -> SearchResult | None:
    """Search the space for the settings of the best model, train it and judge it on test once.

    `recipe` names the graph (`graph` is it, where it is open already) and all that is not searched.
    The search ends with the last of `trials`, or when `minutes` are over, all of its starts taken
    together; with a limit of time, poor trials are pruned unless `pruner` is "none".
    A study that exists goes on. With `join` this machine works on the trials of a study that
    another one has begun, and returns nothing. With `merge`, which is usual where the space has
    regions, the best model may be a merge of several trials. Without `judge` no test triple is
    looked at.
    """
    began = time.monotonic()
    if graph is None:
        source = recipe.graph.source
        assert source is not None
        graph = load_graph(source, **recipe.graph.reading())
    if minutes is not None and objective == "skyline":
        raise RecipeError("--objective skyline has no --minutes; say by --trials how many to try")
    folder = SearchFolder(out)
    name = study or study_name(graph.name, recipe, space)
    url = storage_url(storage, folder.path)
    begun = folder.plan() or (_stored_plan(name, url) if join else None)
    share = None if minutes is None else first_share(minutes, workers)
    if begun is not None:
        # Sizes were chosen for the first share; more minutes or workers do not change them.
        if (begun[1].share is None) != (share is None):
            how = "without" if share is not None else "with"
            raise StudyError(f"{out} was begun {how} --minutes; go on so, or choose another --out")
        share = begun[1].share
    plan = make_plan(
        recipe,
        space,
        graph,
        sampler,
        pruner or ("none" if minutes is None else "median"),
        objective,
        max_parameters=max_parameters,
        seed=seed,
        share=share,
    )
    total = ENDLESS if trials is None and minutes is not None else plan.trial_count(trials)
    with folder.held(join):
        folder.prepare(name, plan, graph)
        found = _open_study(name, plan, url, None if join else total)
        clock = None
        if minutes is not None and not join:
            clock = Clock(found, 60.0 * minutes, reserve_for(plan, graph, 60.0 * minutes), began)
        try:
            with LiveView(
                name, None if total == ENDLESS else total, clock, is_shown=progress
            ) as view:
                crew = Workers(folder.path, url, workers)
                _run_trials(found, plan, url, crew, view, clock, join)
        except (SQLAlchemyError, StorageInternalError) as error:
            raise StudyError(
                f"{shown_url(url)}: the storage failed ({first_line(error)}); the same command "
                "goes on"
            ) from error
        if join:
            return None
        outcome = outcome_of(found, plan)
        merging = 0.0
        if plan.max_parameters is None and plan.objective == "mrr":
            limit = MERGE_SECONDS if clock is None else max(clock.left(), clock.reserve)
            merging = (
                limit * MERGE_PART if (bool(plan.regions) if merge is None else merge) else 0.0
            )
        test = finish(
            folder, plan, outcome, graph, merge_seconds=merging, judge=judge, progress=progress
        )
        if clock is not None:
            clock.note(now=True)
        merged = test.pop(MERGED, None)
        result = SearchResult(folder.path, name, plan, outcome, folder.best, test, merged)
        folder.write_result(result.to_dict())
        return result


def study_name(graph: str, recipe: Recipe, space: Space) -> str:
    """GRAPH-MODEL, or GRAPH where the model is searched, too."""
    models = {region.settings.get("model.name") for region in space.regions} - {None}
    return Path(graph).name + ("" if models else f"-{recipe.model.name}")


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
            if not study.trials:
                for start in plan.starts()[:total]:
                    study.enqueue_trial(start, user_attrs={START: True})
            take_up_again(study)
    return study


def _stored_plan(name: str, url: str) -> tuple[str, Plan] | None:
    """The plan of a study that another machine has begun, if it has."""
    try:
        study = optuna.load_study(study_name=name, storage=open_storage(url))
    except (KeyError, StudyError):  # which is told of when it is opened
        return None
    stored = study.user_attrs.get(PLAN)
    return None if stored is None else (name, Plan.model_validate(stored))


def _run_trials(
    study: Study,
    plan: Plan,
    url: str,
    workers: Workers,
    view: LiveView,
    clock: Clock | None,
    join: bool,
) -> None:
    """Have all trials run, here and elsewhere; those whose workers die are taken up again."""

    def look() -> tuple[list[FrozenTrial], int]:
        with study_lock(url):
            release(study)
        if clock is not None:
            clock.note()
        trials = study.get_trials(deepcopy=False)
        return trials, left(study, trials, plan.share)

    # The database is read in a thread, where Ctrl-C cannot break into a transaction.
    with ThreadPoolExecutor(1) as reader:
        try:
            while True:
                trials, remaining = reader.submit(look).result()
                view.update(trials)
                over = sum(OVER_BUDGET in trial.user_attrs for trial in trials)
                if over > TOO_MANY * (view.total or DEFAULT_TRIALS):
                    raise StudyError(
                        f"{over} settings had more than {plan.max_parameters:,} effective "
                        "parameters; give the space smaller sizes"
                    )
                running = sum(trial.state == TrialState.RUNNING for trial in trials)
                workers.attend(remaining, running)
                if not remaining and not len(workers) and (join or not running):
                    return
                is_late = clock is not None and clock.left() < clock.reserve * LATE
                if is_late and has_model(trials):
                    return  # what has not come to its end in order is ended
                time.sleep(POLL_SECONDS)
        finally:
            workers.stop()
            reader.submit(look).result()
