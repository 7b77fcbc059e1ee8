"""What the machine can do: the yardstick of all other figures."""

import time
from collections.abc import Callable
from statistics import median

import torch


def seconds(work: Callable[[], object], repeats: int = 5, warm_up: int = 1) -> float:
    """The median time of one call."""
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


def matmul_rate(size: int = 2048) -> float:
    """fp32 operations per second of a square matrix product of this size."""
    a, b, c = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    return 2 * size**3 / seconds(lambda: torch.mm(a, b, out=c), repeats=15, warm_up=3)
