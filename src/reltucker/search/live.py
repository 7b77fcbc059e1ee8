"""The live view of a study: a table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import mean
from types import TracebackType

import rich.box
from optuna.trial import FrozenTrial, TrialState
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reltucker.errors import RunError
from reltucker.progress import LINE_SECONDS, duration, error_console
from reltucker.search.bookkeeping import counted
from reltucker.search.trial import FAILURE, FOLDER
from reltucker.training import RunFolder

SHOWN = 12
"""How many running trials are listed at the most."""


class LiveView:
    """Shows how many trials are done, the best so far, and how the running ones stand."""

    def __init__(self, name: str, total: int, trials: Path, *, is_shown: bool = True) -> None:
        self.name = name
        self.total = total
        self.trials = trials
        self.is_shown = is_shown
        self.console = error_console()
        self._live: Live | None = None
        self._told: set[int] | None = None
        self._line = time.monotonic()

    def __enter__(self) -> "LiveView":
        if self.is_shown and self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, trials: Sequence[FrozenTrial]) -> None:
        """Show the present state."""
        if not self.is_shown:
            return
        kept = counted(trials)
        running = [trial for trial in kept if trial.state == TrialState.RUNNING]
        if self._live is not None:
            self._live.update(Group(Text(self.summary(kept)), self._table(running)))
            return
        finished = [trial for trial in kept if trial.state.is_finished()]
        if self._told is None:  # what an earlier start has done is told in one line
            self._told = {trial.number for trial in finished}
            if finished:
                self._print(f"going on with {self.summary(kept)}")
        for trial in finished:
            if trial.number not in self._told:
                self._told.add(trial.number)
                self._print(f"trial {trial.number}: {_ending(trial)}; {self.summary(kept)}")
        if running and time.monotonic() - self._line >= LINE_SECONDS:
            states = ", ".join(f"trial {t.number} {self.progress(t)}" for t in running[:SHOWN])
            self._print(f"{self.summary(kept)}; running: {states}")

    def summary(self, kept: Sequence[FrozenTrial]) -> str:
        """How far the study is, in one line."""
        done = [trial for trial in kept if trial.state.is_finished()]
        running = [trial for trial in kept if trial.state == TrialState.RUNNING]
        good = [t for t in done if t.state == TrialState.COMPLETE and FAILURE not in t.user_attrs]
        parts = [f"{self.name}: {len(done)} of {max(self.total, len(kept))} trials"]
        if good:
            best = max(good, key=lambda trial: trial.values[0])
            parts.append(f"best valid MRR {best.values[0]:.4f} (trial {best.number})")
        pruned = sum(trial.state == TrialState.PRUNED for trial in done)
        failed = len(done) - len(good) - pruned
        parts += [
            f"{count} {what}" for count, what in ((failed, "failed"), (pruned, "pruned")) if count
        ]
        left = self._seconds_left(done, running)
        if left is not None:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def progress(self, trial: FrozenTrial) -> str:
        """Epoch and validation MRR of a running trial, from its folder or else from the study."""
        epoch, mrr = self._last_epoch(trial)
        if not epoch:
            return "begins"
        return f"epoch {epoch}" + ("" if mrr is None else f" MRR {mrr:.4f}")

    def _last_epoch(self, trial: FrozenTrial) -> tuple[int, float | None]:
        folder = RunFolder(self.trials / str(trial.user_attrs.get(FOLDER, trial.number)))
        try:
            records = folder.epochs()
        except RunError:
            records = []
        if records:
            judged = [r["valid"]["seen"]["mrr"] for r in records if "valid" in r]
            return int(records[-1]["epoch"]), judged[-1] if judged else None
        if trial.intermediate_values:
            epoch, mrr = max(trial.intermediate_values.items())
            return epoch, mrr
        return 0, None

    def _seconds_left(
        self, done: Sequence[FrozenTrial], running: Sequence[FrozenTrial]
    ) -> float | None:
        """From the mean duration of the finished trials; None before there is one."""
        spans = [t.duration.total_seconds() for t in done if t.duration is not None]
        if not spans or not running:
            return None
        each = mean(spans)
        begun = [
            min(each, (datetime.now() - trial.datetime_start).total_seconds())
            for trial in running
            if trial.datetime_start is not None
        ]
        return max(0.0, each * (self.total - len(done)) - sum(begun)) / len(running)

    def _table(self, running: Sequence[FrozenTrial]) -> Table:
        table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for header in ("trial", "epoch", "valid MRR"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column("settings")
        for trial in running[:SHOWN]:
            epoch, mrr = self._last_epoch(trial)
            shown = "" if mrr is None else f"{mrr:.4f}"
            settings = Text(", ".join(f"{_last(k)} {_show(v)}" for k, v in trial.params.items()))
            table.add_row(str(trial.number), str(epoch or ""), shown, settings)
        return table

    def _print(self, line: str) -> None:
        self._line = time.monotonic()
        self.console.print(line, markup=False)


def _ending(trial: FrozenTrial) -> str:
    if FAILURE in trial.user_attrs:
        return f"failed ({trial.user_attrs[FAILURE]})"
    if trial.state == TrialState.COMPLETE:
        return f"valid MRR {trial.values[0]:.4f}"
    return "pruned" if trial.state == TrialState.PRUNED else "failed"


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _show(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
