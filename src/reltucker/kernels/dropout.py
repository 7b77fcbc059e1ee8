"""Dropout masks that are a function of a key, so that nothing is stored for the backward pass."""

from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import (
    compiled,
    has_loops,
    hashed,
    key_halves,
    moved,
    run,
    share_of,
    spread,
)

Mask = tuple[np.uint32, np.uint32, np.uint32, np.float32]
"""A mask as loops take it: limit, two halves of the key, and the scale."""


@dataclass(frozen=True)
class Dropout:
    """A mask over positions 0, 1, 2, ...: zero with probability `rate`, else 1 / (1 - rate).

    For a part of a larger tensor: its rows, along the first dimension, are `rows` of `count`.
    """

    rate: float
    key: int
    rows: Tensor | None = field(default=None, compare=False)
    count: int = 0

    @classmethod
    def none(cls) -> "Dropout":
        """The mask that keeps everything."""
        return cls(0.0, 0)

    def of_rows(self, rows: Tensor, count: int) -> "Dropout":
        """The same mask for some rows of a tensor that has `count`."""
        return replace(self, rows=rows, count=count)

    def repeated(self, times: int) -> "Dropout":
        """For so many tensors of this kind, one below the other."""
        if self.rows is None:
            return self
        rows = torch.cat([self.rows + number * self.count for number in range(times)])
        return self.of_rows(rows, times * self.count)

    def for_loops(self) -> Mask:
        """What the compiled loops need."""
        limit = np.uint32(min(int(self.rate * 2**32), 2**32 - 1))
        return limit, *key_halves(self.key), np.float32(1.0 / (1.0 - self.rate))

    def mask(self, like: Tensor) -> Tensor:
        """The explicit mask for a tensor, where the loops do not serve."""
        if self.rate == 0.0:
            return torch.ones_like(like)
        if self.rows is not None:
            whole = Dropout(self.rate, self.key).mask(like.new_empty(self.count, *like.shape[1:]))
            return whole[self.rows]
        generator = torch.Generator(like.device).manual_seed(self.key)
        kept = torch.empty_like(like).bernoulli_(1.0 - self.rate, generator=generator)
        return kept.div_(1.0 - self.rate)


def apply_dropout(x: Tensor, dropout: Dropout, out: Tensor | None = None) -> Tensor:
    """x times the mask. The backward pass is the same call on the gradient."""
    if not has_loops(x):
        return torch.mul(x, dropout.mask(x), out=out)
    if dropout.rows is not None:
        if out is not x:
            out = torch.empty_like(x) if out is None else out
            out.copy_(x)
        mask_rows(out.flatten(1), dropout.rows, dropout)
        return out
    rows = x.view(-1, x.shape[-1])
    if out is x:
        mask_rows(rows, None, dropout)
        return x
    out = torch.empty_like(x) if out is None else out
    gather_dropped(rows, None, dropout, out.view(rows.shape))
    return out


def gather_dropped(
    matrix: Tensor, ids: Tensor | None, dropout: Dropout, out: Tensor | None = None
) -> Tensor:
    """matrix[ids] (all rows, without ids) times the mask of the whole matrix (CPU only)."""
    if out is None:
        out = matrix.new_empty(len(matrix if ids is None else ids), matrix.shape[1])
    run(_gather, _gather_spread, dropout.for_loops(), matrix, _numbers(ids), out)
    return out


def mask_rows(rows: Tensor, ids: Tensor | None, dropout: Dropout) -> Tensor:
    """Apply in place to rows (n, d) the mask that `gather_dropped` has for them (CPU only)."""
    if dropout.rate > 0.0:
        run(_mask, _mask_spread, dropout.for_loops(), rows, _numbers(ids))
    return rows


def _numbers(ids: Tensor | None) -> Tensor:
    return torch.empty(0, dtype=torch.long) if ids is None else ids


@compiled
def _gather(chunk: int, chunks: int, mask: Mask, matrix: Any, ids: Any, out: Any) -> None:
    first, last = share_of(out.shape[0], chunk, chunks)
    for r in range(first, last):
        row = ids[r] if ids.size > 0 else r
        masked(row * matrix.shape[1], matrix[row], out[r], mask)


@spread
def _gather_spread(chunks: int, mask: Mask, *arrays: Any) -> None:
    for chunk in numba.prange(chunks):
        _gather(np.int64(chunk), chunks, mask, *arrays)


@compiled
def _mask(chunk: int, chunks: int, mask: Mask, rows: Any, ids: Any) -> None:
    first, last = share_of(rows.shape[0], chunk, chunks)
    for r in range(first, last):
        row = ids[r] if ids.size > 0 else r
        mask_in_place(row * rows.shape[1], rows[r], mask)


@spread
def _mask_spread(chunks: int, mask: Mask, *arrays: Any) -> None:
    for chunk in numba.prange(chunks):
        _mask(np.int64(chunk), chunks, mask, *arrays)


@compiled
def masked(first: int, x: Any, out: Any, mask: Mask) -> None:
    """out = x times the mask at the positions first, first + 1, ...; out is not x."""
    limit, low, high, scale = mask
    begin = moved(first, low)
    for i in range(x.size):
        out[i] = x[i] * scale if hashed(i, begin, high) >= limit else np.float32(0)


@compiled
def mask_in_place(first: int, x: Any, mask: Mask) -> None:
    """x times the mask; a loop of its own, since `masked` with x as out runs element by element."""
    limit, low, high, scale = mask
    begin = moved(first, low)
    for i in range(x.size):
        x[i] = x[i] * scale if hashed(i, begin, high) >= limit else np.float32(0)
