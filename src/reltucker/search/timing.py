"""The time of a search: until when trials may run, and which of them get more of it.

A trial of a timed search begins with an equal share of seconds. If it is not at its end by then, it
is cut: it counts with its best epoch, and its run can go on. Of the trials that came so far, the
best third go on to three times the seconds, the best third of those to nine times, and so on
(asynchronous successive halving). The last part of the time is for the best trial.
"""

import time
from collections.abc import Sequence

import torch
from optuna import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan
from reltucker.search.regions import REGION
from reltucker.search.trials import (
    CONTINUES,
    CUT,
    FAILURE,
    LIMIT,
    counted,
    undrawn,
    waiting,
)
from reltucker.training import build_model, ranking_seconds

# What is noted with a timed study, as user attributes.
USED = "used_seconds"
SECONDS = "seconds"
DEADLINE = "deadline"

SHARES = 36
"""A trial begins with this part of the time of all workers: a dozen of them take a third of it."""

LEAST_SHARE = 2.5
"""Seconds; less says nothing."""

FACTOR = 3
"""How many trials there are for each that goes on, and how much longer it may take."""

LAST_PART = 0.2
"""Of the time, in which the best trial goes on if it was cut."""

LARGEST_RESERVE, END_SECONDS, END_PART = 0.25, 8.0, 0.04
"""Of what comes after the trials: at most this part of the time, else so many seconds, and a part
for merging."""

NOTED_EVERY = 2.0
"""Seconds."""


def first_share(minutes: float, workers: int) -> float:
    """The seconds that a trial begins with."""
    return max(LEAST_SHARE, 60.0 * minutes * workers / SHARES)


def reserve_for(plan: Plan, graph: KnowledgeGraph, seconds: float) -> float:
    """The seconds that are kept for what comes after the trials: the figures of the last ones, the
    best model's on test, the report."""
    sizes = len(graph.entities), len(graph.relations)
    slowest = 0.0
    for name, region in plan.regions.items() or [("", None)]:
        values = {} if region is None else {REGION: name, **region.start}
        recipe, _ = plan.recipe_for(values)
        if recipe is not None:
            with torch.device("meta"):
                model = build_model(recipe, *sizes)
            slowest = max(slowest, ranking_seconds(model, len(graph.valid) + len(graph.test)))
    return min(LARGEST_RESERVE * seconds, END_SECONDS + END_PART * seconds + 2.0 * slowest)


class Clock:
    """Counts the seconds of a timed search over all of its starts. `reserve` of them are kept for
    what comes after the trials."""

    def __init__(self, study: Study, seconds: float, reserve: float, began: float) -> None:
        self.study = study
        self.began = began
        self.before = float(study.user_attrs.get(USED, 0.0))
        self.seconds = seconds
        self.reserve = reserve
        self._noted = time.monotonic()
        study.set_user_attr(SECONDS, seconds - reserve)
        study.set_user_attr(DEADLINE, time.time() + self.left() - reserve)

    def used(self) -> float:
        """Seconds of all starts up to now."""
        return self.before + time.monotonic() - self.began

    def left(self) -> float:
        """Seconds until all must be done; negative where that is over."""
        return self.seconds - self.used()

    def note(self, now: bool = False) -> None:
        """Keep in the study how much is used up, every few seconds or now."""
        if now or time.monotonic() - self._noted >= NOTED_EVERY:
            self._noted = time.monotonic()
            self.study.set_user_attr(USED, self.used())


def seconds_left(study: Study) -> float:
    """Until the trials must end; without a limit where the study is not timed."""
    deadline = study.user_attrs.get(DEADLINE)
    return float("inf") if deadline is None else float(deadline) - time.time()


def has_model(trials: Sequence[FrozenTrial]) -> bool:
    """Whether a trial has ended with a model."""
    return any(t.state == TrialState.COMPLETE and FAILURE not in t.user_attrs for t in trials)


def left(study: Study, trials: Sequence[FrozenTrial], share: float | None) -> int:
    """How many trials can still be taken: those that wait, those that are yet to be drawn, and one
    that may go on; none when the time is over, unless there would be no model."""
    if seconds_left(study) <= 0.0:
        return int(not has_model(trials))
    count = waiting(trials) + undrawn(study, trials)
    return count or int(to_continue(study, trials, share) is not None)


def to_continue(
    study: Study, trials: Sequence[FrozenTrial], share: float | None
) -> tuple[FrozenTrial, float | None] | None:
    """The trial that goes on next, and up to how many seconds (None: to the end of the time); None
    where another trial should be begun instead. `share` is what trials begin with, if there is a
    limit of time."""
    if share is None or waiting(trials):
        return None
    taken = {t.user_attrs[CONTINUES] for t in trials if CONTINUES in t.user_attrs}
    ended = [t for t in counted(trials) if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    ranked = sorted(
        (t for t in ended if t.state == TrialState.COMPLETE and FAILURE not in t.user_attrs),
        key=lambda t: -t.values[0],
    )

    def is_open(trial: FrozenTrial) -> bool:
        return CUT in trial.user_attrs and trial.number not in taken

    is_last = seconds_left(study) < LAST_PART * float(study.user_attrs.get(SECONDS, 0.0))
    if ranked and is_open(ranked[0]) and (is_last or not undrawn(study, trials)):
        return ranked[0], None
    reached = {t.number: _reached(t, share) for t in ranked}
    for rung in sorted({r for t, r in reached.items()} - {float("inf")}, reverse=True):
        came = [t for t in ranked if reached[t.number] >= rung]
        others = len(ended) - len(ranked) if rung == 0 else 0  # pruned and failed
        for trial in came[: (len(came) + others) // FACTOR]:
            if reached[trial.number] == rung and is_open(trial):
                return trial, share * FACTOR ** (rung + 1)
    return None


def _reached(trial: FrozenTrial, share: float) -> float:
    """How often the time of a trial was raised; without end where it had all the time it wanted."""
    if CUT not in trial.user_attrs:
        return float("inf")
    limit, rung = float(trial.user_attrs.get(LIMIT) or share), 0
    while share * FACTOR ** (rung + 1) <= limit * 1.001:
        rung += 1
    return rung


def continue_trial(study: Study, trial: FrozenTrial, limit: float | None) -> None:
    """Let a trial that was cut wait to go on, as a new one with the same settings. The study must
    be locked."""
    attributes = {CONTINUES: trial.number, LIMIT: limit}
    again = create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=attributes,
    )
    study.add_trial(again)
