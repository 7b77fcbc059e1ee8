"""The inner loops that torch has no single pass for.

Each is one function over tensors. On the CPU a loop compiled by numba runs it without temporaries;
on other devices, and as the reference in tests, plain torch operations compute the same.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import torch
from torch import Tensor

Loop = TypeVar("Loop", bound=Callable[..., Any])


def _compiled(parallel: bool) -> Callable[[Loop], Loop]:
    # "nnan" and the like stay off: a NaN must reach the loss check, not be assumed away.
    flags = {"reassoc", "contract", "nsz"}
    jit = numba.njit(parallel=parallel, fastmath=flags, nogil=True, cache=True)
    return cast(Callable[[Loop], Loop], jit)


# --- dropout -----------------------------------------------------------------------------------


def apply_dropout(x: Tensor, rate: float, key: int, out: Tensor | None = None) -> Tensor:
    """x * mask / (1 - rate), where the mask is a pure function of `key` and the position.

    The backward pass is the same call on the gradient, so no mask is ever stored.
    """
    out = torch.empty_like(x) if out is None else out
    scale = 1.0 / (1.0 - rate)
    if _on_cpu(x):
        limit = np.uint32(min(int(rate * 2**32), 2**32 - 1))
        mixed = _mixed(key)
        low, high = np.uint32(mixed & 0xFFFFFFFF), np.uint32(mixed >> 32)
        _dropout_loop(_flat(x), _flat(out), limit, low, high, np.float32(scale))
        return out
    generator = torch.Generator(x.device).manual_seed(key)
    kept = torch.empty_like(x).bernoulli_(1.0 - rate, generator=generator)
    return torch.mul(x, kept.mul_(scale), out=out)


@_compiled(parallel=True)
def _dropout_loop(
    x: Any, out: Any, limit: np.uint32, low: np.uint32, high: np.uint32, scale: np.float32
) -> None:
    # A counter-based generator: two multiply-xorshift rounds over position and key.
    for i in numba.prange(x.size):
        # numba widens every integer product, hence the casts back to 32 bits.
        h = np.uint32(np.uint32(i) * np.uint32(0x9E3779B1) + low) ^ high
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
        h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
        h = np.uint32(h ^ (h >> np.uint32(16)))
        out[i] = x[i] * scale if h >= limit else np.float32(0)


# --- scores of sampled candidates ----------------------------------------------------------------


def sampled_scores(queries: Tensor, entities: Tensor, candidates: Tensor) -> Tensor:
    """S[b, n] = <Q[b], E[candidates[b, n]]>: (B, d), (N, d), (B, n) to (B, n)."""
    if _on_cpu(queries):
        scores = queries.new_empty(candidates.shape)
        _sampled_loop(queries.numpy(), entities.numpy(), candidates.numpy(), scores.numpy())
        return scores
    return torch.bmm(entities[candidates], queries.unsqueeze(2)).squeeze(2)


@_compiled(parallel=True)
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
    targets: Tensor, weights: Tensor, sources: Tensor, rows: Tensor, out: Tensor
) -> Tensor:
    """out[e] = sum of weights[m] * rows[sources[m]] over all entries m with targets[m] = e.

    The gradient of `sampled_scores` for E. Targets are ordered by a counting sort, so each row of
    `out` is summed in a fixed order by one thread: deterministic, and written exactly once.
    """
    if _on_cpu(rows):
        _scatter_loop(*(t.numpy() for t in (targets, weights, sources, rows, out)))
        return out
    return out.zero_().index_add_(0, targets, weights.unsqueeze(1) * rows[sources])


@_compiled(parallel=True)
def _scatter_loop(targets: Any, weights: Any, sources: Any, rows: Any, out: Any) -> None:
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
        for d in range(out.shape[1]):
            out[e, d] = np.float32(0)
        for place in range(starts[e], starts[e + 1]):
            m = order[place]
            for d in range(out.shape[1]):
                out[e, d] += weights[m] * rows[sources[m], d]


# --- negatives -----------------------------------------------------------------------------------


def draw_distinct(rows: int, count: int, population: int, key: int) -> Tensor:
    """(rows, count) int64: in each row `count` distinct numbers below `population`, uniformly.

    Floyd's algorithm, so that no permutation of the population is made.
    """
    out = np.empty((rows, count), dtype=np.int64)
    _floyd_loop(out, population, np.uint64(_mixed(key)))
    return torch.from_numpy(out)


@_compiled(parallel=False)
def _floyd_loop(out: Any, population: int, key: np.uint64) -> None:
    state = key
    count = out.shape[1]
    for b in range(out.shape[0]):
        for n in range(count):
            # splitmix64; the high word times the range is uniform to within 2^-32 * population.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            last = population - count + n
            drawn = np.int64(((z >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
            for m in range(n):
                if out[b, m] == drawn:
                    drawn = last
                    break
            out[b, n] = drawn


# --- ranks ---------------------------------------------------------------------------------------


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
    if _on_cpu(scores):
        ranks = torch.empty((len(rows), 3), dtype=torch.float64)
        tensors = (scores, rows, targets, starts, counts, answers, splits, ranks)
        _rank_loop(seen, *(t.numpy() for t in tensors))
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


@_compiled(parallel=True)
def _rank_loop(
    seen: int,
    scores: Any,
    rows: Any,
    targets: Any,
    starts: Any,
    counts: Any,
    answers: Any,
    splits: Any,
    ranks: Any,
) -> None:
    for m in numba.prange(rows.size):
        row = rows[m]
        target = targets[m]
        s = scores[row]
        own = s[target]
        prefix: Any = 0
        rest: Any = 0
        broken: Any = 0
        for j in range(seen):
            prefix += np.int32(s[j] > own) - np.int32(s[j] < own)
            broken += np.int32(not (abs(s[j]) <= np.float32(3.4028235e38)))
        for j in range(seen, s.size):
            rest += np.int32(s[j] > own) - np.int32(s[j] < own)
            broken += np.int32(not (abs(s[j]) <= np.float32(3.4028235e38)))
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
        ranks[m, 0] = standard / 2 if broken == 0 else np.nan
        ranks[m, 1] = among_seen / 2 if broken == 0 else np.nan
        ranks[m, 2] = paper / 2 if broken == 0 else np.nan


def _mixed(key: int) -> int:
    """Spread a key over 64 bits (splitmix64), so that neighbouring keys have nothing in common."""
    z = (key + 0x9E3779B97F4A7C15) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return z ^ (z >> 31)


def _on_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32


def _flat(x: Tensor) -> Any:
    return x.view(-1).numpy()
