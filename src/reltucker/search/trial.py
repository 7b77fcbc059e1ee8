"""A trial: one training run in a folder of its own, resumable, whose failure is a result too."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optuna import Trial, TrialPruned
from optuna.trial import FrozenTrial, TrialState

from reltucker.errors import ReltuckerError, RunError
from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan
from reltucker.search.space import suggest
from reltucker.training import CHECKPOINT, Recipe, RunFolder, Training

# What is noted with a trial, as its user attributes.
FOLDER = "folder"
WORKER = "worker"
FAILURE = "failure"
OVER_BUDGET = "over_budget"
FIGURES = ("effective_parameters", "core_density", "epochs", "best_epoch", "seconds")

WORST = 0.0
"""The MRR of a trial that failed."""

LOST = 3
"""Exit code of a worker whose trial was given to another one."""


class Objective:
    """What Optuna calls for each trial: settings in, validation MRR (and size) out."""

    def __init__(self, plan: Plan, graph: KnowledgeGraph, trials: Path) -> None:
        self.plan = plan
        self.graph = graph
        self.trials = trials
        self.distributions = plan.distributions()
        self.largest = plan.largest()

    def __call__(self, trial: Trial) -> float | Sequence[float]:
        """Train, or go on with training, and note figures or the reason of failure."""
        trial.set_user_attr(WORKER, [trial.number, worker_name(os.getpid())])
        if FOLDER not in trial.user_attrs:
            trial.set_user_attr(FOLDER, str(trial.number))
        values = {key: suggest(trial, key, d) for key, d in self.distributions.items()}
        recipe, bounds = self.plan.recipe_for(values)
        if recipe is None:
            trial.set_user_attr(OVER_BUDGET, bounds.least)
            return self._values(WORST, self.largest)
        try:
            result = self._trained(trial, recipe)
        except TrialPruned:
            (self._folder(trial) / CHECKPOINT).unlink(missing_ok=True)
            raise
        except Exception as error:
            if is_environment(error):
                raise  # a full disk is no fault of these settings
            trial.set_user_attr(FAILURE, reason_of(error))
            return self._values(WORST, self.largest)
        for name in FIGURES:
            trial.set_user_attr(name, result[name])
        # Its work is done, and hundreds of them fill a disk.
        (self._folder(trial) / CHECKPOINT).unlink(missing_ok=True)
        return self._values(result["seen"]["mrr"], result["effective_parameters"])

    def _values(self, mrr: float, parameters: int) -> float | Sequence[float]:
        return mrr if self.plan.objective == "mrr" else (mrr, float(parameters))

    def _folder(self, trial: Trial) -> Path:
        return self.trials / str(trial.user_attrs[FOLDER])

    def _trained(self, trial: Trial, recipe: Recipe) -> dict[str, Any]:
        """The result of the trial's run; one that was interrupted goes on from its checkpoint."""
        folder = RunFolder(self._folder(trial))
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
        self.reported = set(trial.storage.get_trial(trial._trial_id).intermediate_values)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Steps are too many to be told."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Tell of an epoch that was validated; those before an interruption were told already."""
        if self.trial.storage.get_trial(self.trial._trial_id).state != TrialState.RUNNING:
            # The machine slept for so long that another worker has the trial now.
            os._exit(LOST)
        epoch = int(record["epoch"])
        if not self.is_single or "valid" not in record or epoch in self.reported:
            return
        self.trial.report(record["valid"]["seen"]["mrr"], epoch)
        if self.trial.should_prune():
            raise TrialPruned


def worker_name(process: int) -> str:
    """A process of a machine (and of a container in it)."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{platform.node()}/{space}/{process}"


def worker_of(trial: FrozenTrial) -> str | None:
    """Who runs a trial; None before it has begun, though it may name whom it was taken from."""
    number, name = trial.user_attrs.get(WORKER, (None, ""))
    return str(name) if number == trial.number else None


def is_dead(worker: str) -> bool:
    """Whether a worker is known to have ended: only those of this machine can be known."""
    process = int(worker.rpartition("/")[2])
    if worker != worker_name(process) or os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def is_environment(error: Exception) -> bool:
    """Whether the machine rather than the trial's settings is at fault: disk, network, database."""
    if isinstance(error, ReltuckerError):
        return isinstance(error, RunError) and isinstance(error.__cause__, OSError)
    return isinstance(error, OSError) or type(error).__module__.startswith(("sqlalchemy", "optuna"))


def reason_of(error: Exception) -> str:
    """Why a trial failed, in one line."""
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "memory" in str(error)
    ):
        return "out of memory"
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, ReltuckerError) else f"{type(error).__name__}: {text}"
