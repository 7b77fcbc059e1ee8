"""The live view of a search: kept up to date on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from statistics import mean

from optuna.trial import FrozenTrial, TrialState
from rich.live import Live
from rich.text import Text

from reltucker.progress import LINE_SECONDS, duration, error_console
from reltucker.search.trials import FAILURE, PROGRESS, counted

SHOWN = 12
"""How many running trials are listed at the most."""


class LiveView(ExitStack):
    """Shows how many trials are done, the best so far, and how the running ones stand."""

    def __init__(self, name: str, total: int, *, is_shown: bool = True) -> None:
        super().__init__()
        self.name = name
        self.total = total
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
        running = [trial for trial in kept if trial.state == TrialState.RUNNING]
        if self._live is not None:
            lines = [f"  trial {t.number}: {_state(t)}, {_settings(t)}" for t in running[:SHOWN]]
            self._live.update(Text("\n".join([self._summary(kept), *lines])))
            return
        finished = {trial.number: trial for trial in kept if trial.state.is_finished()}
        if self._told is None:  # what an earlier start has done is told in one line
            self._told = set(finished)
            if finished:
                self._print(f"going on with {self._summary(kept)}")
        for number in sorted(set(finished) - self._told):
            self._print(f"trial {number}: {_ending(finished[number])}; {self._summary(kept)}")
        self._told.update(finished)
        if running and time.monotonic() - self._line >= LINE_SECONDS:
            states = ", ".join(f"trial {t.number} {_state(t)}" for t in running[:SHOWN])
            self._print(f"{self._summary(kept)}; running: {states}")

    def _summary(self, kept: Sequence[FrozenTrial]) -> str:
        """How far the search is, in one line."""
        done = [trial for trial in kept if trial.state.is_finished()]
        good = [t for t in done if t.state == TrialState.COMPLETE and FAILURE not in t.user_attrs]
        parts = [f"{self.name}: {len(done)} of {max(self.total, len(kept))} trials"]
        if good:
            best = max(good, key=lambda trial: trial.values[0])
            parts.append(f"best valid MRR {best.values[0]:.4f} (trial {best.number})")
        pruned = sum(trial.state == TrialState.PRUNED for trial in done)
        counts = {"failed": len(done) - len(good) - pruned, "pruned": pruned}
        parts += [f"{count} {what}" for what, count in counts.items() if count]
        left = self._seconds_left(kept)
        return ", ".join(parts if left is None else [*parts, f"about {duration(left)} left"])

    def _seconds_left(self, kept: Sequence[FrozenTrial]) -> float | None:
        """From the mean duration of the finished trials; None before there is one."""
        spans = [t.duration.total_seconds() for t in kept if t.duration is not None]
        begun = [
            (datetime.now() - trial.datetime_start).total_seconds()
            for trial in kept
            if trial.state == TrialState.RUNNING and trial.datetime_start is not None
        ]
        if not spans or not begun:
            return None
        each = mean(spans)
        spent = sum(min(each, seconds) for seconds in begun)
        return max(0.0, each * (self.total - len(spans)) - spent) / len(begun)

    def _print(self, line: str) -> None:
        self._line = time.monotonic()
        self.console.print(line, markup=False)


def _state(trial: FrozenTrial) -> str:
    if PROGRESS not in trial.user_attrs:
        return "begins"
    epoch, mrr = trial.user_attrs[PROGRESS]
    return f"epoch {epoch}" + ("" if mrr is None else f" MRR {mrr:.4f}")


def _ending(trial: FrozenTrial) -> str:
    if FAILURE in trial.user_attrs:
        return f"failed ({trial.user_attrs[FAILURE]})"
    if trial.state == TrialState.COMPLETE:
        return f"valid MRR {trial.values[0]:.4f}"
    return "pruned" if trial.state == TrialState.PRUNED else "failed"


def _settings(trial: FrozenTrial) -> str:
    shown = (
        f"{key.rpartition('.')[2]} {f'{value:.3g}' if isinstance(value, float) else value}"
        for key, value in trial.params.items()
    )
    return ", ".join(shown)
