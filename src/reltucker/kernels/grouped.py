"""Rows that belong to groups, such as the questions of a batch to their relations: arranging them,
and products with the matrix of each group.

Row b of group u stands for x_b^T M_u in the first part of the rows and for M_u x_b in the second
part: `starts` (2, U + 1) says where the rows of each group begin in either part. The gradient of
the one for its row is the other, so the backward pass is the same call, `flipped`.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import arrays_of, compiled, has_loops, run, spread

LARGE_GROUP = 24
"""Rows from which on a group is worth the call of a matrix product. Smaller groups, a handful of
rows each on most graphs, share one compiled pass over their matrix."""


def arrange(groups: Tensor, second: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Order rows by part, then by group: groups (n,) below `count` and `second` (n,) bool to

    order    : (n,) the permutation of the rows; rows of a part and group keep their order
    distinct : (U,) the groups that occur, ascending
    index    : (n,) the place among them of each ordered row
    starts   : (2, U + 1) where the rows of each group begin in either part
    """
    if groups.device.type != "cpu":
        return arrange_reference(groups, second)
    order, index = torch.empty_like(groups), torch.empty_like(groups)
    distinct = torch.empty(min(count, len(groups)), dtype=torch.long)
    starts = torch.empty(2, len(distinct) + 1, dtype=torch.long)
    used = _arrange(*arrays_of(groups, second, order, index, distinct, starts), count)
    return order, distinct[:used], index, starts[:, : used + 1].contiguous()


