"""Single rows of large matrices: numbering, gathering, adding, and steps of AdaGrad."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops
from reltucker.kernels.dropout import Dropout, mask_in_place, masked


def number_rows(marks: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """ids (n,) to the distinct ids in the order of their first occurrence (m,) and, for each of
    `ids`, its place among them (n,). `marks` (N,) int32 is -1 everywhere, before and after."""
    places, distinct = torch.empty_like(ids), torch.empty_like(ids)
    count = _number_loop(*(t.numpy() for t in (marks, ids, places, distinct)))
    return distinct[:count], places


@compiled(parallel=False)
def _number_loop(marks: Any, ids: Any, places: Any, distinct: Any) -> int:
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


def gather_dropped(matrix: Tensor, ids: Tensor, dropout: Dropout) -> Tensor:
    """matrix[ids] with the mask that `apply_dropout` has for the whole matrix (CPU only)."""
    out = matrix.new_empty(len(ids), matrix.shape[1])
    arrays = (t.numpy() for t in (matrix, ids, out))
    _gather_loop(*dropout.loop_arguments(), *arrays)
    return out


@compiled(parallel=True)
def _gather_loop(
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    matrix: Any,
    ids: Any,
    out: Any,
) -> None:
    dim = matrix.shape[1]
    for r in numba.prange(ids.size):
        if limit > 0:
            masked(ids[r] * dim, matrix[ids[r]], out[r], limit, low, high, scale)
        else:
            out[r] = matrix[ids[r]]


def mask_rows(rows: Tensor, ids: Tensor, dropout: Dropout) -> Tensor:
    """Apply in place to rows (n, d) the mask that `gather_dropped` had for them (CPU only)."""
    if dropout.rate > 0.0:
        _mask_rows_loop(*dropout.loop_arguments(), rows.numpy(), ids.numpy())
    return rows


@compiled(parallel=True)
def _mask_rows_loop(
    limit: np.uint32, low: np.uint32, high: np.uint32, scale: np.float32, rows: Any, ids: Any
) -> None:
    dim = rows.shape[1]
    for r in numba.prange(ids.size):
        mask_in_place(ids[r] * dim, rows[r], limit, low, high, scale)


def add_rows(out: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
    """out[ids[n]] += rows[n], one after the other; torch takes a microsecond for each row."""
    if has_loops(out):
        _add_loop(out.numpy(), ids.numpy(), rows.numpy())
        return out
    return out.index_add_(0, ids, rows)


@compiled(parallel=False)
def _add_loop(out: Any, ids: Any, rows: Any) -> None:
    for n in range(ids.size):
        total, row = out[ids[n]], rows[n]
        for d in range(row.size):
            total[d] += row[d]


def adagrad_rows(
    matrix: Tensor, sums: Tensor, ids: Tensor, gradient: Tensor, rate: float, epsilon: float
) -> None:
    """A step of AdaGrad for the rows `ids` alone, distinct ones (CPU only): the same result as a
    dense step with a gradient of zero elsewhere."""
    arrays = (t.detach().numpy() for t in (matrix, sums, ids, gradient))
    _adagrad_loop(np.float32(rate), np.float32(epsilon), *arrays)


@compiled(parallel=True)
def _adagrad_loop(
    rate: np.float32, epsilon: np.float32, matrix: Any, sums: Any, ids: Any, gradient: Any
) -> None:
    for r in numba.prange(ids.size):
        p, s, g = matrix[ids[r]], sums[ids[r]], gradient[r]
        for d in range(g.size):
            s[d] += g[d] * g[d]
            p[d] -= rate * g[d] / (np.sqrt(s[d]) + epsilon)
