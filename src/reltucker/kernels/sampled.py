"""Scores of sampled candidates, and their gradients."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops
from reltucker.kernels.dropout import Dropout, mask_in_place


def sampled_scores(queries: Tensor, entities: Tensor, candidates: Tensor) -> Tensor:
    """S[b, n] = <Q[b], E[candidates[b, n]]>: (B, d), (N, d), (B, n) to (B, n)."""
    if has_loops(queries):
        scores = queries.new_empty(candidates.shape)
        _sampled_loop(queries.numpy(), entities.numpy(), candidates.numpy(), scores.numpy())
        return scores
    return torch.bmm(entities[candidates], queries.unsqueeze(2)).squeeze(2)


@compiled(parallel=True)
def _sampled_loop(queries: Any, entities: Any, candidates: Any, scores: Any) -> None:
    for b in numba.prange(candidates.shape[0]):
        for n in range(candidates.shape[1]):
            entity = candidates[b, n]
            total = np.float32(0)
            for d in range(queries.shape[1]):
                total += queries[b, d] * entities[entity, d]
            scores[b, n] = total


def weighted_candidates(weights: Tensor, entities: Tensor, candidates: Tensor) -> Tensor:
    """Q[b] = sum_n weights[b, n] E[candidates[b, n]]: the gradient of `sampled_scores` for Q."""
    return torch.nn.functional.embedding_bag(
        candidates, entities, per_sample_weights=weights, mode="sum"
    )


def scatter_rows(
    targets: Tensor, weights: Tensor, sources: Tensor, rows: Tensor, dropout: Dropout, out: Tensor
) -> Tensor:
    """out[e] = mask[e] * sum of weights[m] rows[sources[m]] over all m with targets[m] = e.

    The gradient of `sampled_scores` for E. Targets are ordered by a counting sort, so each row of
    `out` is summed in a fixed order by one thread: deterministic, and written exactly once.
    """
    if has_loops(rows):
        tensors = (targets, weights, sources, rows, out)
        _scatter_loop(*dropout.loop_arguments(), *(t.numpy() for t in tensors))
        return out
    out.zero_().index_add_(0, targets, weights.unsqueeze(1) * rows[sources])
    return out.mul_(dropout.mask(out))


@compiled(parallel=True)
def _scatter_loop(
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
    targets: Any,
    weights: Any,
    sources: Any,
    rows: Any,
    out: Any,
) -> None:
    dim = out.shape[1]
    starts = np.zeros(out.shape[0] + 1, dtype=np.int64)
    for m in range(targets.size):
        starts[targets[m] + 1] += 1
    for e in range(out.shape[0]):
        starts[e + 1] += starts[e]
    ends = starts[:-1].copy()
    order = np.empty(targets.size, dtype=np.int64)
    for m in range(targets.size):
        e = targets[m]
        order[ends[e]] = m
        ends[e] += 1
    for e in numba.prange(out.shape[0]):
        _sum_rows(order[starts[e] : starts[e + 1]], weights, sources, rows, out[e])
        if starts[e + 1] > starts[e]:
            mask_in_place(e * dim, out[e], limit, low, high, scale)


@compiled(parallel=False)
def _sum_rows(entries: Any, weights: Any, sources: Any, rows: Any, total: Any) -> None:
    for d in range(total.size):
        total[d] = np.float32(0)
    for m in entries:
        weight = weights[m]
        row = rows[sources[m]]
        for d in range(total.size):
            total[d] += weight * row[d]
