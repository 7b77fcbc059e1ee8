"""One training step: what all objectives share.

batch: given entities (Q,), rows of R (U distinct), answers      TripleBatches, QuestionBatches
E, after dropout                                                 EntityTable.open
queries (Q, d_e) = e_i^T M_k or M_k e_j                          model.ask
scores, loss and their gradients                                 what objectives differ in
gradients of rows of E, of R, and of the core                    autograd over model.ask
regularisers                                                     added to the same gradients
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from reltucker.graph import KnowledgeGraph
from reltucker.kernels import Dropout
from reltucker.model import QueryDropout, RelationalTucker
from reltucker.training.objectives.batches import Batch, Batches
from reltucker.training.objectives.entities import COMPACT_ABOVE, EntityRows, EntityTable
from reltucker.training.objectives.gradients import Gradient, Gradients, RowGradient
from reltucker.training.objectives.regularizers import make_regularizer
from reltucker.training.objectives.relation_prediction import predict_relations
from reltucker.training.objectives.sharded import ShardedTable

if TYPE_CHECKING:
    from reltucker.training.settings import TrainSettings


@dataclass(frozen=True)
class Keys:
    """What is random in a step is a function of these."""

    entities: int
    mixing: int
    candidates: int
    core: int

    @classmethod
    def draw(cls, generator: torch.Generator) -> Keys:
        """The keys of the next step."""
        return cls(*torch.randint(2**62, (4,), generator=generator).tolist())

    def masks(self, settings: TrainSettings) -> QueryDropout:
        """The masks on the way to the queries; one bit tells two uses of a key apart."""
        other = 1 << 62
        return QueryDropout(
            relations=Dropout(settings.relation_dropout, self.core ^ other),
            mixing=Dropout(settings.mixing_dropout, self.mixing),
            given=Dropout(settings.given_dropout, self.candidates ^ other),
            queries=Dropout(settings.query_dropout, self.mixing ^ other),
        )


class Objective(ABC):
    """Computes loss and gradients of one batch after the other.

    The core sits in the middle and is differentiated by autograd; the ends that touch E are
    computed directly, since they are gathers and scatters of rows, or products with all of E.
    """

    reads: ClassVar[frozenset[str]]
    """Settings of a recipe's section [train] that not all objectives read."""
    items: ClassVar[Literal["triples", "questions"]] = "triples"
    """What an epoch goes through: triples with two questions each, or questions."""
    by_rows: ClassVar[bool] = False
    """Whether a step takes single rows of E, and never the whole matrix."""

    @classmethod
    def of(cls, settings: TrainSettings) -> type[Objective]:
        """The class for these settings, where a setting chooses between several."""
        return cls

    @classmethod
    @abstractmethod
    def build(
        cls, model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
    ) -> Objective:
        """The objective on the training triples of a graph; a model of several processes makes it
        one that they compute together."""

    @classmethod
    def check(cls, settings: TrainSettings) -> None:
        """Refuse settings that do not go together."""
        return

    @classmethod
    def candidates(cls, settings: TrainSettings, entities: int) -> int:
        """How many entities are scored for a question, of so many."""
        return entities

    @classmethod
    def drawn_share(cls, settings: TrainSettings, population: int) -> float:
        """How often an entity that is no answer counts in the sum over candidates of a question,
        in expectation: always where all are candidates."""
        return 1.0

    def __init__(
        self, model: RelationalTucker, settings: TrainSettings, batches: Batches, population: int
    ) -> None:
        self.model = model
        self.settings = settings
        self.batches = batches
        self.population = population
        self.peers = model.peers
        self.regularizer = make_regularizer(model.core, settings)
        self.table = self._table_for(self._entities_touched())

    def __len__(self) -> int:
        """How many items an epoch has."""
        return len(self.batches)

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for an epoch (1, 2, ...)."""
        return

    def gradients(self, chosen: Tensor, generator: torch.Generator) -> tuple[Tensor, Gradients]:
        """The loss of the items with these numbers, a mean over them without regularisers and the
        core's penalty, and the gradients of all parameters; valid until the next call.

        Among several processes, what each has is to be summed, but for the gradient of E, which is
        that of the rows it holds."""
        settings, model = self.settings, self.model
        keys = Keys.draw(generator)
        batch = self.batches.take(chosen, generator).part(self.peers)
        model.core.begin_step(keys.core)
        facts = batch.facts if settings.relation_prediction else batch.facts[:0]
        entities, (given, answers, candidates, subjects, objects) = self.table.open(
            Dropout(settings.entity_dropout, keys.entities),
            batch.given,
            batch.answers,
            self._candidates(batch, keys),
            facts[:, 0],
            facts[:, 2],
        )
        e_given = entities.rows(given).requires_grad_()  # (Q, d_e)
        rows_of_R = batch.arrangement.relations
        relations = model.R.detach().index_select(0, rows_of_R).requires_grad_()  # (U, d_r)
        masks = batch.masks(keys.masks(settings))
        queries = model.ask(batch.arrangement, e_given, relations, masks)
        q = queries.detach()  # (Q, d_e)
        losses, dq = self._judge(batch, q, entities, answers, candidates)
        self.regularizer.on_queries(batch, q, dq)
        parameters = {n: p for n, p in model.named_parameters() if n not in ("E", "R")}
        d_given, d_relations, *others = self._differentiate(
            [(queries, dq), *self._on_mixing(batch, relations)],
            [e_given, relations, *parameters.values()],
        )
        self.regularizer.on_relations(batch, relations.detach(), d_relations)
        gradients: Gradients = dict(zip(parameters, others, strict=True))
        gradients["R"] = RowGradient(rows_of_R, d_relations)
        loss, places, rows = losses.double().sum(), given, d_given
        if len(facts):
            e_i, e_j = entities.rows(subjects), entities.rows(objects)
            weight = settings.relation_prediction / len(chosen)
            added, d_i, d_j = predict_relations(model, e_i, facts[:, 1], e_j, weight, gradients)
            loss += added
            places, rows = torch.cat([given, subjects, objects]), torch.cat([d_given, d_i, d_j])
        gradients["E"] = self._entity_gradient(entities, places, rows)
        if self.regularizer.holds_entities:
            held = self.regularizer.of_entities(batch, given, answers)
            gradients["E"] = entities.held(
                gradients["E"], model.E.detach(), *held, self.regularizer.on_rows
            )
        return loss, gradients

    def _table_for(self, touched: int) -> EntityTable:
        """E as steps see it that touch so many rows at the most. They leave alone those that they
        do not touch where these are many, and where the optimiser would not change them either."""
        settings, E = self.settings, self.model.E
        lazy = settings.optimizer == "adagrad" and settings.weight_decay == 0.0
        compact = lazy and self.model.entities > COMPACT_ABOVE * touched
        if self.peers.size > 1:
            return ShardedTable(E, compact, self.peers, self.model.entities)
        return EntityTable(E, compact, self.by_rows)

    # -- what objectives differ in --------------------------------------------------------------

    @abstractmethod
    def _entities_touched(self) -> int:
        """How many entities a step touches, at the most."""

    @abstractmethod
    def _candidates(self, batch: Batch, keys: Keys) -> Tensor:
        """The entities beside the answers that the step needs; none where it needs all."""

    @abstractmethod
    def _judge(
        self,
        batch: Batch,
        queries: Tensor,
        entities: EntityRows,
        answers: Tensor,
        candidates: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Queries in the order of the batch to their weighted losses and their gradient."""

    def _entity_gradient(self, entities: EntityRows, places: Tensor, rows: Tensor) -> Gradient:
        """Complete the gradient of the entities, to which `rows` are added at `places`."""
        entities.add(places, rows)
        entities.mask_gradient()
        return entities.returned()

    # -- what they share ------------------------------------------------------------------------

    def _on_mixing(self, batch: Batch, relations: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The mixing matrices of the batch before dropout, with their gradient by regularisers, if
        there are any. Soft orthogonality with strength c adds, for Q questions of which Q_k are
        about relation k,  c sum_k Q_k / Q ||M_k^T M_k - I||^2,  block by block."""
        strength = self.settings.orthogonality
        if not strength and not self.regularizer.holds_mixing:
            return []
        mixing = self.model.core.mixing(relations)  # (U, d, d) or (U, B, d, d)
        matrices, gradient = mixing.detach(), torch.zeros_like(mixing)
        if strength:
            share = 1.0 / len(batch.asked().weights)
            shares = batch.by_relation(torch.full_like(batch.weights, share))
            excess = matrices.mT @ matrices
            excess.diagonal(dim1=-2, dim2=-1).sub_(1.0)
            torch.matmul(matrices, excess, out=gradient)
            gradient *= (4.0 * strength * shares).view(-1, *(1 for _ in mixing.shape[1:]))
        if self.regularizer.holds_mixing:
            added = torch.zeros_like(gradient.flatten(1))
            self.regularizer.on_mixing(batch, matrices.flatten(1), added)
            gradient += added.view(gradient.shape)
        return [(mixing, gradient)]

    def _differentiate(
        self, outputs: list[tuple[Tensor, Tensor]], inputs: list[Tensor]
    ) -> list[Tensor]:
        """Outputs and their gradients to the gradients for the inputs; that of the core's penalty
        is added."""
        penalty = self.model.core.penalty()
        if penalty is not None and self.peers.rank == 0:  # once, though all have the core
            outputs = [*outputs, (penalty[0], torch.full_like(penalty[0], penalty[1]))]
        values, weights = zip(*outputs, strict=True)
        return list(torch.autograd.grad(values, inputs, weights))
