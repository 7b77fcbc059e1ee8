"""What a trial does: one training run in a folder of its own, resumable; failing is a result."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from optuna import Trial, TrialPruned
from optuna.exceptions import UpdateFinishedTrialError

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
from reltucker.training import CHECKPOINT, Recipe, RunFolder, Training

WORST = 0.0
"""The MRR of a trial that failed."""

LOST = 3
"""Exit code of a worker whose trial was given to another one."""


class Objective:
    """What Optuna asks for each trial: settings in, validation MRR (and size) out."""

    def __init__(self, plan: Plan, graph: KnowledgeGraph, trials: Path) -> None:
        self.plan = plan
        self.graph = graph
        self.trials = trials

    def __call__(self, trial: Trial, taken: Callable[[], None]) -> float | Sequence[float]:
        """Train, or go on with training, and note figures or the reason of failure.

        `taken` is called when the study knows the settings and the worker of the trial.
        """
        try:
            return self._run(trial, taken)
        except UpdateFinishedTrialError:
            _leave()

    def _run(self, trial: Trial, taken: Callable[[], None]) -> float | Sequence[float]:
        space = self.plan.distributions()
        values = {key: suggest(trial, key, distribution) for key, distribution in space.items()}
        if FOLDER not in trial.user_attrs:
            trial.set_user_attr(FOLDER, str(trial.number))
        trial.set_user_attr(WORKER, worker_name(os.getpid()))
        taken()
        recipe, bounds = self.plan.recipe_for(values)
        if recipe is None:
            trial.set_user_attr(OVER_BUDGET, bounds.least)
            return self._values(WORST, self.plan.largest())
        folder = RunFolder(self.trials / str(trial.user_attrs[FOLDER]))
        try:
            result = self._trained(trial, folder, recipe)
        except TrialPruned:
            (folder.path / CHECKPOINT).unlink(missing_ok=True)
            raise
        except Exception as error:
            reason = reason_of(error)
            if reason is None:
                raise
            trial.set_user_attr(FAILURE, reason)
            return self._values(WORST, self.plan.largest())
        for name in FIGURES:
            trial.set_user_attr(name, result[name])
        # Its work is done, and hundreds of them fill a disk.
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
        return self._values(result["seen"]["mrr"], result["effective_parameters"])

    def _values(self, mrr: float, parameters: int) -> float | Sequence[float]:
        return mrr if self.plan.objective == "mrr" else (mrr, float(parameters))

    def _trained(self, trial: Trial, folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
        """The result of the trial's run; one that was interrupted goes on from its checkpoint."""
        if folder.exists() and folder.recipe() == recipe:
            result = folder.result()
            if result is not None:
                return result
        else:
            folder = RunFolder.create(folder.path, recipe, self.graph)
        training = Training(recipe, self.graph, folder, Reporter(trial, self.plan))
        training.restore()
        return training.run()


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


def _leave() -> NoReturn:
    """The machine slept for so long that another worker has the trial now, and its folder."""
    os._exit(LOST)
