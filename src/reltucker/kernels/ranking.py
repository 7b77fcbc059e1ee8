"""Ranks by counting."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, run, share_of, spread, whole_rows


def rank_by_counting(
    scores: Tensor,
    rows: Tensor,
    targets: Tensor,
    seen: int,
    starts: Tensor,
    counts: Tensor,
    answers: Tensor,
    splits: Tensor,
) -> Tensor:
    """The rank of each target among the scores of its row, ties counted by their mean rank.

    scores (B, N); rows, targets (m,): the row and the entity of each true answer;
    starts, counts (B,): where the known answers of each row stand in `answers` and `splits`.
    Returns (m, 3) float64, a column for each filter and candidate set: all known answers filtered
    and all entities; the same among the entities below `seen`; known answers of train and valid
    only, among the entities below `seen`. NaN where the row holds a score that is not finite.

    With ties at their mean, rank = (n + 1 + sum of sign(s_j - s_target)) / 2 over the n candidates
    left by the filter (the target among them), so nothing is sorted and ties are not counted apart.
    """
    if has_loops(scores):
        ranks = torch.empty((len(rows), 3), dtype=torch.float64)
        tensors = (rows, targets, starts, counts, answers, splits, ranks)
        run(_rank, _rank_spread, seen, *whole_rows(scores), *tensors)
        return ranks
    return rank_reference(scores, rows, targets, seen, starts, counts, answers, splits)


def rank_reference(
    scores: Tensor,
    rows: Tensor,
    targets: Tensor,
    seen: int,
    starts: Tensor,
    counts: Tensor,
    answers: Tensor,
    splits: Tensor,
) -> Tensor:
    """`rank_by_counting` in torch operations, for any device."""
    own = scores[rows, targets]
    sign = torch.sign(scores[rows] - own.unsqueeze(1)).double()
    everywhere = sign.shape[1] + 1 + sign.sum(dim=1)
    prefix = seen + 1 + sign[:, :seen].sum(dim=1)
    # What each known answer but the target itself contributes is taken out again.
    repeats = counts[rows]
    entry = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), repeats)
    before = torch.cumsum(repeats, 0) - repeats
    place = torch.arange(len(entry), device=rows.device) + (starts[rows] - before)[entry]
    known = answers[place].long()
    gone = (sign[entry, known] + 1) * (known != targets[entry])

    def filtered(total: Tensor, kept: Tensor) -> Tensor:
        return (total - torch.zeros_like(total).index_add_(0, entry, gone * kept)) / 2

    is_seen = known < seen
    ranks = torch.stack(
        [
            filtered(everywhere, torch.ones_like(is_seen)),
            filtered(prefix, is_seen),
            filtered(prefix, is_seen & (splits[place] < 2)),
        ],
        dim=1,
    )
    ranks[~torch.isfinite(scores).all(dim=1)[rows]] = torch.nan
    return ranks


@compiled
def _rank(
    chunk: int,
    chunks: int,
    seen: int,
    scores: Any,
    width: int,
    rows: Any,
    targets: Any,
    starts: Any,
    counts: Any,
    answers: Any,
    splits: Any,
    ranks: Any,
) -> None:
    begin, end = share_of(rows.size, chunk, chunks)
    for m in range(begin, end):
        row = rows[m]
        target = targets[m]
        s = scores[row, :width]
        own = s[target]
        prefix, broken = _above(s[:seen], own)
        rest, broken_too = _above(s[seen:], own)
        standard = s.size + 1 + prefix + rest
        among_seen = seen + 1 + prefix
        paper = among_seen
        for place in range(starts[row], starts[row] + counts[row]):
            j = answers[place]
            if j != target:
                gone = 1 + np.int32(s[j] > own) - np.int32(s[j] < own)
                standard -= gone
                if j < seen:
                    among_seen -= gone
                    if splits[place] < 2:
                        paper -= gone
        whole = broken + broken_too == 0
        ranks[m, 0] = standard / 2 if whole else np.nan
        ranks[m, 1] = among_seen / 2 if whole else np.nan
        ranks[m, 2] = paper / 2 if whole else np.nan


@spread
def _rank_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _rank(np.int64(chunk), chunks, *arguments)


@compiled
def _above(s: Any, own: Any) -> Any:
    """The sum of sign(s_j - own), and how many s_j are not finite."""
    total, broken = np.int32(0), np.int32(0)
    for j in range(s.size):
        total += np.int32(s[j] > own) - np.int32(s[j] < own)
        broken += np.int32(not (abs(s[j]) <= np.float32(3.4028235e38)))
    return total, broken
