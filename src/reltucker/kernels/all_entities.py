"""Losses of queries against all entities, with their gradients, block by block.

For query b let A_b be its answers, n_b how many they are, w_b its weight, s_bj = <q_b, e_j>, N the
number of entities, and y_bj = (1 - c) [j in A_b] / n_b + c / N with the label smoothing c. Then

    softmax : loss_b = w_b (log sum_j exp s_bj - sum_j y_bj s_bj)
    binary  : loss_b = w_b sum_j (log(1 + exp s_bj) - z_bj s_bj), z_bj = (1 - c) [j in A_b] + c / N

No label matrix is made: the answers of a row are subtracted from its gradient one by one. No more
than one block of scores is held. Where all of them fit into the given buffer, there is one block;
softmax over several blocks computes each block of scores twice, first for the sums over a row.
"""

from typing import Any, Literal

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops

Loss = Literal["softmax", "binary"]


def all_entities_loss(
    loss: Loss,
    queries: Tensor,
    entities: Tensor,
    starts: Tensor,
    answers: Tensor,
    weights: Tensor,
    smoothing: float,
    scores: Tensor,
    entity_gradient: Tensor,
) -> tuple[Tensor, Tensor]:
    """queries (B, d), entities (N, d), answers[starts[b] : starts[b + 1]] ascending, weights (B,)
    to the losses (B,) in double precision and their gradient for the queries (B, d).

    `scores` is the buffer for blocks, at least B long; the gradient for the entities is written
    into `entity_gradient` (N, d).
    """
    size, count = len(queries), len(entities)
    width = min(count, scores.numel() // size)
    losses = torch.zeros(size, dtype=torch.float64, device=queries.device)
    # The largest score of a row so far, and the sum of exp(score - largest).
    largest, total = queries.new_full((size,), -torch.inf), queries.new_zeros(size)
    blocks = [slice(begin, min(begin + width, count)) for begin in range(0, count, width)]

    def block_of_scores(block: slice) -> Tensor:
        part = scores[: size * (block.stop - block.start)].view(size, -1)
        return torch.mm(queries, entities[block].t(), out=part)

    known = len(blocks) > 1
    if loss == "softmax" and known:
        for block in blocks:
            _add_to_sums(block_of_scores(block), largest, total)
    query_gradient = torch.empty_like(queries)
    for block in blocks:
        part = block_of_scores(block)
        targets = (starts, answers, weights, smoothing, losses)
        if loss == "softmax":
            _softmax_gradient(part, block, count, largest, total, known, *targets)
        else:
            _binary_gradient(part, block, count, *targets)
        torch.mm(part.t(), queries, out=entity_gradient[block])
        if block.start == 0:
            torch.mm(part, entities[block], out=query_gradient)
        else:
            query_gradient.addmm_(part, entities[block])
    if loss == "softmax":
        losses += weights.double() * (largest.double() + total.double().log())
    return losses, query_gradient


def _add_to_sums(scores: Tensor, largest: Tensor, total: Tensor) -> None:
    if has_loops(scores):
        _sums_loop(scores.numpy(), largest.numpy(), total.numpy())
        return
    greater = torch.maximum(largest, scores.amax(dim=1))
    total.mul_((largest - greater).exp()).add_((scores - greater.unsqueeze(1)).exp().sum(dim=1))
    largest.copy_(greater)


def _softmax_gradient(
    scores: Tensor,
    block: slice,
    count: int,
    largest: Tensor,
    total: Tensor,
    known: bool,
    starts: Tensor,
    answers: Tensor,
    weights: Tensor,
    smoothing: float,
    losses: Tensor,
) -> None:
    """Scores to w_b (p_bj - y_bj) in place; sum_j y_bj s_bj is taken from the losses. Where the
    sums over rows are not known, the block has whole rows, and they are filled in."""
    if has_loops(scores):
        tensors = (scores, largest, total, starts, answers, weights, losses)
        arrays = (t.numpy() for t in tensors)
        _softmax_loop(block.start, count, known, np.float32(smoothing), *arrays)
        return
    if not known:
        _add_to_sums(scores, largest, total)
    share = (1.0 - smoothing) / (starts[1:] - starts[:-1]).to(weights)
    row, column, inside = _answers_of_block(block, starts, answers)
    losses -= weights * smoothing / count * scores.sum(dim=1)
    losses.index_add_(0, row, (-(weights * share)[row] * scores[row, column] * inside).double())
    scores.sub_(largest.unsqueeze(1)).exp_().div_(total.unsqueeze(1)).sub_(smoothing / count)
    scores.index_put_((row, column), -share[row] * inside, accumulate=True)
    scores.mul_(weights.unsqueeze(1))


def _binary_gradient(
    scores: Tensor,
    block: slice,
    count: int,
    starts: Tensor,
    answers: Tensor,
    weights: Tensor,
    smoothing: float,
    losses: Tensor,
) -> None:
    """Scores to w_b (sigmoid(s_bj) - z_bj) in place; the block's loss is added to the losses."""
    if has_loops(scores):
        tensors = (scores, starts, answers, weights, losses)
        arrays = (t.numpy() for t in tensors)
        _binary_loop(block.start, count, np.float32(smoothing), *arrays)
        return
    row, column, inside = _answers_of_block(block, starts, answers)
    target = (1.0 - smoothing) * inside.to(weights)
    losses += weights * (
        torch.nn.functional.softplus(scores).sum(dim=1) - smoothing / count * scores.sum(dim=1)
    )
    losses.index_add_(0, row, (-weights[row] * target * scores[row, column]).double())
    scores.sigmoid_().sub_(smoothing / count)
    scores.index_put_((row, column), -target, accumulate=True)
    scores.mul_(weights.unsqueeze(1))


def _answers_of_block(
    block: slice, starts: Tensor, answers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column of every answer, and which of them stand in the block (column 0 if not)."""
    counts = starts[1:] - starts[:-1]
    row = torch.repeat_interleave(torch.arange(len(counts), device=starts.device), counts)
    chosen = answers[starts[0] : starts[-1]]
    inside = (chosen >= block.start) & (chosen < block.stop)
    return row, torch.where(inside, chosen - block.start, 0), inside


# -- loops ----------------------------------------------------------------------------------------


@compiled(parallel=False)
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


@compiled(parallel=True)
def _sums_loop(scores: Any, largest: Any, total: Any) -> None:
    for b in numba.prange(scores.shape[0]):
        s = scores[b]
        greater = largest_of(s, largest[b])
        added = np.float32(0)
        for j in range(s.size):
            added += exponential(s[j] - greater)
        # The first time there is nothing to rescale. A sum that is not finite stays so.
        if largest[b] > np.float32(-np.inf):
            added += total[b] * np.exp(largest[b] - greater)
        total[b] = added
        largest[b] = greater


@compiled(parallel=True)
def _softmax_loop(
    begin: int,
    count: int,
    known: bool,
    smoothing: np.float32,
    scores: Any,
    largest: Any,
    total: Any,
    starts: Any,
    answers: Any,
    weights: Any,
    losses: Any,
) -> None:
    for b in numba.prange(scores.shape[0]):
        s = scores[b]
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
            largest[b] = largest_of(s, np.float32(-np.inf))
            total[b] = to_exponentials(s, largest[b])
            scale_row(s, weights[b] / total[b], floor * weights[b])
        for place in range(first, last):
            s[answers[place] - begin] -= share * weights[b]


@compiled(parallel=False)
def largest_of(s: Any, largest: Any) -> Any:
    """The largest of the scores and `largest`, NaN if there is one among the scores.

    Compared as integers in the order of the numbers: unlike one over floats, such a loop
    vectorises.
    """
    best = _ordered(largest)
    for j in range(s.size):
        place = _ordered(s[j])
        best = place if place > best else best
    return np.int32(best ^ ((best >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@compiled(parallel=False)
def _ordered(x: Any) -> Any:
    """An integer for each number, in their order."""
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@compiled(parallel=False)
def to_exponentials(s: Any, largest: Any) -> Any:
    """s to exp(s - largest) in place; returns their sum."""
    total = np.float32(0)
    for j in range(s.size):
        e = exponential(s[j] - largest)
        total += e
        s[j] = e
    return total


@compiled(parallel=False)
def scale_row(s: Any, scale: Any, floor: Any) -> None:
    """s to scale s - floor in place."""
    for j in range(s.size):
        s[j] = s[j] * scale - floor


@compiled(parallel=False)
def _to_softmax(s: Any, largest: Any, scale: Any, floor: Any) -> None:
    for j in range(s.size):
        s[j] = exponential(s[j] - largest) * scale - floor


@compiled(parallel=False)
def _sum(s: Any) -> Any:
    total = np.float32(0)
    for j in range(s.size):
        total += s[j]
    return total


@compiled(parallel=True)
def _binary_loop(
    begin: int,
    count: int,
    smoothing: np.float32,
    scores: Any,
    starts: Any,
    answers: Any,
    weights: Any,
    losses: Any,
) -> None:
    for b in numba.prange(scores.shape[0]):
        s = scores[b]
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


@compiled(parallel=False)
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


@compiled(parallel=False)
def _part_of(answers: Any, first: int, last: int, begin: int, end: int) -> Any:
    """Which of the ascending answers[first : last] lie in begin .. end."""
    while first < last and answers[first] < begin:
        first += 1
    while last > first and answers[last - 1] >= end:
        last -= 1
    return first, last
