"""Regularisers: what is added to the loss so that embeddings stay small.

They know no model. Let question b with given entity g, relation k, query q_b, answers A_b and
weight w_b be one of a step. With |x| the magnitudes of a vector's coordinates (the core says which
belong together: ComplEx has those of complex numbers), mean over A_b, and strength c:

    lp   : c sum_b w_b (sum |e_g|^p + sum |r_k|^p + mean_a sum |e_a|^p)
    n3   : the same with p = 3
    dura : c sum_b w_b (||q_b||^2 + mean_a ||e_a||^2)
    dura_diagonal : c sum_b w_b (1.5 ||q_b||^2 + 0.5 mean_a ||e_a||^2)
    ivr  : c sum_b w_b (||e_g||^p + ||r_k||^p + mean_a ||e_a||^p + v (||q_b||^p + ||M_k||^p))

So each factor is weighted by how often it occurs. IVR, by intermediate variables (Xiao et al.), has
norms of whole vectors and matrices; ||M_k|| is left out where M_k is r_k in other places, and so
are the terms with G x_1 e_i, for their cost. A triple asks two questions; hence for DURA both
||e_i^T M_k||^2 + ||e_j||^2 and ||M_k e_j||^2 + ||e_i||^2 are there. Embeddings are taken before,
queries after dropout, M_k before it. (Weight decay, on all parameters in every step, belongs to the
optimiser.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from reltucker.model import Core
from reltucker.training.objectives.batches import Batch

if TYPE_CHECKING:
    from reltucker.training.settings import TrainSettings


class Regularizer:
    """None: adds nothing."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """Settings of a recipe's section [train] that not all regularisers read."""
    holds_entities: ClassVar[bool] = False
    """Whether it adds anything for the embeddings of entities."""
    holds_mixing: bool = False
    """Whether it adds anything for mixing matrices."""

    def __init__(self, core: Core, settings: TrainSettings) -> None:
        self.core = core
        self.strength = settings.regularizer_weight

    def values(self, given: Tensor, queries: Tensor, answers: Tensor, question: Tensor) -> Tensor:
        """What it adds for each answer of questions with weight 1, as far as entities have a part
        in it: e_g, q_b (Q, d_e), e_a (A, d_e) and the question of each answer (A,) to (A,)."""
        return answers.new_zeros(len(answers))

    def on_queries(self, batch: Batch, queries: Tensor, gradient: Tensor) -> None:
        """Add to the gradient for the queries (Q, d_e)."""

    def of_entities(self, batch: Batch, given: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """Which entities it holds, given or answers by their places, and with which weights."""
        return given[:0], batch.shares[:0]

    def on_rows(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The gradient for such rows (n, d) with their weights (n,)."""
        return torch.zeros_like(rows)

    def on_relations(self, batch: Batch, relations: Tensor, gradient: Tensor) -> None:
        """Add to the gradient for the distinct rows of R of the batch (U, d_r)."""

    def on_mixing(self, batch: Batch, matrices: Tensor, gradient: Tensor) -> None:
        """Add to the gradient for their mixing matrices, flattened (U, n)."""


class PowerNorm(Regularizer):
    """lp: each factor by how often it occurs."""

    reads = frozenset({"regularizer_power"})
    holds_entities = True

    def __init__(self, core: Core, settings: TrainSettings) -> None:
        super().__init__(core, settings)
        self.power = settings.regularizer_power

    def values(self, given: Tensor, queries: Tensor, answers: Tensor, question: Tensor) -> Tensor:
        """Both ends of a triple."""
        return self.strength * (self._norms(given)[question] + self._norms(answers))

    def of_entities(self, batch: Batch, given: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """Both ends of a triple."""
        weights = torch.cat([batch.shares, batch.by_answer(batch.shares)])
        return torch.cat([given, answers]), weights

    def on_relations(self, batch: Batch, relations: Tensor, gradient: Tensor) -> None:
        """The relation of each question."""
        gradient += self.on_rows(relations, batch.by_relation(batch.shares))

    def on_rows(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The gradient of c sum_b w_b sum |x_b|^p for rows (n, d)."""
        rows = rows.requires_grad_()
        with torch.enable_grad():
            value = self._norms(rows) @ weights
        (gradient,) = torch.autograd.grad(value, rows, torch.full_like(value, self.strength))
        return gradient.contiguous()

    def _norms(self, rows: Tensor) -> Tensor:
        """sum |x|^p of rows (n, d)."""
        # Away from zero, where a root of the squares has no derivative.
        squares: Tensor = self.core.squares(rows).clamp_min(1e-30)
        return (squares ** (self.power / 2)).sum(dim=1)


class Nuclear3Norm(PowerNorm):
    """n3."""

    reads = frozenset()

    def __init__(self, core: Core, settings: TrainSettings) -> None:
        super().__init__(core, settings)
        self.power = 3.0


class Dura(PowerNorm):
    """dura."""

    reads = frozenset()
    query_factor: ClassVar[float] = 1.0
    answer_factor: ClassVar[float] = 1.0

    def __init__(self, core: Core, settings: TrainSettings) -> None:
        super().__init__(core, settings)
        self.power = 2.0

    def values(self, given: Tensor, queries: Tensor, answers: Tensor, question: Tensor) -> Tensor:
        """||q_b||^2 and ||e_a||^2."""
        of_queries = self.query_factor * queries.square().sum(dim=1)[question]
        return self.strength * (of_queries + self.answer_factor * answers.square().sum(dim=1))

    def on_queries(self, batch: Batch, queries: Tensor, gradient: Tensor) -> None:
        """||q_b||^2."""
        strength = 2.0 * self.query_factor * self.strength
        gradient.addcmul_(queries, strength * batch.shares.unsqueeze(1))

    def of_entities(self, batch: Batch, given: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """||e_a||^2."""
        return answers, self.answer_factor * batch.by_answer(batch.shares)

    def on_relations(self, batch: Batch, relations: Tensor, gradient: Tensor) -> None:
        """Relations are held by the queries."""


class DiagonalDura(Dura):
    """dura_diagonal: the weights that its authors use for diagonal models, such as ComplEx."""

    query_factor = 1.5
    answer_factor = 0.5


class IntermediateVariables(PowerNorm):
    """ivr."""

    reads = frozenset({"regularizer_power", "regularizer_intermediate"})

    def __init__(self, core: Core, settings: TrainSettings) -> None:
        super().__init__(core, settings)
        self.intermediate = settings.regularizer_intermediate
        self.holds_mixing = core.has_matrices

    def values(self, given: Tensor, queries: Tensor, answers: Tensor, question: Tensor) -> Tensor:
        """Both ends of a triple and v ||q_b||^p."""
        of_queries = self.strength * self.intermediate * self._norms(queries)[question]
        return super().values(given, queries, answers, question) + of_queries

    def on_queries(self, batch: Batch, queries: Tensor, gradient: Tensor) -> None:
        """v ||q_b||^p."""
        gradient += self.on_rows(queries, self.intermediate * batch.shares)

    def on_mixing(self, batch: Batch, matrices: Tensor, gradient: Tensor) -> None:
        """v ||M_k||^p."""
        shares = batch.by_relation(batch.shares)
        gradient += self.on_rows(matrices, self.intermediate * shares)

    def on_rows(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The gradient of c sum_b w_b ||x_b||^p for rows (n, d)."""
        norms: Tensor = torch.linalg.vector_norm(rows, dim=1).clamp_min(1e-15)
        factor = self.strength * self.power * weights * norms ** (self.power - 2.0)
        return rows * factor.unsqueeze(1)

    def _norms(self, rows: Tensor) -> Tensor:
        """||x||^p of rows (n, d)."""
        norms: Tensor = rows.square().sum(dim=1).clamp_min(1e-30)
        return norms ** (self.power / 2)


REGULARIZERS: dict[str, type[Regularizer]] = {
    "none": Regularizer,
    "lp": PowerNorm,
    "n3": Nuclear3Norm,
    "dura": Dura,
    "dura_diagonal": DiagonalDura,
    "ivr": IntermediateVariables,
}
"""Every regulariser by the name that recipes use."""


def make_regularizer(core: Core, settings: TrainSettings) -> Regularizer:
    """The one of a recipe."""
    return REGULARIZERS[settings.regularizer](core, settings)
