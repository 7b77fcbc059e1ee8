"""Losses: a block of scores to loss and score gradients, in place.

For question b let A_b be its answers, n_b how many they are, w_b its weight, s_bj its scores, N the
number of entities, and y_bj = (1 - c) [j in A_b] / n_b + c / N with the label smoothing c. Then

    softmax : loss_b = w_b (log sum_j exp s_bj - sum_j y_bj s_bj)
    binary  : loss_b = w_b sum_j (log(1 + exp s_bj) - z_bj s_bj), z_bj = (1 - c) [j in A_b] + c / N

No label matrix is made: the answers of a row are subtracted from its gradient one by one. Scores
may come in blocks of entities; for softmax `add_to_sums` then sees every block first.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, run, share_of, spread, whole_rows

Loss = Literal["softmax", "binary"]


@dataclass(frozen=True, eq=False)
class Targets:
    """What the scores of Q questions over `count` entities should be.

    starts  : (Q + 1,) where the answers of each question begin in `answers`, ascending for each
    weights : (Q,) how much each question counts
    """

    starts: Tensor
    answers: Tensor
    weights: Tensor
    smoothing: float
    count: int

    def of_block(self, block: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column of every answer, and which stand in the block (column 0 if not)."""
        counts = self.starts[1:] - self.starts[:-1]
        row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        inside = (self.answers >= block.start) & (self.answers < block.stop)
        return row, torch.where(inside, self.answers - block.start, 0), inside


@dataclass(frozen=True, eq=False)
class RowSums:
    """The largest score of each row so far, and the sum of exp(score - largest)."""

    largest: Tensor
    total: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> "RowSums":
        """Nothing seen yet, for as many rows."""
        return cls(rows.new_full((len(rows),), -torch.inf), rows.new_zeros(len(rows)))

    def logarithms(self) -> Tensor:
        """log sum_j exp s_bj in double precision (B,)."""
        return self.largest.double() + self.total.double().log()


def add_to_sums(scores: Tensor, sums: RowSums) -> None:
    """Take a block of scores in."""
    largest, total = sums.largest, sums.total
    if has_loops(scores):
        run(_sums, _sums_spread, *whole_rows(scores), largest, total)
        return
    greater = torch.maximum(largest, scores.amax(dim=1))
    total.mul_((largest - greater).exp()).add_((scores - greater.unsqueeze(1)).exp().sum(dim=1))
    largest.copy_(greater)


def softmax_gradient(
    scores: Tensor, block: slice, targets: Targets, sums: RowSums, losses: Tensor, known: bool
) -> None:
    """Scores of a block to w_b (p_bj - y_bj) in place; sum_j y_bj s_bj is taken from the losses.
    Where the sums over rows are not known, the block has whole rows, and they are filled in."""
    starts, answers, weights = targets.starts, targets.answers, targets.weights
    smoothing, count = targets.smoothing, targets.count
    if has_loops(scores):
        tensors = (sums.largest, sums.total, starts, answers, weights, losses)
        numbers = (block.start, count, known, np.float32(smoothing))
        run(_softmax, _softmax_spread, *numbers, *whole_rows(scores), *tensors)
        return
    if not known:
        add_to_sums(scores, sums)
    share = (1.0 - smoothing) / (starts[1:] - starts[:-1]).to(weights)
    row, column, inside = targets.of_block(block)
    losses -= weights * smoothing / count * scores.sum(dim=1)
    losses.index_add_(0, row, (-(weights * share)[row] * scores[row, column] * inside).double())
    scores.sub_(sums.largest.unsqueeze(1)).exp_().div_(sums.total.unsqueeze(1))
    scores.sub_(smoothing / count)
    scores.index_put_((row, column), -share[row] * inside, accumulate=True)
    scores.mul_(weights.unsqueeze(1))


def binary_gradient(scores: Tensor, block: slice, targets: Targets, losses: Tensor) -> None:
    """Scores of a block to w_b (sigmoid(s_bj) - z_bj) in place; its loss is added to the losses."""
    starts, answers, weights = targets.starts, targets.answers, targets.weights
    smoothing, count = targets.smoothing, targets.count
    if has_loops(scores):
        numbers = (block.start, count, np.float32(smoothing))
        tensors = (starts, answers, weights, losses)
        run(_binary, _binary_spread, *numbers, *whole_rows(scores), *tensors)
        return
    row, column, inside = targets.of_block(block)
    target = (1.0 - smoothing) * inside.to(weights)
    losses += weights * (
        torch.nn.functional.softplus(scores).sum(dim=1) - smoothing / count * scores.sum(dim=1)
    )
    losses.index_add_(0, row, (-weights[row] * target * scores[row, column]).double())
    scores.sigmoid_().sub_(smoothing / count)
    scores.index_put_((row, column), -target, accumulate=True)
    scores.mul_(weights.unsqueeze(1))


