"""Softmax over candidates of each question's own, and the gradients of its loss.

Scores of such candidates are no matrix product, and their rows are the traffic of a step. So the
loss is computed where the rows are at hand: they are loaded once for scores and gradients.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import arrays_of, compiled, has_loops, run, share_of, spread
from reltucker.kernels.dropout import Dropout, Mask, mask_in_place, masked
from reltucker.kernels.rows import adagrad_row


def sampled_softmax(
    queries: Tensor, entities: Tensor, candidates: Tensor, weights: Tensor, dropout: Dropout
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax cross-entropy of the first candidate of each row against the others.

    With s_n = <q_b, E[candidates[b, n]]>, p = softmax(s) and the weight w_b of the row: the loss
    -w_b log p_0 (B,), its gradient for the scores w_b (p_n - [n = 0]) (B, n), and for the queries
    sum_n w_b (p_n - [n = 0]) E[candidates[b, n]] (B, d). E is masked by the dropout on the way: a
    masked copy would be one more matrix to write, to read and to keep in the caches.
    """
    if has_loops(queries):
        losses, gradient = torch.empty_like(weights), torch.empty_like(queries)
        scores = queries.new_empty(candidates.shape)
        rows = queries.new_empty(numba.get_num_threads(), *candidates.shape[1:], queries.shape[1])
        tensors = (queries, entities, candidates, weights, losses, scores, gradient, rows)
        run(_softmax, _softmax_spread, dropout.for_loops(), *tensors)
        return losses, scores, gradient
    rows = (entities * dropout.mask(entities))[candidates]
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
    mask: Mask,
    queries: Any,
    entities: Any,
    candidates: Any,
    weights: Any,
    losses: Any,
    scores: Any,
    gradient: Any,
    rows: Any,
) -> None:
    begin, end = share_of(candidates.shape[0], chunk, chunks)
    for b in range(begin, end):
        p, q = scores[b], queries[b]
        largest = np.float32(-np.inf)
        for n in range(p.size):
            row = rows[chunk, n]
            masked(candidates[b, n] * row.size, entities[candidates[b, n]], row, mask)
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
        _weighted_sum(p, rows[chunk], gradient[b])


@spread
def _softmax_spread(chunks: int, mask: Mask, *arrays: Any) -> None:
    for chunk in numba.prange(chunks):
        _softmax(np.int64(chunk), chunks, mask, *arrays)


@compiled
def _weighted_sum(weights: Any, rows: Any, total: Any) -> None:
    """total = sum_n weights[n] rows[n], four rows at a time."""
    for d in range(total.size):
        total[d] = np.float32(0)
    count = weights.size - weights.size % 4
    for n in range(0, count, 4):
        w0, w1, w2, w3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
        r0, r1, r2, r3 = rows[n], rows[n + 1], rows[n + 2], rows[n + 3]
        for d in range(total.size):
            total[d] += w0 * r0[d] + w1 * r1[d] + w2 * r2[d] + w3 * r3[d]
    for n in range(count, weights.size):
        weight, row = weights[n], rows[n]
        for d in range(total.size):
            total[d] += weight * row[d]


