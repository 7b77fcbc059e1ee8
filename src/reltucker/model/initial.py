"""Initial values of parameters."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Initial = Literal["normal", "uniform"]

Draw = Callable[[Tensor, float], None]
"""Fills a tensor with values of mean zero and the given standard deviation."""


def drawing(kind: Initial, generator: torch.Generator) -> Draw:
    """Draws from a normal or a uniform distribution."""

    def normal(tensor: Tensor, deviation: float) -> None:
        nn.init.normal_(tensor, 0.0, deviation, generator=generator)

    def uniform(tensor: Tensor, deviation: float) -> None:
        bound = deviation * 3**0.5
        nn.init.uniform_(tensor, -bound, bound, generator=generator)

    return normal if kind == "normal" else uniform
