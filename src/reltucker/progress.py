"""Progress of long work: bars on a terminal, plain lines elsewhere; always on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

LINE_SECONDS = 5.0
"""How often a plain line is written at the most."""


def error_console() -> Console:
    """The console for everything that is not a result."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def track(
    description: str, total: int, unit: str, is_shown: bool = True
) -> Iterator[Callable[[int], None] | None]:
    """Show the progress of `total` units; yields a function that takes what was done since."""
    if not is_shown:
        yield None
        return
    bar = _bar(MofNCompleteColumn(), _text("rate"), TimeRemainingColumn())
    task = bar.add_task(description, total=total, rate="")
    began = shown = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        now = time.monotonic()
        rate = done / max(now - began, 1e-9)
        bar.update(task, completed=done, rate=f"{rate:,.0f} {unit}/s")
        if bar.disable and now - shown >= LINE_SECONDS:
            shown = now
            line = f"{description}: {done:,} of {total:,} {unit}, {rate:,.0f} {unit}/s"
            bar.console.print(f"{line}, {duration((total - done) / rate)} left", markup=False)

    with nullcontext() if bar.disable else bar:
        yield advance


class TrainingProgress:
    """Watches a training run: a bar for the steps of an epoch, its results beside it."""

    def __init__(self, name: str, epochs: int) -> None:
        self.name = name
        self.epochs = epochs
        self.best: tuple[float, int] | None = None
        self._line = ""
        self._seconds: list[float] = []
        self._first_density: float | None = None
        self._shown = -LINE_SECONDS
        self._bar = _bar(_text("rate"), TimeElapsedColumn(), _text("state"))
        self._task = self._bar.add_task(name, total=1, rate="", state="")

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._bar.disable:
            self._bar.stop()
        if kind is None and self._line:
            self._bar.console.print(self._line, markup=False)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Move the bar of the running epoch."""
        if self._bar.disable:
            return
        if done in (1, total) or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            speed = self._bar.tasks[0].speed
            self._bar.update(
                self._task,
                description=f"{self.name} epoch {epoch}/{self.epochs}",
                completed=done,
                total=total,
                rate=f"{speed:,.0f} steps/s" if speed else "",
                state=self._line.partition("  ")[2],
            )

    def epoch(self, record: dict[str, Any]) -> None:
        """Take in an epoch's results; where there is no terminal, print them as a line."""
        epoch = int(record["epoch"])
        parts = [f"{self.name} epoch {epoch}/{self.epochs}", f"loss {record['loss']:.4f}"]
        if "valid" in record:
            mrr = record["valid"]["seen"]["mrr"]
            if record["best"]:
                self.best = (mrr, epoch)
            best = f" (best {self.best[0]:.4f} at epoch {self.best[1]})" if self.best else ""
            parts.append(f"valid MRR {mrr:.4f}{best}")
        density = record.get("core_density", 1.0)
        if self._first_density is None:
            self._first_density = density
        if density != self._first_density:  # a core that is learned sparse
            parts.append(f"density {density:.3%}")
        # The first epoch of a process also compiles loops, so it counts only while it is alone.
        self._seconds.append(float(record["epoch_seconds"]))
        each = median(self._seconds[1:][-9:] or self._seconds)
        parts.append(f"{each:.2g} s/epoch" if each < 10 else f"{each:.0f} s/epoch")
        parts.append(f"at most {duration(each * (self.epochs - epoch))} left")
        self._line = "  ".join(parts)
        if self._bar.disable and time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self._bar.console.print(self._line, markup=False)
            self._line = ""


def duration(seconds: float) -> str:
    """A time span as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _bar(*columns: ProgressColumn) -> Progress:
    """A bar with these columns at its end; disabled where there is no terminal."""
    console = error_console()
    first = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    disable = not console.is_terminal
    return Progress(*first, *columns, console=console, transient=True, disable=disable)


def _text(field: str) -> TextColumn:
    """A text that goes on in a second line where the terminal is narrow."""
    return TextColumn(f"{{task.fields[{field}]}}", markup=False, table_column=Column())