def arrange_reference(groups: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`arrange` in torch operations, for any device."""
    distinct, place = torch.unique(groups, return_inverse=True)
    key = place + len(distinct) * second
    order = torch.argsort(key, stable=True)
    sizes = torch.bincount(key, minlength=2 * len(distinct)).view(2, -1)
    starts = torch.nn.functional.pad(torch.cumsum(sizes, 1), (1, 0))
    starts[1] += starts[0, -1].clone()
    return order, distinct, place[order], starts


@compiled
def _arrange(
    groups: Any, second: Any, order: Any, index: Any, distinct: Any, starts: Any, count: int
) -> int:
    sizes = np.zeros((2, count), dtype=np.int64)
    for b in range(groups.size):
        sizes[np.int64(second[b]), groups[b]] += 1
    used = 0
    for k in range(count):
        if sizes[0, k] + sizes[1, k] > 0:
            distinct[used] = k
            used += 1
    row: Any = 0
    for part in range(2):
        for u in range(used):
            k = distinct[u]
            starts[part, u] = row
            for _ in range(sizes[part, k]):
                index[row] = u
                row += 1
            sizes[part, k] = starts[part, u]
        starts[part, used] = row
    for b in range(groups.size):
        place = sizes[np.int64(second[b])]
        order[place[groups[b]]] = b
        place[groups[b]] += 1
    return used


def grouped_products(
    matrices: Tensor, rows: Tensor, starts: Tensor, flipped: bool = False
) -> Tensor:
    """matrices (U, d, d), rows (n, d) to x_b^T M_u in the first part and M_u x_b in the second;
    flipped, the other way round."""
    out = torch.empty_like(rows)
    if has_loops(rows):
        arguments = (matrices, rows, starts, flipped, LARGE_GROUP, out)
        run(_products, _products_spread, *arguments)
    for u, part, block in _large_groups(starts, has_loops(rows)):
        matrix = matrices[u] if (part == 0) != flipped else matrices[u].t()
        torch.mm(rows[block], matrix, out=out[block])
    return out


def grouped_outer_products(left: Tensor, right: Tensor, starts: Tensor) -> Tensor:
    """The sum of x_b y_b^T over all rows of each group: (n, d), (n, d) to (U, d, d)."""
    dim = left.shape[1]
    out = left.new_empty(starts.shape[1] - 1, dim, dim)
    if has_loops(left):
        run(_outer, _outer_spread, left, right, starts, LARGE_GROUP, out)
    else:
        out.zero_()
    for u, _, block in _large_groups(starts, has_loops(left)):
        out[u].addmm_(left[block].t(), right[block])
    return out


def _large_groups(starts: Tensor, loops: bool) -> list[tuple[int, int, slice]]:
    """Group, part and rows of all groups that the loops leave out; all of them without loops."""
    least = LARGE_GROUP if loops else 1
    sizes = starts[:, 1:] - starts[:, :-1]
    bounds = starts.tolist()
    return [
        (u, part, slice(bounds[part][u], bounds[part][u + 1]))
        for part, u in torch.nonzero(sizes >= least).tolist()
    ]


# -- loops ----------------------------------------------------------------------------------------


@compiled
def _products(
    chunk: int,
    chunks: int,
    matrices: Any,
    rows: Any,
    starts: Any,
    flipped: bool,
    large: int,
    out: Any,
) -> None:
    dim = rows.shape[1]
    along, across = (starts[1], starts[0]) if flipped else (starts[0], starts[1])
    first, last = _equal_shares(starts, chunk, chunks)
    for u in range(first, last):
        matrix = matrices[u]
        x0, x1 = _small(along, u, large)
        y0, y1 = _small(across, u, large)
        for b in range(x0, x1):
            for c in range(dim):
                out[b, c] = np.float32(0)
        # Four rows of M at a time, so that x and its product are loaded once for all of them.
        for a in range(0, dim - 3, 4):
            for b in range(x0, x1):
                _add_rows(matrix, a, rows[b], out[b])
            for b in range(y0, y1):
                _multiply_rows(matrix, a, rows[b], out[b])
        for a in range(dim - dim % 4, dim):
            for b in range(x0, x1):
                for c in range(dim):
                    out[b, c] += rows[b, a] * matrix[a, c]
            for b in range(y0, y1):
                total = np.float32(0)
                for c in range(dim):
                    total += matrix[a, c] * rows[b, c]
                out[b, a] = total


@spread
def _products_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _products(np.int64(chunk), chunks, *arguments)


@compiled
def _add_rows(matrix: Any, a: int, x: Any, out: Any) -> None:
    m0, m1, m2, m3 = matrix[a], matrix[a + 1], matrix[a + 2], matrix[a + 3]
    x0, x1, x2, x3 = x[a], x[a + 1], x[a + 2], x[a + 3]
    for c in range(out.size):
        out[c] += x0 * m0[c] + x1 * m1[c] + x2 * m2[c] + x3 * m3[c]


@compiled
def _multiply_rows(matrix: Any, a: int, x: Any, out: Any) -> None:
    m0, m1, m2, m3 = matrix[a], matrix[a + 1], matrix[a + 2], matrix[a + 3]
    t0, t1, t2, t3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for c in range(x.size):
        t0 += m0[c] * x[c]
        t1 += m1[c] * x[c]
        t2 += m2[c] * x[c]
        t3 += m3[c] * x[c]
    out[a], out[a + 1], out[a + 2], out[a + 3] = t0, t1, t2, t3


@compiled
def _outer(
    chunk: int, chunks: int, left: Any, right: Any, starts: Any, large: int, out: Any
) -> None:
    first, last = _equal_shares(starts, chunk, chunks)
    for u in range(first, last):
        for a in range(left.shape[1]):
            total = out[u, a]
            for c in range(total.size):
                total[c] = np.float32(0)
            for part in range(2):
                begin, end = _small(starts[part], u, large)
                while end - begin >= 4:
                    _add_four(left, right, begin, a, total)
                    begin += 4
                for b in range(begin, end):
                    x, y = left[b, a], right[b]
                    for c in range(total.size):
                        total[c] += x * y[c]


@spread
def _outer_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _outer(np.int64(chunk), chunks, *arguments)


@compiled
def _add_four(left: Any, right: Any, b: int, a: int, total: Any) -> None:
    x0, x1, x2, x3 = left[b, a], left[b + 1, a], left[b + 2, a], left[b + 3, a]
    y0, y1, y2, y3 = right[b], right[b + 1], right[b + 2], right[b + 3]
    for c in range(total.size):
        total[c] += x0 * y0[c] + x1 * y1[c] + x2 * y2[c] + x3 * y3[c]


@compiled
def _small(starts: Any, u: int, large: int) -> Any:
    """The rows of a group; none where it is large."""
    first, last = starts[u], starts[u + 1]
    return first, (last if last - first < large else first)


@compiled
def _equal_shares(starts: Any, chunk: int, chunks: int) -> Any:
    """The groups of a share of about equal work: rows, and loading the matrix of a group."""
    groups = starts.shape[1] - 1
    total = starts[1, groups] + groups
    first, last = groups, groups
    for u in range(groups - 1, -1, -1):
        before = (starts[0, u] + starts[1, u] - starts[1, 0] + u) * chunks
        if before >= total * chunk:
            first = u
        if before >= total * (chunk + 1):
            last = u
    return first, last
