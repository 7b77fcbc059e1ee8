"""Softmax over candidates of each question's own, and the gradients of its loss.

Scores of such candidates are no matrix product, and their rows are the traffic of a step. So the
loss is computed where the rows are at hand: they are loaded once for scores and gradients.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, run, share_of, spread
from reltucker.kernels.dropout import Dropout, mask_in_place


def sampled_softmax(
    queries: Tensor, entities: Tensor, candidates: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax cross-entropy of the first candidate of each row against the others.

    With s_n = <q_b, E[candidates[b, n]]>, p = softmax(s) and the weight w_b of the row: the loss
    -w_b log p_0 (B,), its gradient for the scores w_b (p_n - [n = 0]) (B, n), and for the queries
    sum_n w_b (p_n - [n = 0]) E[candidates[b, n]] (B, d).
    """
    if has_loops(queries):
        losses, gradient = torch.empty_like(weights), torch.empty_like(queries)
        scores = queries.new_empty(candidates.shape)
        tensors = (queries, entities, candidates, weights, losses, scores, gradient)
        run(_softmax, _softmax_spread, *tensors)
        return losses, scores, gradient
    rows = entities[candidates]
    scores = torch.bmm(rows, queries.unsqueeze(2)).squeeze(2)
    logarithm = torch.log_softmax(scores, dim=1)
    scores = logarithm.exp()
    scores[:, 0] -= 1.0
    scores *= weights.unsqueeze(1)
    return -weights * logarithm[:, 0], scores, torch.bmm(scores.unsqueeze(1), rows).squeeze(1)


@compiled
def _softmax(
    chunk: int,
    chunks: int,
    queries: Any,
    entities: Any,
    candidates: Any,
    weights: Any,
    losses: Any,
    scores: Any,
    gradient: Any,
) -> None:
    begin, end = share_of(candidates.shape[0], chunk, chunks)
    for b in range(begin, end):
        p, q = scores[b], queries[b]
        largest = np.float32(-np.inf)
        for n in range(p.size):
            row = entities[candidates[b, n]]
            total = np.float32(0)
            for d in range(q.size):
                total += q[d] * row[d]
            p[n] = total
            # Written so that a NaN becomes the largest, and thereby reaches the loss.
            largest = total if not (total <= largest) else largest
        first = p[0]
        total = np.float32(0)
        for n in range(p.size):
            p[n] = np.exp(p[n] - largest)
            total += p[n]
        for n in range(p.size):
            p[n] *= weights[b] / total
        losses[b] = weights[b] * (np.log(total) + largest - first)
        p[0] -= weights[b]
        _weighted_sum(p, entities, candidates[b], gradient[b])


@spread
def _softmax_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _softmax(np.int64(chunk), chunks, *arguments)


@compiled
def _weighted_sum(weights: Any, rows: Any, chosen: Any, total: Any) -> None:
    """total = sum_n weights[n] rows[chosen[n]], four rows at a time."""
    for d in range(total.size):
        total[d] = np.float32(0)
    count = weights.size - weights.size % 4
    for n in range(0, count, 4):
        w0, w1, w2, w3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
        r0, r1 = rows[chosen[n]], rows[chosen[n + 1]]
        r2, r3 = rows[chosen[n + 2]], rows[chosen[n + 3]]
        for d in range(total.size):
            total[d] += w0 * r0[d] + w1 * r1[d] + w2 * r2[d] + w3 * r3[d]
    for n in range(count, weights.size):
        weight, row = weights[n], rows[chosen[n]]
        for d in range(total.size):
            total[d] += weight * row[d]


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
        count = candidates.numel() + len(given)
        starts = torch.zeros(len(out) + 2, dtype=torch.int32)
        sources = torch.empty(count, dtype=torch.int32)
        shares = queries.new_empty(count)
        _sort(*(t.numpy() for t in (candidates, weights, given, starts, sources, shares)))
        ids = given[:0] if ids is None else ids
        tensors = (starts, sources, shares, queries, rows, ids, out)
        run(_scatter, _scatter_spread, *dropout.loop_arguments(), *tensors)
        return out
    assert ids is None, "rows of their own are for the compiled loops"
    out.zero_().index_add_(0, given, rows)
    flat = (weights.unsqueeze(2) * queries.unsqueeze(1)).flatten(0, 1)
    return out.index_add_(0, candidates.flatten(), flat).mul_(dropout.mask(out))


@compiled
def _sort(
    candidates: Any, weights: Any, given: Any, starts: Any, sources: Any, shares: Any
) -> None:
    """What is added to each entity e, in starts[e] .. starts[e + 1]: a row of the queries, or,
    counted on from them, of the given ones, and its share."""
    size, width = candidates.shape
    # Counted two places ahead, so that after the second pass each start is where it belongs.
    for b in range(size):
        for n in range(width):
            starts[candidates[b, n] + 2] += 1
    for g in range(given.size):
        starts[given[g] + 2] += 1
    for e in range(2, starts.size):
        starts[e] += starts[e - 1]
    for b in range(size):
        for n in range(width):
            e = candidates[b, n] + 1
            sources[starts[e]] = b
            shares[starts[e]] = weights[b, n]
            starts[e] += 1
    for g in range(given.size):
        e = given[g] + 1
        sources[starts[e]] = size + g
        shares[starts[e]] = np.float32(1)
        starts[e] += 1


@compiled
def _scatter(
    chunk: int,
    chunks: int,
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    starts: Any,
    sources: Any,
    shares: Any,
    queries: Any,
    rows: Any,
    ids: Any,
    out: Any,
) -> None:
    dim = out.shape[1]
    begin, end = share_of(out.shape[0], chunk, chunks)
    for e in range(begin, end):
        total = out[e]
        for d in range(dim):
            total[d] = np.float32(0)
        for place in range(starts[e], starts[e + 1]):
            source, share = sources[place], shares[place]
            row = queries[source] if source < queries.shape[0] else rows[source - queries.shape[0]]
            for d in range(dim):
                total[d] += share * row[d]
        if limit > 0 and starts[e + 1] > starts[e]:
            number = ids[e] if ids.size > 0 else e
            mask_in_place(number * dim, total, limit, low, high, scale)


@spread
def _scatter_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _scatter(np.int64(chunk), chunks, *arguments)
