"""The optimiser and its learning rate."""

import math
from typing import Any

import torch
from torch import Tensor

from reltucker.kernels import Entries, adagrad_rows
from reltucker.model import RelationalTucker
from reltucker.training.memory import use_huge_pages
from reltucker.training.objectives.gradients import Gradients, RowGradient, dense
from reltucker.training.settings import TrainSettings


class Optimizer:
    """AdaGrad or Adam of torch for all parameters, in single passes on the CPU."""

    def __init__(self, model: RelationalTucker, settings: TrainSettings) -> None:
        self.model = model
        self.settings = settings
        self.inner = self._make()

    def _make(self) -> torch.optim.Optimizer:
        model, settings = self.model, self.settings
        undecayed = model.core.undecayed()
        decayed = [p for p in model.parameters() if not any(p is u for u in undecayed)]
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": settings.weight_decay}]
        if undecayed:
            groups.append({"params": undecayed, "weight_decay": 0.0})
        device, rate = model.E.device.type, settings.learning_rate
        made: torch.optim.Optimizer
        if settings.optimizer == "adagrad":
            made = torch.optim.Adagrad(groups, lr=rate, fused=device == "cpu")
        else:
            made = torch.optim.Adam(groups, lr=rate, fused=device in ("cpu", "cuda"))
            for p in model.parameters():  # torch would make it in the first step
                made.state[p] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        for parameter in model.parameters():
            use_huge_pages(parameter.detach(), *made.state[parameter].values())
        return made

    def step(self, gradients: Gradients, rate: float) -> None:
        """Move all parameters. Rows alone are moved where the others would stay as they are."""
        by_rows = self.settings.optimizer == "adagrad" and self.settings.weight_decay == 0.0
        for group in self.inner.param_groups:
            group["lr"] = rate
        for name, parameter in self.model.named_parameters():
            gradient = gradients[name]
            if by_rows and not isinstance(gradient, Tensor):
                parameter.grad = None
                self._step_rows(parameter, gradient, rate)
            else:
                parameter.grad = dense(gradient, parameter)
        self.inner.step()

    def _step_rows(self, parameter: Tensor, gradient: RowGradient | Entries, rate: float) -> None:
        state, epsilon = self.inner.state[parameter], self.inner.param_groups[0]["eps"]
        matrix, sums = parameter.detach(), state["sum"]
        if isinstance(gradient, Entries):
            gradient.adagrad(matrix, sums, rate, epsilon)
        else:
            adagrad_rows(matrix, sums, gradient.ids, gradient.values, rate, epsilon)
        state["step"] += 1

    def select(self, before: dict[str, Tensor], kept: Tensor) -> None:
        """The model has other parameters than `before`, by name: those that are shorter now hold
        the entries `kept` of what they held."""
        states = {name: self.inner.state[parameter] for name, parameter in before.items()}
        self.inner = self._make()
        for name, parameter in self.model.named_parameters():
            for key, value in states[name].items():
                changed = value.dim() > 0 and value.shape != parameter.shape
                self.inner.state[parameter][key] = value[kept] if changed else value

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """The state of each parameter, by name."""
        return {n: dict(self.inner.state[p]) for n, p in self.model.named_parameters()}

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        """The inverse of `state_dict`, for a model that has its weights already. Every part must be
        there: an optimiser that begins anew in silence would not be noticed."""
        self.inner = self._make()
        for name, parameter in self.model.named_parameters():
            expected, found = self.inner.state[parameter], state[name]
            kinds = {key: (value.shape, value.dtype) for key, value in expected.items()}
            if {key: (value.shape, value.dtype) for key, value in found.items()} != kinds:
                raise ValueError(f"the optimiser's state of {name} is missing or of other sizes")
            for key, value in found.items():
                expected[key].copy_(value)


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

    def state_dict(self) -> dict[str, Any]:
        """What plateaus have done so far."""
        return {"factor": self.factor, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.factor, self.waited = float(state["factor"]), int(state["waited"])