def shared_softmax(own: Tensor, scores: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """Softmax cross-entropy of a score of each row's own (B,) against those of shared candidates
    (B, n): the weighted losses (B,). Both are overwritten by the weighted gradients for them,
    w (p - 1) and w p. Where a row's own is among the candidates, in `columns` (B,), -1 if not,
    that candidate does not count.
    """
    if has_loops(scores):
        losses = torch.empty_like(own)
        run(_shared, _shared_spread, own, *whole_rows(scores), columns, weights, losses)
        return losses
    among = torch.nonzero(columns >= 0).squeeze(1)
    scores[among, columns[among]] = -torch.inf
    logarithm = torch.logsumexp(torch.cat([own.unsqueeze(1), scores], dim=1), dim=1)
    losses = (logarithm - own) * weights
    own.sub_(logarithm).exp_().sub_(1.0).mul_(weights)
    scores.sub_(logarithm.unsqueeze(1)).exp_().mul_(weights.unsqueeze(1))
    return losses


# -- loops ----------------------------------------------------------------------------------------


@compiled
def _sums(chunk: int, chunks: int, scores: Any, width: int, largest: Any, total: Any) -> None:
    begin, end = share_of(scores.shape[0], chunk, chunks)
    for b in range(begin, end):
        s = scores[b, :width]
        greater = _largest_of(s, largest[b])
        added = np.float32(0)
        for j in range(s.size):
            added += exponential(s[j] - greater)
        # The first time there is nothing to rescale. A sum that is not finite stays so.
        if largest[b] > np.float32(-np.inf):
            added += total[b] * np.exp(largest[b] - greater)
        total[b] = added
        largest[b] = greater


@spread
def _sums_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _sums(np.int64(chunk), chunks, *arguments)


@compiled
def _softmax(
    chunk: int,
    chunks: int,
    begin: int,
    count: int,
    known: bool,
    smoothing: np.float32,
    scores: Any,
    width: int,
    largest: Any,
    total: Any,
    starts: Any,
    answers: Any,
    weights: Any,
    losses: Any,
) -> None:
    first_row, last_row = share_of(scores.shape[0], chunk, chunks)
    for b in range(first_row, last_row):
        s = scores[b, :width]
        first, last = _part_of(answers, starts[b], starts[b + 1], begin, begin + s.size)
        share = (np.float32(1) - smoothing) / np.float32(starts[b + 1] - starts[b])
        floor = smoothing / np.float32(count)
        attained = np.float64(0)
        for place in range(first, last):
            attained += share * s[answers[place] - begin]
        if smoothing > 0:
            attained += floor * _sum(s)
        losses[b] -= weights[b] * attained
        if known:
            _to_softmax(s, largest[b], weights[b] / total[b], floor * weights[b])
        else:
            largest[b] = _largest_of(s, np.float32(-np.inf))
            total[b] = _to_exponentials(s, largest[b])
            _scale_row(s, weights[b] / total[b], floor * weights[b])
        for place in range(first, last):
            s[answers[place] - begin] -= share * weights[b]


@spread
def _softmax_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _softmax(np.int64(chunk), chunks, *arguments)


@compiled
def _binary(
    chunk: int,
    chunks: int,
    begin: int,
    count: int,
    smoothing: np.float32,
    scores: Any,
    width: int,
    starts: Any,
    answers: Any,
    weights: Any,
    losses: Any,
) -> None:
    first_row, last_row = share_of(scores.shape[0], chunk, chunks)
    for b in range(first_row, last_row):
        s = scores[b, :width]
        first, last = _part_of(answers, starts[b], starts[b + 1], begin, begin + s.size)
        target = np.float32(1) - smoothing
        floor = smoothing / np.float32(count)
        attained = np.float64(0)
        for place in range(first, last):
            attained += target * s[answers[place] - begin]
        if smoothing > 0:
            attained += floor * _sum(s)
        losses[b] += weights[b] * (_to_sigmoid(s, weights[b], floor) - attained)
        for place in range(first, last):
            s[answers[place] - begin] -= target * weights[b]


@spread
def _binary_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _binary(np.int64(chunk), chunks, *arguments)


@compiled
def _shared(
    chunk: int,
    chunks: int,
    own: Any,
    scores: Any,
    width: int,
    columns: Any,
    weights: Any,
    losses: Any,
) -> None:
    begin, end = share_of(scores.shape[0], chunk, chunks)
    for b in range(begin, end):
        s, column = scores[b, :width], columns[b]
        if column >= 0:
            s[column] = np.float32(-np.inf)
        largest = _largest_of(s, own[b])
        first = exponential(own[b] - largest)
        total = _to_exponentials(s, largest) + first
        _scale_row(s, weights[b] / total, np.float32(0))
        if column >= 0:
            s[column] = np.float32(0)
        losses[b] = weights[b] * (np.log(total) + largest - own[b])
        own[b] = weights[b] * (first / total - np.float32(1))


@spread
def _shared_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _shared(np.int64(chunk), chunks, *arguments)


@compiled
def exponential(x: Any) -> Any:
    """exp(x) for x <= 0, to single precision: 2^floor(t) times a polynomial for 2^(t - floor(t)).

    Without a call in it, so that loops over it vectorise. NaN stays NaN.
    """
    x = np.float32(-87.0) if x < np.float32(-87.0) else x
    t = x * np.float32(1.44269504)
    whole = np.floor(t)
    f = t - whole
    p = np.float32(1.8775767e-3)
    p = p * f + np.float32(8.9893397e-3)
    p = p * f + np.float32(5.5826318e-2)
    p = p * f + np.float32(2.4015361e-1)
    p = p * f + np.float32(6.9315308e-1)
    p = p * f + np.float32(9.9999994e-1)
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@compiled
def _largest_of(s: Any, largest: Any) -> Any:
    """The largest of the scores and `largest`, NaN if there is one among the scores.

    Compared as integers in the order of the numbers: unlike one over floats, such a loop
    vectorises.
    """
    best = _ordered(largest)
    for j in range(s.size):
        place = _ordered(s[j])
        best = place if place > best else best
    return np.int32(best ^ ((best >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@compiled
def _ordered(x: Any) -> Any:
    """An integer for each number, in their order."""
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@compiled
def _to_exponentials(s: Any, largest: Any) -> Any:
    """s to exp(s - largest) in place; returns their sum."""
    total = np.float32(0)
    for j in range(s.size):
        e = exponential(s[j] - largest)
        total += e
        s[j] = e
    return total


@compiled
def _scale_row(s: Any, scale: Any, floor: Any) -> None:
    """s to scale s - floor in place."""
    for j in range(s.size):
        s[j] = s[j] * scale - floor


@compiled
def _to_softmax(s: Any, largest: Any, scale: Any, floor: Any) -> None:
    """s to scale exp(s - largest) - floor in place."""
    for j in range(s.size):
        s[j] = exponential(s[j] - largest) * scale - floor


@compiled
def _sum(s: Any) -> Any:
    total = np.float32(0)
    for j in range(s.size):
        total += s[j]
    return total


@compiled
def _to_sigmoid(s: Any, weight: Any, floor: Any) -> Any:
    """s to weight (sigmoid(s) - floor) in place; returns the sum of log(1 + exp s)."""
    total = np.float32(0)
    for j in range(s.size):
        x = s[j]
        e = exponential(-abs(x))
        inverse = np.float32(1) / (np.float32(1) + e)
        # log(1 + e) = 2 artanh(z) with z = e / (2 + e) <= 1/3
        z = e / (np.float32(2) + e)
        y = z * z
        p = np.float32(1 / 11)
        p = p * y + np.float32(1 / 9)
        p = p * y + np.float32(1 / 7)
        p = p * y + np.float32(1 / 5)
        p = p * y + np.float32(1 / 3)
        p = p * y + np.float32(1)
        total += (np.float32(0) if x < 0 else x) + np.float32(2) * z * p
        s[j] = weight * ((e * inverse if x < 0 else inverse) - floor)
    return total


@compiled
def _part_of(answers: Any, first: int, last: int, begin: int, end: int) -> Any:
    """Which of the ascending answers[first : last] lie in begin .. end."""
    while first < last and answers[first] < begin:
        first += 1
    while last > first and answers[last - 1] >= end:
        last -= 1
    return first, last
