"""Dropout masks that are a function of a key, so that nothing is stored for the backward pass."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, hashed, key_halves, moved


@dataclass(frozen=True)
class Dropout:
    """A mask over positions 0, 1, 2, ...: zero with probability `rate`, else 1 / (1 - rate)."""

    rate: float
    key: int

    @classmethod
    def none(cls) -> "Dropout":
        """The mask that keeps everything."""
        return cls(0.0, 0)

    def another(self) -> "Dropout":
        """A mask of the same rate that has nothing to do with this one."""
        return Dropout(self.rate, self.key ^ (1 << 62))

    def loop_arguments(self) -> tuple[np.uint32, np.uint32, np.uint32, np.float32]:
        """What the compiled loops need: limit, two halves of the key, and the scale."""
        limit = np.uint32(min(int(self.rate * 2**32), 2**32 - 1))
        return limit, *key_halves(self.key), np.float32(1.0 / (1.0 - self.rate))

    def mask(self, like: Tensor) -> Tensor:
        """The explicit mask for a tensor, where the loops do not serve."""
        if self.rate == 0.0:
            return torch.ones_like(like)
        generator = torch.Generator(like.device).manual_seed(self.key)
        kept = torch.empty_like(like).bernoulli_(1.0 - self.rate, generator=generator)
        return kept.div_(1.0 - self.rate)


def apply_dropout(x: Tensor, dropout: Dropout, out: Tensor | None = None) -> Tensor:
    """x times the mask. The backward pass is the same call on the gradient."""
    out = torch.empty_like(x) if out is None else out
    if has_loops(x):
        if out is x:
            _dropout_in_place_loop(x.view(-1).numpy(), *dropout.loop_arguments())
            return x
        _dropout_loop(x.view(-1).numpy(), out.view(-1).numpy(), *dropout.loop_arguments())
        return out
    return torch.mul(x, dropout.mask(x), out=out)


@compiled(parallel=False)
def masked(
    first: int,
    x: Any,
    out: Any,
    limit: np.uint32,
    low: np.uint32,
    high: np.uint32,
    scale: np.float32,
) -> None:
    """out = x times the mask at the positions first, first + 1, ...; out is not x."""
    begin = moved(first, low)
    for i in range(x.size):
        out[i] = x[i] * scale if hashed(i, begin, high) >= limit else np.float32(0)


@compiled(parallel=False)
def mask_in_place(
    first: int, x: Any, limit: np.uint32, low: np.uint32, high: np.uint32, scale: np.float32
) -> None:
    """x times the mask; a loop of its own, since `masked` with x as out runs element by element."""
    begin = moved(first, low)
    for i in range(x.size):
        x[i] = x[i] * scale if hashed(i, begin, high) >= limit else np.float32(0)


BLOCK = 4096


@compiled(parallel=True)
def _dropout_loop(
    x: Any, out: Any, limit: np.uint32, low: np.uint32, high: np.uint32, scale: np.float32
) -> None:
    for block in numba.prange((x.size + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        end = min(begin + BLOCK, x.size)
        masked(begin, x[begin:end], out[begin:end], limit, low, high, scale)


@compiled(parallel=True)
def _dropout_in_place_loop(
    x: Any, limit: np.uint32, low: np.uint32, high: np.uint32, scale: np.float32
) -> None:
    for block in numba.prange((x.size + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        end = min(begin + BLOCK, x.size)
        mask_in_place(begin, x[begin:end], limit, low, high, scale)
