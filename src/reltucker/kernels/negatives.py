"""Candidates drawn without replacement."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, mixed_key


def draw_candidates(
    true: Tensor, count: int, population: int, key: int, rows: Tensor | None = None
) -> Tensor:
    """(B,) true numbers to (B, 1 + count): the true one, then `count` others below `population`.

    The others of a row are distinct, never the true one, and uniform (Floyd's algorithm, so that
    no permutation of the population is made). The result is a function of `key`, and of the
    numbers of the rows (B,), where these are some of many.
    """
    numbers = np.arange(len(true)) if rows is None else rows.cpu().numpy()
    out = np.empty((len(true), 1 + count), dtype=np.int64)
    _floyd(true.cpu().numpy(), numbers, population, np.uint64(mixed_key(key)), out)
    return torch.from_numpy(out).to(true.device)


SCAN_BELOW = 64
"""Up to so many draws of a row are looked through one by one; beyond, a hash table finds them."""


@compiled
def _floyd(true: Any, rows: Any, population: int, key: np.uint64, out: Any) -> None:
    count = out.shape[1] - 1
    slots = 4
    while slots < 4 * count and count > SCAN_BELOW:
        slots *= 2
    table = np.empty(slots, dtype=np.int64)
    for b in range(out.shape[0]):
        out[b, 0] = true[b]
        state = key + np.uint64(rows[b] * count) * np.uint64(0x9E3779B97F4A7C15)
        # One number fewer where the true one is among them; those from it on move up by one below.
        size = population - 1 if true[b] < population else population
        for slot in range(slots):
            table[slot] = -1
        for n in range(1, count + 1):
            # splitmix64; the high word times the range is uniform to within 2^-32 * population.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            last = size - count + n - 1
            drawn = np.int64(((z >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
            if count > SCAN_BELOW:
                # `last` is larger than all drawn so far, so it is never there.
                drawn = drawn if _put(table, drawn) else last
                _put(table, drawn)
            else:
                for m in range(1, n):
                    if out[b, m] == drawn:
                        drawn = last
                        break
            out[b, n] = drawn
        for n in range(1, count + 1):
            if out[b, n] >= true[b]:
                out[b, n] += 1


@compiled
def _put(table: Any, number: Any) -> bool:
    """Put a number into a hash table with free places (-1); False if it is there already."""
    place = (number * 0x9E3779B1) & (table.size - 1)
    while table[place] >= 0:
        if table[place] == number:
            return False
        place = (place + 1) & (table.size - 1)
    table[place] = number
    return True
