"""Hard-concrete gates with temperature 2/3: drawn, applied and differentiated in one pass each.

The equations are in `reltucker.model.hard_concrete`; with its `low`, width = high - low and
`closing` they are given here as three constants.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, hashed, key_halves, moved, run, share_of, spread

BLOCK = 4096

Constants = tuple[float, float, float]
"""low, width and closing."""


def gated_forward(
    values: Tensor, decay: Tensor, key: int, constants: Constants
) -> tuple[Tensor, Tensor]:
    """values (n,) times gates drawn with `key` for the locations -log(decay), and sum P(z > 0) as a
    scalar."""
    out = torch.empty_like(values)
    active = values.new_empty(-(-len(values) // BLOCK), dtype=torch.float64)
    numbers = (*key_halves(key), *(np.float32(c) for c in constants))
    run(_forward, _forward_spread, *numbers, values, decay, out, active)
    return out, active.sum().to(values)


def gated_backward(
    values: Tensor, decay: Tensor, key: int, constants: Constants, gradient: Tensor, penalty: float
) -> tuple[Tensor, Tensor]:
    """Gradients for values and locations, given those of the gated values and of the L0 norm."""
    for_values, for_locations = torch.empty_like(values), torch.empty_like(values)
    numbers = (*key_halves(key), *(np.float32(c) for c in (*constants, penalty)))
    tensors = (values, decay, gradient, for_values, for_locations)
    run(_backward, _backward_spread, *numbers, *tensors)
    return for_values, for_locations


@compiled
def _odds(i: int, low: np.uint32, high: np.uint32) -> Any:
    """(1 - u) / u of a uniform u that is a function of position and key."""
    h = hashed(i, low, high)
    u = (np.float32(np.int32(h >> np.uint32(8))) + np.float32(0.5)) * np.float32(2.0**-24)
    return (np.float32(1) - u) / u


@compiled
def _sigmoid(odds: Any, decay: Any) -> Any:
    """s = 1 / (1 + ((1 - u) / u exp(-a))^(3/2)): temperature 2/3, without logarithms."""
    x = odds * decay
    return np.float32(1) / (np.float32(1) + x * np.sqrt(x))


@compiled
def _forward(
    chunk: int,
    chunks: int,
    key_low: np.uint32,
    key_high: np.uint32,
    low: np.float32,
    width: np.float32,
    closing: np.float32,
    values: Any,
    decay: Any,
    out: Any,
    active: Any,
) -> None:
    first, last = share_of(active.size, chunk, chunks)
    for block in range(first, last):
        begin, end = block * BLOCK, min((block + 1) * BLOCK, values.size)
        v, d, o = values[begin:end], decay[begin:end], out[begin:end]
        key = moved(begin, key_low)
        total = np.float32(0)
        for i in range(v.size):
            s = _sigmoid(_odds(i, key, key_high), d[i])
            o[i] = v[i] * min(np.float32(1), max(np.float32(0), s * width + low))
            total += np.float32(1) / (np.float32(1) + closing * d[i])
        active[block] = total


@spread
def _forward_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _forward(np.int64(chunk), chunks, *arguments)


@compiled
def _backward(
    chunk: int,
    chunks: int,
    key_low: np.uint32,
    key_high: np.uint32,
    low: np.float32,
    width: np.float32,
    closing: np.float32,
    penalty: np.float32,
    values: Any,
    decay: Any,
    gradient: Any,
    for_values: Any,
    for_locations: Any,
) -> None:
    zero, one = np.float32(0), np.float32(1)
    first, last = share_of(-(-values.size // BLOCK), chunk, chunks)
    for block in range(first, last):
        begin, end = block * BLOCK, min((block + 1) * BLOCK, values.size)
        v, d, g = values[begin:end], decay[begin:end], gradient[begin:end]
        out, slopes = for_values[begin:end], for_locations[begin:end]
        key = moved(begin, key_low)
        for i in range(v.size):
            s = _sigmoid(_odds(i, key, key_high), d[i])
            stretched = s * width + low
            slope = width * np.float32(1.5) * s * (one - s)
            slope = slope if (stretched > zero) & (stretched < one) else zero
            active = one / (one + closing * d[i])
            out[i] = g[i] * min(one, max(zero, stretched))
            slopes[i] = g[i] * v[i] * slope + penalty * active * (one - active)


@spread
def _backward_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _backward(np.int64(chunk), chunks, *arguments)
