"""The training objective: softmax cross-entropy of a triple against its pseudo-negatives.

For a triple (i, k, j), with J the drawn objects and I the drawn subjects,

    loss = -log softmax(s_ij'k : j' in {j} + J)[j] - log softmax(s_i'jk : i' in {i} + I)[i],

averaged over the triples of a batch. The core sits in the middle and is differentiated by
autograd; the two ends that touch E are computed directly, since each is a gather or a scatter over
(2 B) x (1 + negatives) rows that must not be materialised.
"""

import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.kernels import (
    Dropout,
    apply_dropout,
    draw_candidates,
    sampled_softmax,
    scatter_gradient,
)
from reltucker.model import RelationalTucker, RelationGroups
from reltucker.training.recipe import TrainSettings


class NegativeSampling:
    """Computes loss and gradients of one batch; the buffers live as long as the training run.

    Negatives are drawn without replacement from the entities below `population`, those that occur
    in train; the true entity is never among them.
    """

    def __init__(self, model: RelationalTucker, settings: TrainSettings, population: int) -> None:
        check_negatives(settings.negatives, population)
        self.model = model
        self.settings = settings
        self.population = population
        self._dropped = torch.empty_like(model.E.detach())
        self._gradient = torch.zeros_like(model.E)

    def backward(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Set the gradients of all parameters for a batch (B, 3); returns the mean loss."""
        model, settings = self.model, self.settings
        keys = torch.randint(2**62, (4,), generator=generator).tolist()
        entity_dropout = Dropout(settings.entity_dropout, keys[0])
        mixing_dropout = Dropout(settings.mixing_dropout, keys[1])
        groups = RelationGroups.of(triples[:, 1])
        triples = triples[groups.order]
        given = torch.cat([triples[:, 0], triples[:, 2]])
        asked = torch.cat([triples[:, 2], triples[:, 0]])

        # One mask for each entity and step: every occurrence of an entity in the batch is dropped
        # alike, so the mask is applied to E once instead of to 50 rows a triple.
        entities = model.E.detach()
        if settings.entity_dropout:
            entities = apply_dropout(entities, entity_dropout, self._dropped)

        model.zero_grad()
        model.core.begin_step(keys[3])
        rows = entities[given].requires_grad_()
        subjects, objects = rows.chunk(2)
        queries = model.training_queries(subjects, objects, groups, mixing_dropout)
        candidates = draw_candidates(asked, settings.negatives, self.population, keys[2])
        losses, weights, query_gradient = sampled_softmax(queries.detach(), entities, candidates)
        weights /= len(triples)
        query_gradient /= len(triples)
        penalty = model.core.penalty()
        if penalty is None:
            torch.autograd.backward(queries, query_gradient)
        else:
            value, weight = penalty
            torch.autograd.backward(
                [queries, value], [query_gradient, torch.full_like(value, weight)]
            )
        assert rows.grad is not None
        model.E.grad = scatter_gradient(
            candidates,
            weights,
            queries.detach(),
            given,
            rows.grad,
            entity_dropout,
            self._gradient,
        )
        return losses.sum() / len(triples)


def check_negatives(count: int, population: int) -> None:
    """Refuse to draw more entities without replacement than there are beside the true one."""
    if count > population - 1:
        raise RecipeError(
            f"train.negatives = {count}: only {population} entities occur in train, so at most "
            f"{population - 1} can be drawn without replacement"
        )
