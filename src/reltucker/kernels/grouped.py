"""Products of rows with the matrix of their group."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled
from reltucker.kernels.dropout import Dropout, mask_in_place, masked


def grouped_queries_forward(
    mixing: Tensor, subjects: Tensor, objects: Tensor, starts: Tensor, dropout: Dropout
) -> tuple[Tensor, Tensor]:
    """x_b^T M_u and M_u y_b for the rows starts[u] .. starts[u + 1] of each group u (CPU only),
    where M is masked by the dropout on the way.

    Groups have a handful of rows, too few for a matrix product to be worth its call: one pass over
    M_u serves both products of all its rows.
    """
    for_objects, for_subjects = torch.empty_like(subjects), torch.empty_like(objects)
    tensors = (mixing, subjects, objects, starts, for_objects, for_subjects)
    arguments = (numba.get_num_threads(), *dropout.loop_arguments())
    _grouped_forward_loop(*arguments, *(t.numpy() for t in tensors))
    return for_objects, for_subjects


@compiled(parallel=True)
def _grouped_forward_loop(
    chunks: int,
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    mixing: Any,
    subjects: Any,
    objects: Any,
    starts: Any,
    for_objects: Any,
    for_subjects: Any,
) -> None:
    bounds = _equal_shares(starts, chunks)
    dim = mixing.shape[1]
    for chunk in numba.prange(chunks):
        matrix = np.empty((dim, dim), dtype=np.float32)
        for u in range(bounds[chunk], bounds[chunk + 1]):
            masked(u * dim * dim, mixing[u].ravel(), matrix.ravel(), limit, low, high, scale)
            for_objects[starts[u] : starts[u + 1]] = np.float32(0)
            for a in range(0, dim - 3, 4):
                for b in range(starts[u], starts[u + 1]):
                    _forward_rows(
                        matrix, a, subjects[b], objects[b], for_objects[b], for_subjects[b]
                    )
            for a in range(dim - dim % 4, dim):
                for b in range(starts[u], starts[u + 1]):
                    _forward_row(
                        matrix[a], a, subjects[b], objects[b], for_objects[b], for_subjects[b]
                    )


@compiled(parallel=False)
def _forward_row(m: Any, a: int, subject: Any, object_: Any, q: Any, s: Any) -> None:
    x = subject[a]
    total = np.float32(0)
    for c in range(m.size):
        q[c] += x * m[c]
        total += m[c] * object_[c]
    s[a] = total


@compiled(parallel=False)
def _forward_rows(matrix: Any, a: int, subject: Any, object_: Any, q: Any, s: Any) -> None:
    """Four rows of M at once, so that q and y are loaded once for all of them."""
    m0, m1, m2, m3 = matrix[a], matrix[a + 1], matrix[a + 2], matrix[a + 3]
    x0, x1, x2, x3 = subject[a], subject[a + 1], subject[a + 2], subject[a + 3]
    t0, t1, t2, t3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for c in range(q.size):
        y = object_[c]
        q[c] += x0 * m0[c] + x1 * m1[c] + x2 * m2[c] + x3 * m3[c]
        t0 += m0[c] * y
        t1 += m1[c] * y
        t2 += m2[c] * y
        t3 += m3[c] * y
    s[a], s[a + 1], s[a + 2], s[a + 3] = t0, t1, t2, t3


def grouped_queries_backward(
    mixing: Tensor,
    subjects: Tensor,
    objects: Tensor,
    starts: Tensor,
    dropout: Dropout,
    object_gradient: Tensor,
    subject_gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `grouped_queries_forward` for M, x and y, in one pass over M."""
    for_mixing = torch.empty_like(mixing)
    for_subjects, for_objects = torch.empty_like(subjects), torch.empty_like(objects)
    tensors = (mixing, subjects, objects, starts, object_gradient, subject_gradient)
    results = (for_mixing, for_subjects, for_objects)
    arguments = (numba.get_num_threads(), *dropout.loop_arguments())
    _grouped_backward_loop(*arguments, *(t.numpy() for t in (*tensors, *results)))
    return results