@dataclass(frozen=True, eq=False)
class Entries:
    """The gradient of a matrix (N, d) as what is added to each of its rows: row e is the sum of
    shares[n] sources[places[n]] over starts[e] <= n < starts[e + 1], times the dropout's mask, in
    which it is row ids[e] (or e, where there are no ids).

    Nothing is summed yet: whoever needs the sums has them in the caches when they are used.
    """

    starts: Tensor
    places: Tensor
    shares: Tensor
    sources: Tensor
    dropout: Dropout
    ids: Tensor | None

    @classmethod
    def of(
        cls,
        candidates: Tensor,
        weights: Tensor,
        queries: Tensor,
        given: Tensor,
        rows: Tensor,
        count: int,
        dropout: Dropout,
        ids: Tensor | None,
    ) -> "Entries":
        """weights[b, n] queries[b] for row candidates[b, n], and rows[g] for row given[g], of a
        matrix with `count` rows. A counting sort orders them, so that each row is summed in a
        fixed order by one thread."""
        total = candidates.numel() + len(given)
        starts = torch.zeros(count + 2, dtype=torch.int32)
        places, shares = torch.empty(total, dtype=torch.int32), queries.new_empty(total)
        _sort(*arrays_of(candidates, weights, given, starts, places, shares))
        return cls(starts, places, shares, torch.cat([queries, rows]), dropout, ids)

    def dense(self, out: Tensor) -> Tensor:
        """The sums, written into out (N, d)."""
        run(_sum_entries, _sum_entries_spread, *self._arguments(), out)
        return out

    def adagrad(self, matrix: Tensor, sums: Tensor, rate: float, epsilon: float) -> None:
        """A step of AdaGrad for the rows to which anything is added: the same result as a dense
        step, without a gradient that is written and read again."""
        assert self.ids is None
        constants = np.float32(rate), np.float32(epsilon)
        rows = matrix.new_empty(numba.get_num_threads(), matrix.shape[1])
        arguments = (*self._arguments(), *constants, matrix, sums, rows)
        run(_adagrad_entries, _adagrad_spread, *arguments)

    def _arguments(self) -> tuple[Any, ...]:
        ids = self.starts[:0].long() if self.ids is None else self.ids
        added = tuple(arrays_of(self.starts, self.places, self.shares, self.sources))
        return self.dropout.for_loops(), added, ids


def scatter_gradient(
    candidates: Tensor,
    weights: Tensor,
    queries: Tensor,
    given: Tensor,
    rows: Tensor,
    dropout: Dropout,
    out: Tensor,
) -> Tensor:
    """The sums of `Entries.of` in torch operations, for any device."""
    out.zero_().index_add_(0, given, rows)
    flat = (weights.unsqueeze(2) * queries.unsqueeze(1)).flatten(0, 1)
    return out.index_add_(0, candidates.flatten(), flat).mul_(dropout.mask(out))


@compiled
def _sort(candidates: Any, weights: Any, given: Any, starts: Any, places: Any, shares: Any) -> None:
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
            places[starts[e]] = b
            shares[starts[e]] = weights[b, n]
            starts[e] += 1
    for g in range(given.size):
        e = given[g] + 1
        places[starts[e]] = size + g
        shares[starts[e]] = np.float32(1)
        starts[e] += 1


@compiled
def _sum_row(e: int, mask: Mask, added: Any, ids: Any, total: Any) -> None:
    starts, places, shares, sources = added
    for d in range(total.size):
        total[d] = np.float32(0)
    for n in range(starts[e], starts[e + 1]):
        share, row = shares[n], sources[places[n]]
        for d in range(total.size):
            total[d] += share * row[d]
    if mask[0] > 0 and starts[e + 1] > starts[e]:
        mask_in_place((ids[e] if ids.size > 0 else e) * total.size, total, mask)


@compiled
def _sum_entries(chunk: int, chunks: int, mask: Mask, added: Any, ids: Any, out: Any) -> None:
    begin, end = share_of(out.shape[0], chunk, chunks)
    for e in range(begin, end):
        _sum_row(e, mask, added, ids, out[e])


@spread
def _sum_entries_spread(chunks: int, mask: Mask, added: Any, *arrays: Any) -> None:
    for chunk in numba.prange(chunks):
        _sum_entries(np.int64(chunk), chunks, mask, added, *arrays)


@compiled
def _adagrad_entries(
    chunk: int,
    chunks: int,
    mask: Mask,
    added: Any,
    ids: Any,
    rate: np.float32,
    epsilon: np.float32,
    matrix: Any,
    sums: Any,
    rows: Any,
) -> None:
    begin, end = share_of(matrix.shape[0], chunk, chunks)
    starts = added[0]
    for e in range(begin, end):
        if starts[e + 1] > starts[e]:
            _sum_row(e, mask, added, ids, rows[chunk])
            adagrad_row(rate, epsilon, matrix[e], sums[e], rows[chunk])


@spread
def _adagrad_spread(chunks: int, mask: Mask, added: Any, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _adagrad_entries(np.int64(chunk), chunks, mask, added, *arguments)
