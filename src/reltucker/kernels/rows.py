"""Single rows of large matrices: numbering, adding, and steps of AdaGrad."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import arrays_of, compiled, has_loops, run, share_of, spread


def number_rows(marks: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """ids (n,) to the distinct ids in the order of their first occurrence (m,) and, for each of
    `ids`, its place among them (n,). `marks` (N,) int32 is -1 everywhere, before and after."""
    places, distinct = torch.empty_like(ids), torch.empty_like(ids)
    count = _number(*arrays_of(marks, ids, places, distinct))
    return distinct[:count], places


@compiled
def _number(marks: Any, ids: Any, places: Any, distinct: Any) -> int:
    count = 0
    for n in range(ids.size):
        e = ids[n]
        if marks[e] < 0:
            marks[e] = count
            distinct[count] = e
            count += 1
        places[n] = marks[e]
    for m in range(count):
        marks[distinct[m]] = -1
    return count


def add_rows(out: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
    """out[ids[n]] += rows[n], one after the other: torch takes a microsecond for each row, and has
    no fixed order on several threads."""
    if has_loops(out):
        _add(*arrays_of(out, ids, rows))
        return out
    return out.index_add_(0, ids, rows)


@compiled
def _add(out: Any, ids: Any, rows: Any) -> None:
    for n in range(ids.size):
        total, row = out[ids[n]], rows[n]
        for d in range(row.size):
            total[d] += row[d]


def adagrad_rows(
    matrix: Tensor, sums: Tensor, ids: Tensor, gradient: Tensor, rate: float, epsilon: float
) -> None:
    """A step of AdaGrad for the rows `ids` alone, distinct ones: the same result as a dense step
    with a gradient of zero elsewhere."""
    if has_loops(matrix):
        constants = np.float32(rate), np.float32(epsilon)
        run(_adagrad, _adagrad_spread, *constants, matrix, sums, ids, gradient)
        return
    total = sums[ids] + gradient.square()
    sums[ids] = total
    matrix[ids] -= rate * gradient / (total.sqrt() + epsilon)


@compiled
def adagrad_row(rate: np.float32, epsilon: np.float32, p: Any, s: Any, g: Any) -> None:
    """s += g^2, p -= rate g / (sqrt(s) + epsilon)."""
    for d in range(g.size):
        s[d] += g[d] * g[d]
        p[d] -= rate * g[d] / (np.sqrt(s[d]) + epsilon)


@compiled
def _adagrad(
    chunk: int,
    chunks: int,
    rate: np.float32,
    epsilon: np.float32,
    matrix: Any,
    sums: Any,
    ids: Any,
    gradient: Any,
) -> None:
    first, last = share_of(ids.size, chunk, chunks)
    for r in range(first, last):
        adagrad_row(rate, epsilon, matrix[ids[r]], sums[ids[r]], gradient[r])


@spread
def _adagrad_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _adagrad(np.int64(chunk), chunks, *arguments)
