"""Regularisers: what is added to the loss so that embeddings stay small.

They know no model. Let question b with given entity g, relation k, query q_b, answers A_b and
weight w_b be one of a step. With |x| the magnitudes of a vector's coordinates (the core says which
belong together: ComplEx has those of complex numbers), mean over A_b, and strength c:

    lp   : c sum_b w_b (sum |e_g|^p + sum |r_k|^p + mean_a sum |e_a|^p)
    n3   : the same with p = 3
    dura : c sum_b w_b (||q_b||^2 + mean_a ||e_a||^2)

So each factor is weighted by how often it occurs. A triple asks two questions; hence for DURA both
||e_i^T M_k||^2 + ||e_j||^2 and ||M_k e_j||^2 + ||e_i||^2 are there. Embeddings are taken before,
queries after dropout. (Weight decay, on all parameters in every step, belongs to the optimiser.)
"""

import torch
from torch import Tensor, nn

from reltucker.kernels import add_rows
from reltucker.model import Core
from reltucker.training.objectives.batches import Batch
from reltucker.training.objectives.entities import EntityRows
from reltucker.training.recipe import TrainSettings


class Regularizer:
    """None: adds nothing."""

    def __init__(self, core: Core, strength: float, power: float) -> None:
        self.core = core
        self.strength = strength
        self.power = power

    @staticmethod
    def of(core: Core, settings: TrainSettings) -> "Regularizer":
        """The one of a recipe."""
        kind, strength = settings.regularizer, settings.regularizer_weight
        if kind == "none" or strength == 0.0:
            return Regularizer(core, 0.0, 2.0)
        if kind == "dura":
            return Dura(core, strength, 2.0)
        return PowerNorm(core, strength, 3.0 if kind == "n3" else settings.regularizer_power)

    def on_queries(self, batch: Batch, queries: Tensor, gradient: Tensor) -> None:
        """Add to the gradient for the queries."""

    def on_entities(
        self, batch: Batch, parameter: Tensor, entities: EntityRows, given: Tensor, answers: Tensor
    ) -> None:
        """Add to the gradient for the entities; given and answers are places in `entities`."""

    def on_relations(self, batch: Batch, relations: nn.Parameter) -> None:
        """Add to the gradient for R."""

    def _add(self, rows: Tensor, weights: Tensor, places: Tensor, gradient: Tensor) -> None:
        """The gradient of c sum_b w_b sum |x_b|^p for rows (n, d), added at their places."""
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            # Away from zero, where a root of the squares has no derivative.
            squares = self.core.squares(rows).clamp_min(1e-30)
            value = (squares ** (self.power / 2)).sum(dim=1) @ weights
        (for_rows,) = torch.autograd.grad(value, rows, torch.full_like(value, self.strength))
        add_rows(gradient, places, for_rows.contiguous())


class PowerNorm(Regularizer):
    """lp and n3."""

    def on_entities(
        self, batch: Batch, parameter: Tensor, entities: EntityRows, given: Tensor, answers: Tensor
    ) -> None:
        """Both ends of a triple."""
        places = torch.cat([given, answers])
        weights = torch.cat([batch.weights, batch.answer_weights()[1]])
        self._add_entities(parameter, entities, places, weights)

    def on_relations(self, batch: Batch, relations: nn.Parameter) -> None:
        """The relation of each question."""
        assert relations.grad is not None
        rows, weights = _merged(batch.rows, batch.weights)
        self._add(relations[rows], weights, rows, relations.grad)

    def _add_entities(
        self, parameter: Tensor, entities: EntityRows, places: Tensor, weights: Tensor
    ) -> None:
        distinct, total = _merged(places, weights)
        ids = distinct if entities.ids is None else entities.ids[distinct]
        self._add(parameter[ids], total, distinct, entities.gradient)


class Dura(PowerNorm):
    """dura."""

    def on_queries(self, batch: Batch, queries: Tensor, gradient: Tensor) -> None:
        """||q_b||^2."""
        gradient.addcmul_(queries, 2.0 * self.strength * batch.weights.unsqueeze(1))

    def on_entities(
        self, batch: Batch, parameter: Tensor, entities: EntityRows, given: Tensor, answers: Tensor
    ) -> None:
        """||e_a||^2."""
        self._add_entities(parameter, entities, answers, batch.answer_weights()[1])

    def on_relations(self, batch: Batch, relations: nn.Parameter) -> None:
        """Relations are held by the queries."""


def _merged(places: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct places, each with the sum of its weights."""
    distinct, inverse = torch.unique(places, return_inverse=True)
    return distinct, weights.new_zeros(len(distinct)).index_add_(0, inverse, weights)
