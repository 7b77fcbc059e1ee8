"""Softmax over sampled candidates, and the gradients of its loss."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.all_entities import exponential, largest_of, scale_row, to_exponentials
from reltucker.kernels.compiled import compiled, has_loops
from reltucker.kernels.dropout import Dropout, mask_in_place


def sampled_softmax(
    queries: Tensor, entities: Tensor, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax cross-entropy of the first candidate of each row against the others.

    With s_n = <q_b, E[candidates[b, n]]> and p = softmax(s): the loss -log p_0 (B,), its gradient
    for the scores p_n - [n = 0] (B, n), and for the queries sum_n (p_n - [n = 0]) E[..] (B, d).
    Candidate rows are loaded once for both uses.
    """
    if has_loops(queries):
        losses = queries.new_empty(len(queries))
        weights = queries.new_empty(candidates.shape)
        gradient = torch.empty_like(queries)
        tensors = (queries, entities, candidates, losses, weights, gradient)
        _softmax_loop(*(t.numpy() for t in tensors))
        return losses, weights, gradient
    rows = entities[candidates]
    scores = torch.bmm(rows, queries.unsqueeze(2)).squeeze(2)
    logarithm = torch.log_softmax(scores, dim=1)
    weights = logarithm.exp()
    weights[:, 0] -= 1.0
    return -logarithm[:, 0], weights, torch.bmm(weights.unsqueeze(1), rows).squeeze(1)


@compiled(parallel=True)
def _softmax_loop(
    queries: Any, entities: Any, candidates: Any, losses: Any, weights: Any, gradient: Any
) -> None:
    for b in numba.prange(candidates.shape[0]):
        p = weights[b]
        largest = np.float32(-np.inf)
        for n in range(p.size):
            p[n] = _dot(queries[b], entities[candidates[b, n]])
            # Written so that a NaN becomes the largest, and thereby reaches the loss.
            largest = p[n] if not (p[n] <= largest) else largest
        first = p[0]
        total = np.float32(0)
        for n in range(p.size):
            p[n] = np.exp(p[n] - largest)
            total += p[n]
        for n in range(p.size):
            p[n] /= total
        losses[b] = np.log(total) + largest - first
        p[0] -= np.float32(1)
        _weighted_sum(p, entities, candidates[b], gradient[b])


@compiled(parallel=False)
def _dot(x: Any, y: Any) -> Any:
    total = np.float32(0)
    for d in range(x.size):
        total += x[d] * y[d]
    return total


@compiled(parallel=False)
def _weighted_sum(weights: Any, rows: Any, chosen: Any, total: Any) -> None:
    for d in range(total.size):
        total[d] = np.float32(0)
    for n in range(weights.size):
        weight = weights[n]
        row = rows[chosen[n]]
        for d in range(total.size):
            total[d] += weight * row[d]


def shared_softmax(own: Tensor, scores: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """Softmax cross-entropy of a score of each row's own (B,) against those of shared candidates
    (B, n): the weighted losses (B,). Both are overwritten by the weighted gradients for them,
    w (p - 1) and w p. Where a row's own is among the candidates, in `columns` (B,), -1 if not,
    that candidate does not count.
    """
    if has_loops(scores):
        losses = torch.empty_like(own)
        _shared_loop(*(t.numpy() for t in (own, scores, columns, weights, losses)))
        return losses
    among = torch.nonzero(columns >= 0).squeeze(1)
    scores[among, columns[among]] = -torch.inf
    logarithm = torch.logsumexp(torch.cat([own.unsqueeze(1), scores], dim=1), dim=1)
    losses = (logarithm - own) * weights
    own.sub_(logarithm).exp_().sub_(1.0).mul_(weights)
    scores.sub_(logarithm.unsqueeze(1)).exp_().mul_(weights.unsqueeze(1))
    return losses


@compiled(parallel=True)
def _shared_loop(own: Any, scores: Any, columns: Any, weights: Any, losses: Any) -> None:
    for b in numba.prange(scores.shape[0]):
        s, column = scores[b], columns[b]
        if column >= 0:
            s[column] = np.float32(-np.inf)
        largest = largest_of(s, own[b])
        first = exponential(own[b] - largest)
        total = to_exponentials(s, largest) + first
        scale_row(s, weights[b] / total, np.float32(0))
        if column >= 0:
            s[column] = np.float32(0)
        losses[b] = weights[b] * (np.log(total) + largest - own[b])
        own[b] = weights[b] * (first / total - np.float32(1))


def scatter_gradient(
    candidates: Tensor,
    weights: Tensor,
    queries: Tensor,
    given: Tensor,
    rows: Tensor,
    dropout: Dropout,
    ids: Tensor | None,
    out: Tensor,
) -> Tensor:
    """The gradient for entities, out (N, d): out[e] = mask[e] * (the sum of weights[b, n]
    queries[b] over all candidates[b, n] = e, plus the sum of rows[g] over all given[g] = e). Where
    `ids` are given, entity e of this call is row ids[e] of the matrix that the mask is for.

    Entries are ordered by a counting sort, so each row of `out` is summed in a fixed order by one
    thread: deterministic, and written exactly once.
    """
    if has_loops(rows):
        ids = given[:0] if ids is None else ids
        tensors = (ids, candidates, weights, queries, given, rows, out)
        _scatter_loop(*dropout.loop_arguments(), *(t.numpy() for t in tensors))
        return out
    assert ids is None, "rows of their own are for the compiled loops"
    out.zero_().index_add_(0, given, rows)
    flat = (weights.unsqueeze(2) * queries.unsqueeze(1)).flatten(0, 1)
    return out.index_add_(0, candidates.flatten(), flat).mul_(dropout.mask(out))


@compiled(parallel=True)
def _scatter_loop(
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    ids: Any,
    candidates: Any,
    weights: Any,
    queries: Any,
    given: Any,
    rows: Any,
    out: Any,
) -> None:
    size, width = candidates.shape
    count, dim = out.shape
    starts = np.zeros(count + 1, dtype=np.int64)
    for b in range(size):
        for n in range(width):
            starts[candidates[b, n] + 1] += 1
    for g in range(given.size):
        starts[given[g] + 1] += 1
    for e in range(count):
        starts[e + 1] += starts[e]
    ends = starts[:-1].copy()
    # Entry b * width + n stands for candidate n of row b; the given ones follow.
    order = np.empty(size * width + given.size, dtype=np.int64)
    for b in range(size):
        for n in range(width):
            e = candidates[b, n]
            order[ends[e]] = b * width + n
            ends[e] += 1
    for g in range(given.size):
        e = given[g]
        order[ends[e]] = size * width + g
        ends[e] += 1
    for e in numba.prange(count):
        _sum_entries(order[starts[e] : starts[e + 1]], weights, queries, rows, out[e])
        if limit > 0 and starts[e + 1] > starts[e]:
            row = ids[e] if ids.size > 0 else e
            mask_in_place(row * dim, out[e], limit, low, high, scale)


@compiled(parallel=False)
def _sum_entries(entries: Any, weights: Any, queries: Any, rows: Any, total: Any) -> None:
    width = weights.shape[1]
    for d in range(total.size):
        total[d] = np.float32(0)
    for entry in entries:
        b, n = entry // width, entry % width
        from_candidates = b < weights.shape[0]
        weight = weights[b, n] if from_candidates else np.float32(1)
        row = queries[b] if from_candidates else rows[entry - weights.size]
        for d in range(total.size):
            total[d] += weight * row[d]
