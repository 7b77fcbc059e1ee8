"""A running mean of the weights, which is judged and kept in their place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

UPDATES = 32
"""How often an epoch the mean takes the weights in; every time costs a pass over them."""


class WeightAverage:
    """The mean of the weights over about the last `epochs` epochs: equal shares until so many have
    passed, exponentially fading ones then. Over no epochs, the weights themselves.

    The steps of a constant learning rate wander around a good place; their mean lies nearer to it
    than the last of them. Running means and variances of a normalisation are averaged likewise.
    """

    def __init__(self, model: nn.Module, epochs: float) -> None:
        self.epochs = epochs
        self.updates = 0
        self.means: dict[str, Tensor] = {}
        if epochs:
            self.means = {name: value.detach().clone() for name, value in _floats(model)}

    def is_due(self, step: int, steps: int) -> bool:
        """Whether to update after this step, from 0, of so many in an epoch."""
        return bool(self.epochs) and (step + 1) * UPDATES // steps > step * UPDATES // steps

    @torch.no_grad()
    def update(self, model: nn.Module, steps: int) -> None:
        """Take the weights in, in an epoch of so many steps."""
        self.updates += 1
        remembered = self.epochs * min(UPDATES, steps)
        share = 1.0 / min(self.updates, max(1.0, remembered))
        for name, value in _floats(model):
            self.means[name].lerp_(value, share)

    def select(self, model: nn.Module, kept: Tensor) -> None:
        """Only these entries of the core are still there."""
        for name, value in _floats(model):
            if self.epochs and self.means[name].shape != value.shape:
                self.means[name] = self.means[name][kept]

    def state_dict(self) -> dict[str, Any]:
        """The mean and how many updates it has seen."""
        return {"updates": self.updates, "means": self.means}

    def load_state_dict(self, model: nn.Module, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, for a model that has its weights already."""
        means: dict[str, Tensor] = state["means"]
        weights = dict(_floats(model)) if self.epochs else {}
        kinds = {name: (value.shape, value.dtype) for name, value in weights.items()}
        if {name: (value.shape, value.dtype) for name, value in means.items()} != kinds:
            raise ValueError("its mean of the weights is missing, of other sizes, or not asked for")
        self.means = {name: means[name].to(value.device) for name, value in weights.items()}
        self.updates = int(state["updates"])

    @contextmanager
    def in_place_of_weights(self, model: nn.Module) -> Iterator[None]:
        """Within it the model has the mean as its weights; nothing is copied."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    def _swap(self, model: nn.Module) -> None:
        for name, value in _floats(model):
            if self.epochs:
                value.data, self.means[name] = self.means[name], value.data


def _floats(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and the buffers that hold real numbers."""
    yield from model.named_parameters()
    for name, value in model.named_buffers():
        if value.is_floating_point():
            yield name, value
