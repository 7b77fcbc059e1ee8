"""How the loops are compiled, shared out among threads, and when they apply.

A loop over rows is written as `body(chunk, chunks, ...)`, which does its share of the rows, and a
two-line `spread(chunks, ...)`, which runs all shares side by side. Compiling a spread takes numba
several times as long as the body, so on one thread, as for small graphs, it is never touched.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor


def compiled(loop: Callable[..., Any]) -> Any:
    """Compile a loop over arrays; the result is kept on disk for later processes."""
    return _jit(False)(loop)


def spread(loop: Callable[..., Any]) -> Any:
    """Compile a loop whose `prange` shares are run by all threads."""
    return _jit(True)(loop)


def _jit(parallel: bool) -> Any:
    # "nnan" and the like stay off: a NaN must reach the loss check, not be assumed away.
    flags = {"reassoc", "contract", "nsz"}
    # Division as in numpy: a check for zero in every iteration would keep loops from vectorising.
    return numba.njit(
        parallel=parallel, fastmath=flags, error_model="numpy", nogil=True, cache=True
    )


def run(body: Callable[..., Any], shares: Callable[..., Any], *arguments: Any) -> None:
    """Run a loop on all threads; tensors among the arguments become arrays."""
    threads = numba.get_num_threads()
    arrays = arrays_of(*arguments)
    if threads == 1:
        body(0, 1, *arrays)
    else:
        shares(threads, *arrays)


def arrays_of(*arguments: Any) -> list[Any]:
    """The arguments of a loop: tensors as arrays, all else as it is."""
    return [a.detach().numpy() if isinstance(a, Tensor) else a for a in arguments]


def has_loops(x: Tensor) -> bool:
    """Whether the compiled loops serve this tensor: single precision on the CPU."""
    return x.device.type == "cpu" and x.dtype == torch.float32


def whole_rows(scores: Tensor) -> tuple[Tensor, int]:
    """The memory of scores whose rows stand apart (`products.score_rows`), and how many numbers of
    each row count: loops over parts of whole rows vectorise, those over strided ones do not."""
    rows, columns = scores.shape
    width = scores.stride(0) if rows > 1 and columns else columns
    if width < columns or scores.stride(1) != 1:
        raise ValueError("scores must be rows of neighbouring numbers")
    return scores.as_strided((rows, width), (width, 1)), columns


@compiled
def share_of(size: int, chunk: int, chunks: int) -> Any:
    """The first and the last row, exclusive, of a share of `size` rows."""
    return size * chunk // chunks, size * (chunk + 1) // chunks


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


@compiled
def hashed(i: int, low: np.uint32, high: np.uint32) -> Any:
    """32 random bits for position i: two multiply-xorshift rounds over position and key."""
    # numba widens every integer product, hence the casts back to 32 bits.
    h = np.uint32(np.uint32(i) * np.uint32(0x9E3779B1) + low) ^ high
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled
def moved(first: int, low: np.uint32) -> Any:
    """The word `low` with which positions count from `first` on."""
    return np.uint32(np.uint32(first) * np.uint32(0x9E3779B1) + low)
