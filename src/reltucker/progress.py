"""Progress of long work: bars on a terminal, plain lines elsewhere; always on standard error."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console, RenderableType
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
from rich.text import Text

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


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """Whoever stops what is done here, by Ctrl-C or a signal, is told how it goes on."""
    try:
        yield
    except BaseException as stopped:
        if not isinstance(stopped, Exception):
            stopped.add_note(how)
        raise


class TrainingProgress:
    """Watches a training run: a bar for the steps of an epoch, and its results below."""

    def __init__(self, name: str, epochs: int) -> None:
        self.name = name
        self.epochs = epochs
        self.best: tuple[float, int] | None = None
        self._state: list[str] = []
        self._left = ""
        self._seconds: list[float] = []
        self._first_step: float | None = None
        self._guess: float | None = None
        self._first_density: float | None = None
        self._shown = -LINE_SECONDS
        self._bar = _bar(TimeElapsedColumn(), _text("left"), kind=_TwoLines)
        self._task = self._bar.add_task(name, total=1, left="", state=[])

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._bar.disable:
            self._bar.stop()
        if kind is None and self._state:
            self._bar.console.print("  ".join(self._state), markup=False)

    def step(self, epoch: int, done: int, total: int) -> None:
        """Move the bar of the running epoch."""
        now = time.monotonic()
        if not self._seconds:  # the first step of a process also compiles loops
            if self._first_step is None:
                self._first_step = now
            elif done > 1:
                self._guess = (now - self._first_step) / (done - 1) * total
        if not self._bar.disable and (done in (1, total) or now - self._shown > 0.1):
            self._shown = now
            speed = self._bar.tasks[0].speed
            self._bar.update(
                self._task,
                description=f"{self.name} epoch {epoch}/{self.epochs}",
                completed=done,
                total=total,
                left=self._left,
                state=[*self._state[1:], *([f"{speed:,.0f} steps/s"] if speed else [])],
            )

    def epoch(self, record: dict[str, Any]) -> None:
        """Take in an epoch's results; where there is no terminal, print them as a line."""
        epoch = int(record["epoch"])
        parts = [f"{self.name} epoch {epoch}/{self.epochs}", f"loss {record['loss']:.4f}"]
        if "valid" in record:
            mrr = record["valid"]["seen"]["mrr"]
            if record["best"]:
                self.best = (mrr, epoch)
            parts.append(f"valid MRR {mrr:.4f}")
            if self.best is not None:
                parts.append(f"best {self.best[0]:.4f} at epoch {self.best[1]}")
        density = record.get("core_density", 1.0)
        if self._first_density is None:
            self._first_density = density
        if density != self._first_density:  # a core that is learned sparse
            parts.append(f"density {density:.3%}")
        self._seconds.append(float(record["epoch_seconds"]))
        each = median(self._seconds[1:][-9:]) if len(self._seconds) > 1 else self._guess
        self._left = ""
        if each is not None:
            parts.append(f"{each:.2g} s/epoch" if each < 10 else f"{each:.0f} s/epoch")
            if epoch < self.epochs:
                self._left = f"at most {duration(each * (self.epochs - epoch))} left"
        self._state = parts
        if self._bar.disable and time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self._bar.console.print("  ".join(filter(None, [*parts, self._left])), markup=False)
            self._state = []


class _TwoLines(Progress):
    """A bar with what there is room for of its task's `state` below it."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            yield Text(f"  {fitted(task.fields['state'], '  ', self.console.width - 2)}")


def fitted(parts: Sequence[str], between: str, width: int) -> str:
    """The parts on one line, without the last ones where the width has no room for them: a part is
    never cut."""
    line = between.join(parts)
    for count in range(len(parts) - 1, -1, -1):
        if cell_len(line) <= width:
            break
        line = between.join([*parts[:count], "…"])
    return line


def duration(seconds: float) -> str:
    """A time span as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _bar(*columns: ProgressColumn, kind: type[Progress] = Progress) -> Progress:
    """A bar with these columns at its end; disabled where there is no terminal."""
    console = error_console()
    first = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    disable = not console.is_terminal
    return kind(*first, *columns, console=console, transient=True, disable=disable)


def _text(field: str) -> TextColumn:
    return TextColumn(f"{{task.fields[{field}]}}", markup=False)
