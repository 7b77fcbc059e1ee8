"""The hard-concrete distribution of SRT's gates (Sec. autosparse and the paper's supplement).

With u uniform, location a (log alpha), temperature b and the stretch (low, high):

    s = sigmoid((log u - log(1 - u) + a) / b),  s' = s (high - low) + low,  z = min(1, max(0, s'))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reltucker.kernels import gated_backward, gated_forward, has_loops


@dataclass(frozen=True)
class HardConcrete:
    """The distribution of a gate z, given its location."""

    temperature: float = 2 / 3
    low: float = -0.1
    high: float = 1.1

    @property
    def closing(self) -> float:
        """C with P(z > 0) = sigmoid(a - b log(-low / high)) = 1 / (1 + C exp(-a))."""
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

    def gated(self, values: Tensor, locations: Tensor, key: int) -> tuple[Tensor, Tensor]:
        """values (n,) times gates drawn with `key`, and the expected L0 norm of the gates, sum
        P(z > 0); both differentiable."""
        apply: Callable[..., tuple[Tensor, Tensor]] = _Gated.apply
        return apply(values, locations, key, self)

    def has_gate_loops(self, values: Tensor) -> bool:
        """The loops know the paper's temperature only, where a power is a product with a root."""
        return has_loops(values) and abs(self.temperature - 2 / 3) < 1e-6

    @property
    def constants(self) -> tuple[float, float, float]:
        """What the loops need."""
        return self.low, self.high - self.low, self.closing


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, locations: Tensor, key: int, distribution: HardConcrete
    ) -> tuple[Tensor, Tensor]:
        ctx.key, ctx.distribution = key, distribution
        if distribution.has_gate_loops(values):
            decay = torch.neg(locations).exp_()
            ctx.save_for_backward(values, decay)
            return gated_forward(values, decay, key, distribution.constants)
        ctx.save_for_backward(values, locations)
        gates, _ = distribution.sample(locations, key)
        return values * gates, distribution.active_probability(locations).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, penalty: Tensor) -> tuple[Tensor | None, ...]:
        key, distribution = ctx.key, ctx.distribution
        if distribution.has_gate_loops(gradient):
            values, decay = ctx.saved_tensors
            constants, upstream = distribution.constants, gradient.contiguous()
            found = gated_backward(values, decay, key, constants, upstream, float(penalty))
            return *found, None, None
        values, locations = ctx.saved_tensors
        gates, slope = distribution.sample(locations, key)
        active = distribution.active_probability(locations)
        for_locations = gradient * values * slope + penalty * active * (1 - active)
        return gradient * gates, for_locations, None, None
