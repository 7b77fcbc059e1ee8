"""Products with a fixed, sparse core G, row by row, without the tensor.

The pattern is a list of runs (i, j, l, n) with values v: g_(i + t, j + t, l + t) = v for t < n. The
form sum_ijl g_ijl a_i b_j c_l is linear in each of its factors, so one loop serves all three
products with two factors given; `roles` says which position of a run belongs to which.
"""

from typing import Any

import numba
import numpy as np
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, run, share_of, spread

Roles = tuple[int, int, int]


def contract(
    runs: Tensor,
    values: Tensor,
    roles: Roles,
    first: Tensor,
    second: Tensor,
    dim: int,
) -> Tensor:
    """out_c = sum over the runs of v first_a second_b, for rows first (B, .), second (B, .) to
    (B, dim). runs (m, 4): i, j, l, n; values (m,); roles: the columns of a, b and c in runs."""
    if has_loops(first):
        out = first.new_empty(len(first), dim)
        arguments = (roles, runs, values, first.contiguous(), second.contiguous(), out)
        run(_contract, _contract_spread, *arguments)
        return out
    out = first.new_zeros(len(first), dim)
    for row, value in zip(runs.tolist(), values.tolist(), strict=True):
        a, b, c = (slice(row[role], row[role] + row[3]) for role in roles)
        out[:, c] += value * first[:, a] * second[:, b]
    return out


@compiled
def _contract(
    chunk: int,
    chunks: int,
    roles: Roles,
    runs: Any,
    values: Any,
    first: Any,
    second: Any,
    out: Any,
) -> None:
    begin, end = share_of(out.shape[0], chunk, chunks)
    for b in range(begin, end):
        for d in range(out.shape[1]):
            out[b, d] = np.float32(0)
        for m in range(values.size):
            n, value = runs[m, 3], values[m]
            x = first[b, runs[m, roles[0]] : runs[m, roles[0]] + n]
            y = second[b, runs[m, roles[1]] : runs[m, roles[1]] + n]
            z = out[b, runs[m, roles[2]] : runs[m, roles[2]] + n]
            for t in range(n):
                z[t] += value * x[t] * y[t]


@spread
def _contract_spread(chunks: int, roles: Roles, *arrays: Any) -> None:
    for chunk in numba.prange(chunks):
        _contract(np.int64(chunk), chunks, roles, *arrays)
