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
    """
    own, known = scores[rows, targets], (starts, counts, answers, splits)
    return ranks_of(count_above(scores, own, 0, rows, targets, seen, *known))


def ranks_of(counted: Tensor) -> Tensor:
    """What `count_above` has found among all entities, as ranks."""
    return (1.0 + counted) / 2.0


def count_above(
    scores: Tensor,
    own: Tensor,
    first: int,
    rows: Tensor,
    targets: Tensor,
    seen: int,
    starts: Tensor,
    counts: Tensor,
    answers: Tensor,
    splits: Tensor,
) -> Tensor:
    """The sum of 1 + sign(s_j - own) over the entities that the scores are of, `first` being the
    first of them, and that are left by the filters of `rank_by_counting`: (m, 3) float64.

    With ties at their mean, rank = (n + 1 + sum of sign(s_j - s_target)) / 2 over the n candidates
    left by the filter (the target among them), so nothing is sorted, ties are not counted apart,
    and the counts of several parts of the entities can be added.
    """
    known = (starts, counts, answers, splits)
    if not has_loops(scores):
        return count_reference(scores, own, first, rows, targets, seen, *known)
    counted = torch.empty((len(rows), 3), dtype=torch.float64)
    tensors = (own.contiguous(), rows, targets, *known, counted)
    run(_count, _count_spread, first, seen, *whole_rows(scores), *tensors)
    return counted


def count_reference(
    scores: Tensor,
    own: Tensor,
    first: int,
    rows: Tensor,
    targets: Tensor,
    seen: int,
    starts: Tensor,
    counts: Tensor,
    answers: Tensor,
    splits: Tensor,
) -> Tensor:
    """`count_above` in torch operations, for any device."""
    sign = torch.sign(scores[rows] - own.unsqueeze(1)).double()
    prefix = min(max(seen - first, 0), sign.shape[1])
    everywhere = sign.shape[1] + sign.sum(dim=1)
    among_seen = prefix + sign[:, :prefix].sum(dim=1)
    # What each known answer but the target itself contributes is taken out again.
    repeats = counts[rows]
    entry = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), repeats)
    before = torch.cumsum(repeats, 0) - repeats
    place = torch.arange(len(entry), device=rows.device) + (starts[rows] - before)[entry]
    known = answers[place].long()
    here = (known >= first) & (known < first + sign.shape[1])
    column = torch.where(here, known - first, 0)
    gone = (sign[entry, column] + 1) * ((known != targets[entry]) & here)

    def filtered(total: Tensor, kept: Tensor) -> Tensor:
        return total - torch.zeros_like(total).index_add_(0, entry, gone * kept)

    is_seen = known < seen
    counted = torch.stack(
        [
            filtered(everywhere, torch.ones_like(is_seen)),
            filtered(among_seen, is_seen),
            filtered(among_seen, is_seen & (splits[place] < 2)),
        ],
        dim=1,
    )
    counted[~torch.isfinite(scores).all(dim=1)[rows]] = torch.nan
    return counted


@compiled
def _count(
    chunk: int,
    chunks: int,
    first: int,
    seen: int,
    scores: Any,
    width: int,
    own: Any,
    rows: Any,
    targets: Any,
    starts: Any,
    counts: Any,
    answers: Any,
    splits: Any,
    counted: Any,
) -> None:
    begin, end = share_of(rows.size, chunk, chunks)
    among = min(max(seen - first, 0), width)
    for m in range(begin, end):
        row = rows[m]
        s = scores[row, :width]
        prefix, broken = _above(s[:among], own[m])
        rest, broken_too = _above(s[among:], own[m])
        standard = width + prefix + rest
        among_seen = among + prefix
        paper = among_seen
        for place in range(starts[row], starts[row] + counts[row]):
            j = answers[place] - first
            if answers[place] != targets[m] and j >= 0 and j < width:
                gone = 1 + np.int32(s[j] > own[m]) - np.int32(s[j] < own[m])
                standard -= gone
                if j < among:
                    among_seen -= gone
                    if splits[place] < 2:
                        paper -= gone
        whole = broken + broken_too == 0
        counted[m, 0] = standard if whole else np.nan
        counted[m, 1] = among_seen if whole else np.nan
        counted[m, 2] = paper if whole else np.nan


@spread
def _count_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _count(np.int64(chunk), chunks, *arguments)


@compiled
def _above(s: Any, own: Any) -> Any:
    """The sum of sign(s_j - own), and how many s_j are not finite."""
    total, broken = np.int32(0), np.int32(0)
    for j in range(s.size):
        total += np.int32(s[j] > own) - np.int32(s[j] < own)
        broken += np.int32(not (abs(s[j]) <= np.float32(3.4028235e38)))
    return total, broken
