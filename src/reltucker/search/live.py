"""The live view of a search: kept up to date on a terminal, plain lines elsewhere."""

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from statistics import mean
from typing import Any

from optuna.trial import FrozenTrial, TrialState
from rich.live import Live
from rich.text import Text

from reltucker.progress import LINE_SECONDS, duration, error_console, fitted
from reltucker.search.outcome import Outcome, row_of
from reltucker.search.timing import Clock
from reltucker.search.trials import PROGRESS, counted

SHOWN = 12
"""How many running trials are listed at the most."""


class LiveView(ExitStack):
    """Shows how many trials are done, the best so far, and how the running ones stand."""

    def __init__(
        self, name: str, total: int | None, clock: Clock | None = None, *, is_shown: bool = True
    ) -> None:
        """`total` is None where the time alone ends the search."""
        super().__init__()
        self.name = name
        self.total = total
        self.clock = clock
        self.is_shown = is_shown
        self.console = error_console()
        self._live: Live | None = None
        self._told: set[int] | None = None
        self._line = time.monotonic()

    def __enter__(self) -> "LiveView":
        if self.is_shown and self.console.is_terminal:
            live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live = self.enter_context(live)
        return self

    def update(self, trials: Sequence[FrozenTrial]) -> None:
        """Show the present state."""
        if not self.is_shown:
            return
        kept = counted(trials)
        ended = [row_of(trial) for trial in kept if trial.state.is_finished()]
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        parts = self._summary(kept, Outcome(ended, [], {}))
        summary = ", ".join(parts)
        if self._live is not None:
            summary = fitted(parts, ", ", self.console.width)
            width = self.console.width - 2
            lines = [f"  {fitted(_running(t), ', ', width)}" for t in running[:SHOWN]]
            self._live.update(Text("\n".join([summary, *lines])))
            return
        if self._told is None:  # what an earlier start has done is told in one line
            self._told = {row["number"] for row in ended}
            if ended:
                self._print(f"going on with {summary}")
        for row in ended:
            if row["number"] not in self._told:
                self._told.add(row["number"])
                self._print(f"trial {row['number']}: {_ending(row)}; {summary}")
        if running and time.monotonic() - self._line >= LINE_SECONDS:
            states = ", ".join(f"trial {t.number} {_state(t)}" for t in running[:SHOWN])
            self._print(f"{summary}; running: {states}")

    def _summary(self, kept: Sequence[FrozenTrial], ended: Outcome) -> list[str]:
        """How far the search is, in parts of one line."""
        among = "" if self.total is None else f" of {max(self.total, len(kept))}"
        parts = [f"{self.name}: {len(ended.rows)}{among} trials"]
        if ended.best is not None:
            parts.append(f"best valid MRR {ended.best['mrr']:.4f} (trial {ended.best['number']})")
        counts = {state: ended.count(state) for state in ("failed", "pruned")}
        parts += [f"{count} {state}" for state, count in counts.items() if count]
        if self.clock is not None:
            return [*parts, f"{duration(max(0.0, self.clock.left()))} left"]
        left = self._seconds_left(kept)
        return parts if left is None else [*parts, f"about {duration(left)} left"]

    def _seconds_left(self, kept: Sequence[FrozenTrial]) -> float | None:
        """From the mean duration of the finished trials; None before there is one."""
        spans = [t.duration.total_seconds() for t in kept if t.duration is not None]
        begun = [
            (datetime.now() - trial.datetime_start).total_seconds()
            for trial in kept
            if trial.state == TrialState.RUNNING and trial.datetime_start is not None
        ]
        if not spans or not begun or self.total is None:
            return None
        each = mean(spans)
        spent = sum(min(each, seconds) for seconds in begun)
        return max(0.0, each * (self.total - len(spans)) - spent) / len(begun)

    def _print(self, line: str) -> None:
        self._line = time.monotonic()
        self.console.print(line, markup=False)


def _state(trial: FrozenTrial) -> str:
    epoch, mrr = trial.user_attrs.get(PROGRESS, (None, None))
    if epoch is None:
        return "begins"
    return f"epoch {epoch}" if mrr is None else f"epoch {epoch} MRR {mrr:.4f}"


def _ending(row: dict[str, Any]) -> str:
    if row["state"] == "complete":
        return f"valid MRR {row['mrr']:.4f}"
    return f"{row['state']} ({row['reason']})" if row["reason"] else str(row["state"])


def _running(trial: FrozenTrial) -> list[str]:
    settings = (
        f"{re.split('[./]', key)[-1]} {f'{value:.3g}' if isinstance(value, float) else value}"
        for key, value in trial.params.items()
    )
    return [f"trial {trial.number}: {_state(trial)}", *settings]
