"""What a trial does: one training run in a folder of its own, resumable; failing is a result."""

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from optuna import Trial, TrialPruned

from reltucker.errors import EndedTooEarlyError, FolderInUseError, ReltuckerError
from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan
from reltucker.search.timing import has_model, seconds_left
from reltucker.search.trials import (
    CONTINUES,
    CUT,
    FAILURE,
    FIGURES,
    FOLDER,
    LIMIT,
    OUT_OF_MEMORY,
    OVER_BUDGET,
    PROGRESS,
    START,
    WORKER,
    worker_name,
)
from reltucker.training import (
    CHECKPOINT,
    RESULT,
    Enough,
    Recipe,
    RunFolder,
    Training,
    Watcher,
    settled,
)

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

    settings = plan.suggest(trial)
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
        if CONTINUES in trial.user_attrs:
            _go_on(runs, path, trial, settled(recipe, graph))
        result = trained(path, recipe, graph, reporter_of(trial, plan))
    except (TrialPruned, EndedTooEarlyError):
        (path / CHECKPOINT).unlink(missing_ok=True)
        raise TrialPruned from None
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        trial.set_user_attr(FAILURE, reason)
        return values(WORST, plan.largest())
    for name in FIGURES:
        trial.set_user_attr(name, result[name])
    if result.get("ended_early"):
        trial.set_user_attr(CUT, result["epochs"])
    else:
        # Its work is done, and hundreds of them fill a disk.
        (path / CHECKPOINT).unlink(missing_ok=True)
    return values(result["seen"]["mrr"], result["effective_parameters"])


def trained(
    path: Path, recipe: Recipe, graph: KnowledgeGraph, watcher: Watcher | None
) -> dict[str, Any]:
    """The result of the run in a folder: it is begun, goes on from its checkpoint, or had ended."""
    folder, recipe = RunFolder(path), settled(recipe, graph)
    with folder.writing():
        if not folder.exists() or not folder.recipe().gives_same(recipe):
            folder = RunFolder.create(path, recipe, graph)
        result = folder.result()
        if result is None:
            training = Training(recipe, graph, folder, watcher)
            training.restore()
            result = training.run()
    return result


def _go_on(runs: Path, path: Path, trial: Trial, recipe: Recipe) -> None:
    """Make the folder of a run that goes on where that of another trial was cut. That one stays as
    it is, but for its checkpoint. Where it is not on this machine, training begins anew."""
    earlier = trial.study.get_trials(deepcopy=False)[trial.user_attrs[CONTINUES]]
    source = runs / str(earlier.user_attrs[FOLDER])
    if path.exists() or not source.exists():
        return
    working = runs / f".{path.name}.tmp"
    shutil.rmtree(working, ignore_errors=True)
    shutil.copytree(source, working)
    (working / RESULT).unlink(missing_ok=True)
    RunFolder(working).save_recipe(recipe)
    working.rename(path)
    (source / CHECKPOINT).unlink(missing_ok=True)


def reporter_of(trial: Trial, plan: Plan) -> "Reporter":
    """Who watches the training of a trial."""
    return Reporter(trial, plan) if plan.share is None else TimedReporter(trial, plan, plan.share)


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


class TimedReporter(Reporter):
    """Ends the training of a trial of a timed search when its time is over; but one trial at least
    must come to a model.

    Optuna is told of the best MRR after each tenth of the share that trials begin with, so that
    they are compared by what they reach in equal times, not in equal epochs. Where the search
    begins is not pruned, nor is what goes on.
    """

    TENTHS = 10
    TOLD_EVERY = 1.0

    def __init__(self, trial: Trial, plan: Plan, share: float) -> None:
        super().__init__(trial, plan)
        self.share = share
        self.limit = trial.user_attrs.get(LIMIT, share)
        self.ends = time.time() + seconds_left(trial.study)
        self.is_needed = not has_model(trial.study.get_trials(deepcopy=False))
        self.best: float | None = None
        self.told = 0.0
        self.epochs: list[float] = []
        self.is_prunable = not {START, CONTINUES} & set(trial.user_attrs)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Nothing runs on when the time of the search is over."""
        if time.time() >= self.ends and not self.is_needed:
            raise Enough

    def epoch(self, record: dict[str, Any]) -> None:
        """Tell of an epoch, and end training where the time of the trial is over."""
        seconds, mrr = float(record["seconds"]), None
        if "valid" in record:
            mrr = float(record["valid"]["seen"]["mrr"])
            self.best = mrr if self.best is None else max(self.best, mrr)
        if time.time() - self.told >= self.TOLD_EVERY:
            self.told = time.time()
            self.trial.set_user_attr(PROGRESS, [int(record["epoch"]), mrr])
        # The first epoch of a process also compiles loops; it counts as much as the second.
        self.epochs.append(float(record["epoch_seconds"]))
        if self.best is None or (len(self.epochs) == 1 and time.time() < self.ends):
            return
        seconds -= max(0.0, self.epochs[0] - self.epochs[-1 if len(self.epochs) < 2 else 1])
        if self.is_single and CONTINUES not in self.trial.user_attrs:
            self._report(min(self.TENTHS, int(self.TENTHS * seconds / self.share)), self.best)
        if time.time() >= self.ends or (self.limit is not None and seconds >= self.limit):
            raise Enough

    def _report(self, tenths: int, best: float) -> None:
        new = [tenth for tenth in range(1, tenths + 1) if tenth not in self.reported]
        for tenth in new:
            self.reported.add(tenth)
            self.trial.report(best, tenth)
        if new and self.is_prunable and self.trial.should_prune():
            raise TrialPruned


def reason_of(error: Exception) -> str | None:
    """Why these settings cannot be trained, in one line; None where they are not to blame.

    A full disk, a lost database or a folder in use is the machine's fault, and any other error is
    the program's.
    """
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and re.search("out of memory|enough memory|allocate memory", str(error))
    ):
        return OUT_OF_MEMORY
    if isinstance(error, FolderInUseError) or isinstance(error.__cause__, OSError):
        return None
    if isinstance(error, ReltuckerError):
        return " ".join(str(error).split())[:500]
    return None
