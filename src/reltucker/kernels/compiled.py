"""How the loops are compiled, and when they apply."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import torch
from torch import Tensor

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(parallel: bool) -> Callable[[Loop], Loop]:
    """Compile a loop over arrays; the result is kept on disk for later processes."""
    # "nnan" and the like stay off: a NaN must reach the loss check, not be assumed away.
    flags = {"reassoc", "contract", "nsz"}
    # Division as in numpy: a check for zero in every iteration would keep loops from vectorising.
    jit = numba.njit(parallel=parallel, fastmath=flags, error_model="numpy", nogil=True, cache=True)
    return cast(Callable[[Loop], Loop], jit)


def has_loops(x: Tensor) -> bool:
    """Whether the compiled loops serve this tensor: single precision on the CPU."""
    return x.device.type == "cpu" and x.dtype == torch.float32


def mixed_key(key: int) -> int:
    """Spread a key over 64 bits (splitmix64), so that neighbouring keys have nothing in common."""
    z = (key + 0x9E3779B97F4A7C15) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return z ^ (z >> 31)


def key_halves(key: int) -> tuple[np.uint32, np.uint32]:
    """A key as the two words that `hashed` takes."""
    mixed = mixed_key(key)
    return np.uint32(mixed & 0xFFFFFFFF), np.uint32(mixed >> 32)


@compiled(parallel=False)
def hashed(i: int, low: np.uint32, high: np.uint32) -> Any:
    """32 random bits for position i: two multiply-xorshift rounds over position and key."""
    # numba widens every integer product, hence the casts back to 32 bits.
    h = np.uint32(np.uint32(i) * np.uint32(0x9E3779B1) + low) ^ high
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled(parallel=False)
def moved(first: int, low: np.uint32) -> Any:
    """The word `low` with which positions count from `first` on."""
    return np.uint32(np.uint32(first) * np.uint32(0x9E3779B1) + low)
