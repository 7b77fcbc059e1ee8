"""What a trial does: one training run in a folder of its own, resumable; failing is a result."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from optuna import Trial, TrialPruned

from reltucker.errors import ReltuckerError
from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan
from reltucker.search.space import suggest
from reltucker.search.trials import (
    FAILURE,
    FIGURES,
    FOLDER,
    OVER_BUDGET,
    PROGRESS,
    WORKER,
    worker_name,
)
from reltucker.training import CHECKPOINT, Recipe, RunFolder, Training, Watcher, settled

WORST = 0.0
"""The MRR of a trial that failed."""


def run_trial(
    trial: Trial, plan: Plan, graph: KnowledgeGraph, runs: Path, taken: Callable[[], None]
) -> float | Sequence[float]:
    """Train, or go on with training, in a folder in `runs`; note figures, or why it failed.

    Returns validation MRR, for the skyline also the effective parameters. `taken` is called when
    the study knows the settings and the worker of the trial.
    """

    def values(mrr: float, parameters: int) -> float | Sequence[float]:
        return mrr if plan.objective == "mrr" else (mrr, float(parameters))

    settings = {key: suggest(trial, key, among) for key, among in plan.space.items()}
    if FOLDER not in trial.user_attrs:
        trial.set_user_attr(FOLDER, str(trial.number))
    trial.set_user_attr(WORKER, worker_name(os.getpid()))
    taken()
    recipe, bounds = plan.recipe_for(settings)
    if recipe is None:
        trial.set_user_attr(OVER_BUDGET, bounds.least)
        return values(WORST, plan.largest())
    path = runs / str(trial.user_attrs[FOLDER])
    try:
        result = trained(path, recipe, graph, Reporter(trial, plan))
    except TrialPruned:
        (path / CHECKPOINT).unlink(missing_ok=True)
        raise
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        trial.set_user_attr(FAILURE, reason)
        return values(WORST, plan.largest())
    for name in FIGURES:
        trial.set_user_attr(name, result[name])
    # Its work is done, and hundreds of them fill a disk.
    (path / CHECKPOINT).unlink(missing_ok=True)
    return values(result["seen"]["mrr"], result["effective_parameters"])


def trained(
    path: Path, recipe: Recipe, graph: KnowledgeGraph, watcher: Watcher | None
) -> dict[str, Any]:
    """The result of the run in a folder: it is begun, goes on from its checkpoint, or had ended."""
    folder, recipe = RunFolder(path), settled(recipe, graph)
    if not folder.exists() or folder.recipe() != recipe:
        folder = RunFolder.create(path, recipe, graph)
    result = folder.result()
    if result is None:
        training = Training(recipe, graph, folder, watcher)
        training.restore()
        result = training.run()
    return result


class Reporter:
    """Watches the training of a trial: tells Optuna of each epoch, and stops what is pruned."""

    def __init__(self, trial: Trial, plan: Plan) -> None:
        self.trial = trial
        self.is_single = plan.objective == "mrr"
        trials = trial.study.get_trials(deepcopy=False)
        self.reported = set(trials[trial.number].intermediate_values)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Steps are too many to be told."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Tell of an epoch; those before an interruption were told already."""
        epoch = int(record["epoch"])
        mrr = record["valid"]["seen"]["mrr"] if "valid" in record else None
        self.trial.set_user_attr(PROGRESS, [epoch, mrr])
        if not self.is_single or mrr is None or epoch in self.reported:
            return
        self.trial.report(mrr, epoch)
        if self.trial.should_prune():
            raise TrialPruned


def reason_of(error: Exception) -> str | None:
    """Why these settings cannot be trained, in one line; None where they are not to blame.

    A full disk or a lost database is the machine's fault, and any other error is the program's.
    """
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and re.search("out of memory|enough memory|allocate memory", str(error))
    ):
        return "out of memory"
    if isinstance(error, ReltuckerError) and not isinstance(error.__cause__, OSError):
        return " ".join(str(error).split())[:500]
    return None
