"""The trials of a study: which count, which are left to be taken, which were left by the dead."""

import os
import platform
import warnings
from collections.abc import Sequence

import optuna
from optuna import Study
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

# What is noted with a study and with a trial, as user attributes.
PLAN = "plan"
TOTAL = "trials"
FOLDER = "folder"
WORKER = "worker"
HISTORY = "history"
PROGRESS = "progress"
FAILURE = "failure"
EARLIER = "earlier"
OVER_BUDGET = "over_budget"
# And with those of a timed search: where it begins, when it was cut, what goes on, how long.
START = "start"
CUT = "cut"
CONTINUES = "continues"
LIMIT = "limit"
FIGURES = ("effective_parameters", "core_density", "epochs", "best_epoch", "seconds")

MAX_RETRIES = 5
"""How often an interrupted trial is taken up again by one start of a search; one that kills its
worker each time, for want of memory, must not go on for ever."""

OUT_OF_MEMORY = "out of memory"
"""A failure of the machine, not of settings."""


def counted(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that count towards the number that was asked for.

    A trial that was interrupted counts once, under its last number; so does one that was cut and
    went on, once that has ended well. Settings over the limit of parameters, for which others are
    drawn, do not count.
    """
    replaced = _retried(trials)
    for trial in trials:
        if CONTINUES in trial.user_attrs:
            ended_well = trial.state == TrialState.COMPLETE and FAILURE not in trial.user_attrs
            replaced.add(trial.user_attrs[CONTINUES] if ended_well else trial.number)
    return [t for t in trials if OVER_BUDGET not in t.user_attrs and t.number not in replaced]


def waiting(trials: Sequence[FrozenTrial]) -> int:
    """How many trials wait."""
    return sum(trial.state == TrialState.WAITING for trial in trials)


def undrawn(study: Study, trials: Sequence[FrozenTrial]) -> int:
    """How many trials are yet to be drawn."""
    return max(0, int(study.user_attrs.get(TOTAL, 0)) - len(counted(trials)))


def history(trial: FrozenTrial) -> list[int]:
    """The numbers under which a trial was interrupted before."""
    return list(trial.user_attrs.get(HISTORY, ()))


def deaths(trial: FrozenTrial) -> int:
    """How often a trial was interrupted since the search was started the last time."""
    return len(history(trial)) - int(trial.user_attrs.get(EARLIER, 0)) + 1


def is_given_up(trial: FrozenTrial) -> bool:
    """Whether a trial was interrupted so often that it is not tried again."""
    return trial.state == TrialState.FAIL and deaths(trial) > MAX_RETRIES


def release(study: Study) -> None:
    """Let the trials wait again whose workers have died. The study must be locked.

    They keep their settings and their run folder. A running trial that names no worker was being
    taken by one that died: the others name theirs before they let go of the lock. Heartbeats tell
    of the workers of other machines.
    """
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if WORKER not in trial.user_attrs or is_dead(trial.user_attrs[WORKER]):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
    trials = study.get_trials(deepcopy=False)
    retried = _retried(trials)
    for trial in trials:
        if (
            trial.state == TrialState.FAIL
            and trial.number not in retried
            and not is_given_up(trial)
        ):
            _take_up(study, trial)


def take_up_again(study: Study) -> None:
    """Let the trials wait again that met a fault of the machine, too little memory or room on the
    disk, in an earlier start of the search: it may be over. The study must be locked."""
    trials = study.get_trials(deepcopy=False)
    retried = _retried(trials)
    for trial in trials:
        is_short = trial.user_attrs.get(FAILURE) == OUT_OF_MEMORY
        if trial.number not in retried and (is_short or is_given_up(trial)):
            _take_up(study, trial, **{EARLIER: len(history(trial)) + 1})


def _take_up(study: Study, trial: FrozenTrial, **attributes: int) -> None:
    """Let a trial wait again, under another number."""
    kept = {k: v for k, v in trial.user_attrs.items() if k not in (WORKER, FAILURE)}
    again = create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={**kept, **attributes, HISTORY: [*history(trial), trial.number]},
        intermediate_values=trial.intermediate_values,
    )
    study.add_trial(again)


def _retried(trials: Sequence[FrozenTrial]) -> set[int]:
    return {number for trial in trials for number in history(trial)}


def worker_name(process: int) -> str:
    """A process of this machine, and of the container in it."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{platform.node()}/{space}/{process}"


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
        pass
    return False
