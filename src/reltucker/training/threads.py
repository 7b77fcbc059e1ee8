"""How many threads a training step deserves."""

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch

from reltucker.model import RelationalTucker
from reltucker.training.settings import TrainSettings
from reltucker.training.work import step_seconds

SMALL_STEP = 0.0025
"""Seconds, by sizes, below which a step runs on one thread.

Such a step has dozens of loops of some microseconds each. Splitting them gains nothing on an idle
machine, and on a busy one every loop waits for the thread that was not given a core.
"""


def threads_for(model: RelationalTucker, settings: TrainSettings) -> int:
    """One thread for small steps, all that torch has otherwise; a function of sizes alone, so that
    a resumed run computes in the same order as an unbroken one."""
    small = step_seconds(model, settings) < SMALL_STEP
    return 1 if small else torch.get_num_threads()


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let torch and the compiled loops use `count` threads, and restore what was set before."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(count)
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
