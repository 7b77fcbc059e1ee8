"""Numbers drawn without replacement."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, mixed_key


def draw_distinct(rows: int, count: int, population: int, key: int) -> Tensor:
    """(rows, count) int64: in each row `count` distinct numbers below `population`, uniformly.

    Floyd's algorithm, so that no permutation of the population is made.
    """
    out = np.empty((rows, count), dtype=np.int64)
    _floyd_loop(out, population, np.uint64(mixed_key(key)))
    return torch.from_numpy(out)


@compiled(parallel=False)
def _floyd_loop(out: Any, population: int, key: np.uint64) -> None:
    state = key
    count = out.shape[1]
    for b in range(out.shape[0]):
        for n in range(count):
            # splitmix64; the high word times the range is uniform to within 2^-32 * population.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            last = population - count + n
            drawn = np.int64(((z >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
            for m in range(n):
                if out[b, m] == drawn:
                    drawn = last
                    break
            out[b, n] = drawn
