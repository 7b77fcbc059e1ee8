"""Which settings come next: Optuna's samplers and pruners by name, and the paper's sampler."""

import warnings
from contextlib import AbstractContextManager

import numpy as np
from optuna import Study
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from reltucker.search.paper_sampler import PaperSampler
from reltucker.search.plan import Plan
from reltucker.search.storage import study_lock

PRUNING_STARTS = 5
"""Trials and epochs that are never pruned by the median."""


class NothingLeft(Exception):
    """No trial of the study waits any more."""


class PlannedStudy(Study):
    """A study whose trials were planned beforehand, as waiting trials.

    Optuna hands each waiting trial to one process only; where none waits it would make up another
    one, so that several workers would run more trials than were asked for.
    """

    def _pop_waiting_trial_id(self) -> int | None:
        found = super()._pop_waiting_trial_id()
        if found is None:
            raise NothingLeft
        return found


def planned_study(name: str, storage: RDBStorage, plan: Plan, worker: int) -> PlannedStudy:
    """The study as a worker sees it, with its sampler and pruner."""
    study = PlannedStudy(name, storage, pruner=make_pruner(plan))
    # A worker that is started again must not draw what it drew before.
    finished = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL)))
    seed = int(np.random.SeedSequence([plan.seed, worker, finished]).generate_state(1)[0])
    study.sampler = make_sampler(plan, storage, seed)
    return study


def make_sampler(plan: Plan, storage: RDBStorage, seed: int) -> BaseSampler:
    """The sampler of a plan. The points of a grid are planned beforehand and need none."""
    if plan.sampler == "paper":

        def lock() -> AbstractContextManager[None]:
            return study_lock(storage)

        return PaperSampler(plan.grid(), plan.distributions(), lock=lock, seed=plan.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if plan.sampler == "gp":
            return GPSampler(seed=seed)
        if plan.sampler == "tpe":
            # All settings together; trials that run elsewhere count as poor, so they spread.
            return TPESampler(seed=seed, multivariate=True, constant_liar=True)
        return RandomSampler(seed=seed)


def make_pruner(plan: Plan) -> BasePruner:
    """The pruner of a plan; both judge a trial by its validation MRR after each epoch."""
    if plan.pruner == "median":
        return MedianPruner(n_startup_trials=PRUNING_STARTS, n_warmup_steps=PRUNING_STARTS)
    if plan.pruner == "halving":
        return SuccessiveHalvingPruner()
    return NopPruner()
