"""Progress of long work: bars on a terminal, plain lines elsewhere; always on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_SECONDS = 5.0
"""How often a plain line is written at the most."""


def error_console() -> Console:
    """The console for everything that is not a result."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def track(description: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show the progress of `total` units; yields a function that takes what was done since."""
    console = error_console()
    if console.is_terminal:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as bar:
            task = bar.add_task(description, total=total, rate="")

            def advance(count: int) -> None:
                bar.advance(task, count)
                speed = bar.tasks[0].speed
                bar.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

            yield advance
        return
    began = shown = time.monotonic()
    done = 0

    def count_lines(count: int) -> None:
        nonlocal done, shown
        done += count
        now = time.monotonic()
        if now - shown >= LINE_SECONDS:
            shown = now
            rate = done / (now - began)
            left = (total - done) / rate
            console.print(
                f"{description}: {done:,} of {total:,} {unit}, {rate:,.0f} {unit}/s, "
                f"{duration(left)} left",
                markup=False,
            )

    yield count_lines


class TrainingProgress:
    """Watches a training run: a bar for the epoch's steps, a line or two for its results."""

    def __init__(self, name: str, epochs: int) -> None:
        self.name = name
        self.epochs = epochs
        self.console = error_console()
        self.best: tuple[float, int] | None = None
        self.last = ""
        self._seconds: list[float] = []
        self._first_density: float | None = None
        self._shown = -LINE_SECONDS
        self._bar: Progress | None = None

    def __enter__(self) -> "TrainingProgress":
        if self.console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[state]}", markup=False),
                console=self.console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.name, total=1, rate="", state="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is None and self.last:
            self.console.print(self.last, markup=False)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Move the bar of the running epoch."""
        if self._bar is None:
            return
        if done == 1 or done == total or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            task = self._bar.tasks[0]
            rate = f"{task.speed:,.0f} steps/s" if task.speed else ""
            self._bar.update(
                self._task,
                description=f"{self.name} epoch {epoch}/{self.epochs}",
                completed=done,
                total=total,
                rate=rate,
                state=self.last.partition("  ")[2],
            )

    def epoch(self, record: dict[str, Any]) -> None:
        """Take in an epoch's results; elsewhere than on a terminal, print them as a line."""
        epoch = int(record["epoch"])
        self._seconds.append(float(record["epoch_seconds"]))
        parts = [f"{self.name} epoch {epoch}/{self.epochs}", f"loss {record['loss']:.4f}"]
        if "valid" in record:
            mrr = record["valid"]["seen"]["mrr"]
            if record["best"]:
                self.best = (mrr, epoch)
            best = f" (best {self.best[0]:.4f} at epoch {self.best[1]})" if self.best else ""
            parts.append(f"valid MRR {mrr:.4f}{best}")
        density = record.get("core_density", 1.0)
        self._first_density = density if self._first_density is None else self._first_density
        if density != self._first_density:  # a core that is learned sparse
            parts.append(f"density {record['core_density']:.3%}")
        # The first epoch of a process also compiles loops, so it counts only while it is alone.
        each = median(self._seconds[1:][-9:] or self._seconds)
        parts.append(f"{each:.2g} s/epoch" if each < 10 else f"{each:.0f} s/epoch")
        parts.append(f"at most {duration(each * (self.epochs - epoch))} left")
        self.last = "  ".join(parts)
        if self._bar is None and time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self.console.print(self.last, markup=False)
            self.last = ""


def duration(seconds: float) -> str:
    """A time span as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
