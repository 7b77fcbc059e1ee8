"""The end of a search: the best model is kept, and judged on test once."""

import shutil
from contextlib import nullcontext
from typing import Any

from reltucker.atomic import write_with
from reltucker.errors import NoModelError
from reltucker.evaluation import (
    FULL_FILTER,
    PROTOCOLS,
    add_calibration,
    fully_filtered,
    rank_split,
)
from reltucker.graph import KnowledgeGraph
from reltucker.progress import TrainingProgress, track
from reltucker.search.ensemble import GAIN, choose_trials
from reltucker.search.folder import SearchFolder, without_test
from reltucker.search.objective import trained
from reltucker.search.outcome import Outcome
from reltucker.search.plan import Plan
from reltucker.search.trials import CUT
from reltucker.training import Recipe, RunFolder, merge_runs, settled, trained_model

MERGED = "merged"
"""Under this, the result says what the best model was merged from."""


def finish(
    folder: SearchFolder,
    plan: Plan,
    outcome: Outcome,
    graph: KnowledgeGraph,
    *,
    merge_seconds: float,
    judge: bool,
    progress: bool,
) -> dict[str, Any]:
    """Write trials, recipes and the run of the best model: that of the best trial or, where there
    are seconds to choose them, several that are better together. Returns its figures on test by
    protocol, and what it was merged from.

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
        if row[CUT] is not None:
            recipe = recipe.with_values({"train.epochs": row[CUT]})
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
        merged = _merge(folder, outcome, without_test(graph), merge_seconds)
        folder.keep_best(folder.merged if merged else folder.trial(best), graph)
        shutil.rmtree(folder.merged, ignore_errors=True)
        earlier = {MERGED: merged} if merged else {}
        add_calibration(trained_model(RunFolder(folder.best), graph), graph, folder.best)
    known = {key: earlier[key] for key in (MERGED, *PROTOCOLS, FULL_FILTER) if key in earlier}
    if not judge or set(PROTOCOLS) <= set(known):
        return known
    run = RunFolder(folder.best)
    graph = run.graph()
    model = trained_model(run, graph)
    with track("ranking test", 2 * len(graph.test), "queries", progress) as advance:
        metrics = rank_split(model, graph, "test", advance=advance).metrics()
    known |= {protocol: metrics[protocol].to_dict() for protocol in PROTOCOLS}
    return known | fully_filtered(model, graph, graph.valid)


def _merge(
    folder: SearchFolder, outcome: Outcome, graph: KnowledgeGraph, seconds: float
) -> dict[str, Any] | None:
    """Merge the trials that are better together, if there are such; says which."""
    if seconds <= 0.0 or len(outcome.complete) < 2:
        return None
    rows = choose_trials(folder, outcome, graph, seconds)
    if len(rows) < 2:
        return None
    shutil.rmtree(folder.merged, ignore_errors=True)
    result = merge_runs([folder.trial(row) for row in rows], folder.merged, progress=False)
    mrr = result["seen"]["mrr"]
    if mrr < rows[0]["mrr"] + GAIN:
        return None
    parts = [
        {"number": row["number"], "weight": part["weight"]}
        for row, part in zip(rows, result["merged_from"], strict=True)
    ]
    sizes = {"effective_parameters": result["effective_parameters"]}
    return {"trials": parts, "valid_mrr": mrr, **sizes}
