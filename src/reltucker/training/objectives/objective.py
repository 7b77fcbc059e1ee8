"""One training step: what all objectives share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from reltucker.kernels import Dropout
from reltucker.model import QueryDropout, RelationalTucker
from reltucker.training.objectives.batches import Batch, Batches
from reltucker.training.objectives.entities import COMPACT_ABOVE, EntityRows, EntityTable
from reltucker.training.objectives.regularizers import Regularizer
from reltucker.training.recipe import TrainSettings

FACTS_AT_ONCE = 256
"""How many facts relation prediction handles at once: a dense core holds d_e^2 numbers for each."""


@dataclass(frozen=True)
class Keys:
    """What is random in a step is a function of these."""

    entities: int
    mixing: int
    candidates: int
    core: int

    @classmethod
    def draw(cls, generator: torch.Generator) -> "Keys":
        """The keys of the next step."""
        return cls(*torch.randint(2**62, (4,), generator=generator).tolist())


class Objective(ABC):
    """Computes loss and gradients of one batch after the other.

    The core sits in the middle and is differentiated by autograd; the ends that touch E are
    computed directly, since they are gathers and scatters of rows, or products with all of E.
    """

    def __init__(
        self, model: RelationalTucker, settings: TrainSettings, batches: Batches, population: int
    ) -> None:
        self.model = model
        self.settings = settings
        self.batches = batches
        self.population = population
        self.regularizer = Regularizer.of(model.core, settings)
        self.table = EntityTable(model.E, self._is_compact())
        self.touched: tuple[Tensor, Tensor] | None = None
        """After a compact step: entities and the rows of their gradient; E.grad is None then."""

    def __len__(self) -> int:
        """How many items an epoch has."""
        return len(self.batches)

    def backward(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """Set the gradients of all parameters for the items with these numbers; returns the loss,
        a mean over the items, without regularisers and the core's penalty."""
        settings, model = self.settings, self.model
        keys = Keys.draw(generator)
        batch = self.batches.take(chosen, generator)
        model.zero_grad()
        model.core.begin_step(keys.core)
        candidates = self._candidates(batch, keys)
        facts = batch.facts if settings.relation_prediction else batch.facts[:0]
        entities, (given, answers, candidates, subjects, objects) = self.table.open(
            Dropout(settings.entity_dropout, keys.entities),
            batch.given,
            batch.answers,
            candidates,
            facts[:, 0],
            facts[:, 2],
        )
        added = [(given, entities.matrix[given].requires_grad_())]
        loss = torch.zeros((), dtype=torch.float64, device=chosen.device)
        if len(facts):
            added += [(i, entities.matrix[i].requires_grad_()) for i in (subjects, objects)]
            loss += self._predict_relations(added[1][1], added[2][1], facts[:, 1], len(chosen))
        queries = model.training_queries(batch.questions, added[0][1], self._masks(keys))
        losses, query_gradient = self._judge(batch, queries.detach(), entities, answers, candidates)
        loss += losses.sum()
        self.regularizer.on_queries(batch, queries.detach(), query_gradient)
        self._differentiate(queries, query_gradient)
        gradients = [rows.grad for _, rows in added]
        self._entity_gradient(
            entities,
            torch.cat([places for places, _ in added]),
            torch.cat([gradient for gradient in gradients if gradient is not None]),
        )
        self.regularizer.on_entities(batch, model.E, entities, given, answers)
        self.regularizer.on_relations(batch, model.R)
        if entities.ids is None:
            model.E.grad, self.touched = entities.gradient, None
        else:
            model.E.grad, self.touched = None, (entities.ids, entities.gradient)
        return loss

    def _is_compact(self) -> bool:
        """Whether steps leave alone the rows of E that they do not touch: where there are many,
        and where the optimiser would not change them either."""
        settings = self.settings
        if settings.optimizer != "adagrad" or settings.weight_decay > 0.0:
            return False
        return len(self.model.E) > COMPACT_ABOVE * self._entities_touched()

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

    @abstractmethod
    def _entity_gradient(self, entities: EntityRows, places: Tensor, rows: Tensor) -> None:
        """Complete the gradient of the entities, to which `rows` are added at `places`."""

    # -- what they share ------------------------------------------------------------------------

    def _masks(self, keys: Keys) -> QueryDropout:
        settings = self.settings
        return QueryDropout(
            relations=Dropout(settings.relation_dropout, keys.core ^ (1 << 62)),
            mixing=Dropout(settings.mixing_dropout, keys.mixing),
            given=Dropout(settings.given_dropout, keys.candidates ^ (1 << 62)),
            queries=Dropout(settings.query_dropout, keys.mixing ^ (1 << 62)),
        )

    def _differentiate(self, queries: Tensor, gradient: Tensor) -> None:
        penalty = self.model.core.penalty()
        if penalty is None:
            torch.autograd.backward(queries, gradient)
        else:
            value, weight = penalty
            torch.autograd.backward([queries, value], [gradient, torch.full_like(value, weight)])

    def _predict_relations(
        self, subjects: Tensor, objects: Tensor, rows: Tensor, items: int
    ) -> Tensor:
        """Softmax cross-entropy of each fact's relation against all rows of R, with its weight, as
        a mean over the items; sets the gradients."""
        total = torch.zeros((), dtype=torch.float64, device=rows.device)
        for begin in range(0, len(rows), FACTS_AT_ONCE):
            part = slice(begin, begin + FACTS_AT_ONCE)
            scores = self.model.relation_queries(subjects[part], objects[part]) @ self.model.R.t()
            loss = torch.nn.functional.cross_entropy(scores, rows[part], reduction="sum")
            loss = loss * (self.settings.relation_prediction / items)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total
