"""Which trials of a study count, which are to be planned, and which were left by the dead."""

import time
import warnings
from collections.abc import Sequence

import numpy as np
import optuna
from optuna import Study
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from reltucker.errors import StudyError
from reltucker.search.plan import Plan
from reltucker.search.storage import MAX_RETRIES, retry
from reltucker.search.trial import OVER_BUDGET, is_dead, worker_of

GRID_POINT = "point"
"""The user attribute with the place of a planned grid point."""

UNNAMED_SECONDS = 120.0
"""A trial that was taken and has named no worker for so long was taken by one that died."""

TOO_MANY = 20
"""So many settings over the limit, for each trial that was asked for, are enough."""


def counted(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that count towards the number that was asked for.

    Those do not which were interrupted and wait or run again under another number, nor settings
    over the limit of parameters, for which others are drawn.
    """
    retried = {number for trial in trials for number in history(trial)}
    is_busy = any(trial.state == TrialState.RUNNING for trial in trials)
    kept = []
    for trial in trials:
        if OVER_BUDGET in trial.user_attrs or trial.number in retried:
            continue
        # One that has failed a moment ago may be about to be planned again by another process.
        if trial.state == TrialState.FAIL and not is_given_up(trial) and not is_busy:
            continue
        kept.append(trial)
    return kept


def history(trial: FrozenTrial) -> list[int]:
    """The numbers under which a trial was interrupted before."""
    numbers: list[int] = trial.system_attrs.get("retry_history", [])
    return numbers


def is_given_up(trial: FrozenTrial) -> bool:
    """Whether a trial was interrupted so often that it is not tried again."""
    return trial.state == TrialState.FAIL and len(history(trial)) >= MAX_RETRIES


def plan_trials(study: Study, plan: Plan, total: int) -> None:
    """Add waiting trials until `total` count. The study must be locked."""
    trials = study.get_trials(deepcopy=False)
    missing = total - len(counted(trials))
    if missing <= 0:
        return
    over = sum(OVER_BUDGET in trial.user_attrs for trial in trials)
    if over > TOO_MANY * total:
        raise StudyError(
            f"{over} settings had more than {plan.max_parameters:,} effective parameters; give the "
            "space smaller sizes"
        )
    if plan.sampler != "grid":
        for _ in range(missing):
            study.add_trial(create_trial(state=TrialState.WAITING))
        return
    grid = plan.grid()
    planned = {trial.user_attrs[GRID_POINT] for trial in trials}
    order = np.random.default_rng(plan.seed).permutation(len(grid)).tolist()
    for index in [index for index in order if index not in planned][:missing]:
        study.enqueue_trial(grid[index], user_attrs={GRID_POINT: index})


class Releaser:
    """Lets trials wait again whose workers have died; heartbeats tell of other machines' ones."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._unnamed: dict[int, float] = {}

    def release(self) -> None:
        """Look once."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if self._is_abandoned(trial):
                self._fail(trial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)

    def _is_abandoned(self, trial: FrozenTrial) -> bool:
        worker = worker_of(trial)
        if worker is None:
            first = self._unnamed.setdefault(trial.number, time.monotonic())
            return time.monotonic() - first > UNNAMED_SECONDS
        return is_dead(worker)

    def _fail(self, trial: FrozenTrial) -> None:
        """As Optuna does with stale trials: only the process that fails a trial plans it again."""
        storage = self.study._storage
        try:
            if not storage.set_trial_state_values(trial._trial_id, TrialState.FAIL):
                return
        except UpdateFinishedTrialError:
            return
        retry()(self.study, storage.get_trial(trial._trial_id))