@compiled(parallel=True)
def _grouped_backward_loop(
    chunks: int,
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    mixing: Any,
    subjects: Any,
    objects: Any,
    starts: Any,
    object_gradient: Any,
    subject_gradient: Any,
    for_mixing: Any,
    for_subjects: Any,
    for_objects: Any,
) -> None:
    bounds = _equal_shares(starts, chunks)
    dim = mixing.shape[1]
    for chunk in numba.prange(chunks):
        matrix = np.empty((dim, dim), dtype=np.float32)
        for u in range(bounds[chunk], bounds[chunk + 1]):
            masked(u * dim * dim, mixing[u].ravel(), matrix.ravel(), limit, low, high, scale)
            for_objects[starts[u] : starts[u + 1]] = np.float32(0)
            for_mixing[u] = np.float32(0)
            for a in range(0, dim - 3, 4):
                for b in range(starts[u], starts[u + 1]):
                    _backward_rows(
                        matrix,
                        for_mixing[u],
                        a,
                        subjects[b],
                        subject_gradient[b],
                        objects[b],
                        object_gradient[b],
                        for_subjects[b],
                        for_objects[b],
                    )
            for a in range(dim - dim % 4, dim):
                for b in range(starts[u], starts[u + 1]):
                    x = subjects[b, a]
                    g = subject_gradient[b, a]
                    total = np.float32(0)
                    for c in range(dim):
                        h = object_gradient[b, c]
                        for_mixing[u, a, c] += x * h + g * objects[b, c]
                        for_objects[b, c] += g * matrix[a, c]
                        total += matrix[a, c] * h
                    for_subjects[b, a] = total
            mask_in_place(u * dim * dim, for_mixing[u].ravel(), limit, low, high, scale)


@compiled(parallel=False)
def _backward_rows(
    matrix: Any,
    for_matrix: Any,
    a: int,
    subject: Any,
    subject_gradient: Any,
    object_: Any,
    object_gradient: Any,
    for_subject: Any,
    for_object: Any,
) -> None:
    """Four rows of M and of its gradient at once."""
    m0, m1, m2, m3 = matrix[a], matrix[a + 1], matrix[a + 2], matrix[a + 3]
    d0, d1, d2, d3 = for_matrix[a], for_matrix[a + 1], for_matrix[a + 2], for_matrix[a + 3]
    x0, x1, x2, x3 = subject[a], subject[a + 1], subject[a + 2], subject[a + 3]
    g = subject_gradient
    g0, g1, g2, g3 = g[a], g[a + 1], g[a + 2], g[a + 3]
    t0, t1, t2, t3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for c in range(for_object.size):
        h = object_gradient[c]
        y = object_[c]
        d0[c] += x0 * h + g0 * y
        d1[c] += x1 * h + g1 * y
        d2[c] += x2 * h + g2 * y
        d3[c] += x3 * h + g3 * y
        for_object[c] += g0 * m0[c] + g1 * m1[c] + g2 * m2[c] + g3 * m3[c]
        t0 += m0[c] * h
        t1 += m1[c] * h
        t2 += m2[c] * h
        t3 += m3[c] * h
    s = for_subject
    s[a], s[a + 1], s[a + 2], s[a + 3] = t0, t1, t2, t3


@compiled(parallel=False)
def _equal_shares(starts: Any, chunks: int) -> Any:
    """Bounds of runs of groups with about equal work: rows, and loading the matrix of a group."""
    groups = starts.size - 1
    bounds = np.full(chunks + 1, groups, dtype=np.int64)
    bounds[0] = 0
    total = starts[groups] + groups
    chunk = 1
    for u in range(groups):
        if chunk < chunks and (starts[u] + u) * chunks >= total * chunk:
            bounds[chunk] = u
            chunk += 1
    return bounds
