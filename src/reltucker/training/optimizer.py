"""The optimiser and its learning rate."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from reltucker.kernels import adagrad_rows
from reltucker.model import RelationalTucker
from reltucker.training.recipe import TrainSettings


def make_optimizer(model: RelationalTucker, settings: TrainSettings) -> torch.optim.Optimizer:
    """AdaGrad or Adam for all parameters, in single passes on the CPU, its state made at once."""
    undecayed = model.core.undecayed()
    decayed = [p for p in model.parameters() if not any(p is u for u in undecayed)]
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": settings.weight_decay}]
    if undecayed:
        groups.append({"params": undecayed, "weight_decay": 0.0})
    fused = model.E.device.type in ("cpu", "cuda")
    if settings.optimizer == "adagrad":
        on_cpu = model.E.device.type == "cpu"
        return torch.optim.Adagrad(groups, lr=settings.learning_rate, fused=on_cpu)
    optimizer = torch.optim.Adam(groups, lr=settings.learning_rate, fused=fused)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """From now on."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def step_rows(
    optimizer: torch.optim.Optimizer, parameter: nn.Parameter, ids: Tensor, gradient: Tensor
) -> None:
    """The step of AdaGrad for some rows of a parameter whose dense gradient is not there."""
    group = optimizer.param_groups[0]
    state = optimizer.state[parameter]
    adagrad_rows(parameter, state["sum"], ids, gradient, group["lr"], group["eps"])
    state["step"] += 1


class Schedule:
    """The learning rate of every step: warm-up, and a decay by epochs or on plateaus."""

    def __init__(self, settings: TrainSettings) -> None:
        self.settings = settings
        self.factor = 1.0
        """What plateaus have made of the learning rate."""
        self.waited = 0

    def rate(self, epoch: float) -> float:
        """The learning rate of the step that ends after so many epochs, parts included."""
        settings = self.settings
        rate = settings.learning_rate * self.factor
        if settings.schedule == "exponential":
            rate *= settings.decay ** max(0, math.ceil(epoch) - 1)
        if epoch < settings.warm_up_epochs:
            rate *= epoch / settings.warm_up_epochs
        return rate

    def validated(self, improved: bool, epochs: int) -> None:
        """Take note of a validation, `epochs` after the one before."""
        self.waited = 0 if improved else self.waited + epochs
        if self.settings.schedule == "plateau" and self.waited >= self.settings.plateau_patience:
            self.factor *= self.settings.decay
            self.waited = 0
