"""Dropout whose mask is a function of a key, so that nothing is stored for the backward pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reltucker.kernels import apply_dropout


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, key: int) -> Tensor:
        ctx.rate, ctx.key = rate, key
        return apply_dropout(x, rate, key)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return apply_dropout(gradient.contiguous(), ctx.rate, ctx.key), None, None


def dropout(x: Tensor, rate: float, key: int) -> Tensor:
    """x * mask / (1 - rate), differentiable; the same key gives the same mask."""
    if rate == 0.0:
        return x
    apply: Callable[..., Tensor] = _Dropout.apply
    return apply(x.contiguous(), rate, key)
