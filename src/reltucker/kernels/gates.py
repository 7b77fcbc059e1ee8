"""Hard-concrete gates: sampled, applied and differentiated in one pass each."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, hashed, key_halves, moved


@dataclass(frozen=True)
class HardConcrete:
    """The distribution of a gate z with location a (log alpha), as in the paper's supplement.

    With u uniform: s = sigmoid((log u - log(1 - u) + a) / temperature), stretched to
    s' = s (high - low) + low, and z = min(1, max(0, s')).
    """

    temperature: float = 2 / 3
    low: float = -0.1
    high: float = 1.1

    @property
    def closing(self) -> float:
        """C with P(z > 0) = sigmoid(a - temperature log(-low / high)) = 1 / (1 + C exp(-a))."""
        return float((-self.low / self.high) ** self.temperature)

    def active_probability(self, locations: Tensor) -> Tensor:
        """P(z > 0), the expected L0 norm of a gate."""
        return 1.0 / (1.0 + self.closing * torch.exp(-locations))

    def gates(self, locations: Tensor) -> Tensor:
        """The deterministic gates of evaluation: clamp(sigmoid(a) (high - low) + low, 0, 1)."""
        return (torch.sigmoid(locations) * (self.high - self.low) + self.low).clamp_(0.0, 1.0)

    def sample(self, locations: Tensor, key: int) -> tuple[Tensor, Tensor]:
        """Gates z and dz/da drawn with a key, in torch operations for any device."""
        generator = torch.Generator(locations.device).manual_seed(key)
        u = torch.rand(locations.shape, generator=generator, device=locations.device)
        u = u.clamp_(1e-6, 1 - 1e-6).to(locations.dtype)
        s = torch.sigmoid((torch.log(u) - torch.log1p(-u) + locations) / self.temperature)
        stretched = s * (self.high - self.low) + self.low
        inside = (stretched > 0) & (stretched < 1)
        slope = (self.high - self.low) / self.temperature * s * (1 - s) * inside
        return stretched.clamp(0.0, 1.0), slope


def gated_forward(
    values: Tensor, locations: Tensor, key: int, distribution: HardConcrete
) -> tuple[Tensor, Tensor, Tensor]:
    """values (n,) times gates drawn with `key`; the expected L0 norm sum P(z > 0) as a scalar; and
    exp(-locations), which the backward pass uses again."""
    decay = torch.neg(locations).exp_()
    if not _has_gate_loops(values, distribution):
        gates, _ = distribution.sample(locations, key)
        return values * gates, distribution.active_probability(locations).sum(), decay
    out = torch.empty_like(values)
    expected = _forward_loop(
        values.numpy(), decay.numpy(), out.numpy(), *key_halves(key), *_constants(distribution)
    )
    return out, values.new_tensor(expected), decay


def gated_backward(
    values: Tensor,
    locations: Tensor,
    decay: Tensor,
    key: int,
    distribution: HardConcrete,
    gradient: Tensor,
    penalty: float,
) -> tuple[Tensor, Tensor]:
    """Gradients for values and locations, given those of the gated values and of the L0 norm."""
    if not _has_gate_loops(values, distribution):
        gates, slope = distribution.sample(locations, key)
        active = distribution.active_probability(locations)
        return gradient * gates, gradient * values * slope + penalty * active * (1 - active)
    for_values, for_locations = torch.empty_like(values), torch.empty_like(locations)
    tensors = (values, decay, gradient, for_values, for_locations)
    constants: tuple[Any, ...] = (
        *key_halves(key),
        *_constants(distribution),
        np.float32(penalty),
    )
    _backward_loop(*constants, *(t.numpy() for t in tensors))
    return for_values, for_locations


def _constants(d: HardConcrete) -> tuple[np.float32, np.float32, np.float32]:
    return np.float32(d.low), np.float32(d.high - d.low), np.float32(d.closing)


def _has_gate_loops(values: Tensor, distribution: HardConcrete) -> bool:
    """The loops know the paper's temperature only, where a power is a product with a root."""
    return has_loops(values) and abs(distribution.temperature - 2 / 3) < 1e-6


@compiled(parallel=False)
def _odds(i: int, low: np.uint32, high: np.uint32) -> Any:
    """(1 - u) / u of a uniform u that is a function of position and key."""
    h = hashed(i, low, high)
    u = (np.float32(np.int32(h >> np.uint32(8))) + np.float32(0.5)) * np.float32(2.0**-24)
    return (np.float32(1) - u) / u


@compiled(parallel=False)
def _sigmoid(odds: Any, decay: Any) -> Any:
    """s = 1 / (1 + ((1 - u) / u exp(-a))^(3/2)): temperature 2/3, without logarithms."""
    x = odds * decay
    return np.float32(1) / (np.float32(1) + x * np.sqrt(x))


BLOCK = 4096


@compiled(parallel=True)
def _forward_loop(
    values: Any,
    decay: Any,
    out: Any,
    key_low: np.uint32,
    key_high: np.uint32,
    low: np.float32,
    width: np.float32,
    closing: np.float32,
) -> Any:
    blocks = (values.size + BLOCK - 1) // BLOCK
    expected = np.zeros(blocks)
    for block in numba.prange(blocks):
        begin = block * BLOCK
        end = min(begin + BLOCK, values.size)
        expected[block] = _forward_block(
            begin,
            values[begin:end],
            decay[begin:end],
            out[begin:end],
            key_low,
            key_high,
            low,
            width,
            closing,
        )
    return expected.sum()


@compiled(parallel=False)
def _forward_block(
    begin: int,
    values: Any,
    decay: Any,
    out: Any,
    key_low: np.uint32,
    key_high: np.uint32,
    low: np.float32,
    width: np.float32,
    closing: np.float32,
) -> Any:
    first = moved(begin, key_low)
    total = np.float32(0)
    for i in range(values.size):
        s = _sigmoid(_odds(i, first, key_high), decay[i])
        z = min(np.float32(1), max(np.float32(0), s * width + low))
        out[i] = values[i] * z
        total += np.float32(1) / (np.float32(1) + closing * decay[i])
    return total


@compiled(parallel=True)
def _backward_loop(
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
    for block in numba.prange((values.size + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        end = min(begin + BLOCK, values.size)
        _backward_block(
            begin,
            values[begin:end],
            decay[begin:end],
            gradient[begin:end],
            for_values[begin:end],
            for_locations[begin:end],
            key_low,
            key_high,
            low,
            width,
            closing,
            penalty,
        )


@compiled(parallel=False)
def _backward_block(
    begin: int,
    values: Any,
    decay: Any,
    gradient: Any,
    for_values: Any,
    for_locations: Any,
    key_low: np.uint32,
    key_high: np.uint32,
    low: np.float32,
    width: np.float32,
    closing: np.float32,
    penalty: np.float32,
) -> None:
    first = moved(begin, key_low)
    for i in range(values.size):
        s = _sigmoid(_odds(i, first, key_high), decay[i])
        stretched = s * width + low
        z = min(np.float32(1), max(np.float32(0), stretched))
        slope = width * np.float32(1.5) * s * (np.float32(1) - s)
        slope = (
            slope if (stretched > np.float32(0)) & (stretched < np.float32(1)) else np.float32(0)
        )
        active = np.float32(1) / (np.float32(1) + closing * decay[i])
        for_values[i] = gradient[i] * z
        for_locations[i] = gradient[i] * values[i] * slope + penalty * active * (
            np.float32(1) - active
        )
