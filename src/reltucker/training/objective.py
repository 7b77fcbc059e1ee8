"""The training objective: softmax cross-entropy of a triple against its pseudo-negatives.

For a triple (i, k, j), with J the drawn objects and I the drawn subjects,

    loss = -log softmax(s_ij'k : j' in {j} + J)[j] - log softmax(s_i'jk : i' in {i} + I)[i],

averaged over the triples of a batch. The core sits in the middle and is differentiated by
autograd; the two ends that touch E are computed directly, since each is a gather or a scatter over
(2 B) x (1 + negatives) rows that must not be materialised.
"""

import torch
from torch import Tensor

from reltucker.kernels import (
    Dropout,
    apply_dropout,
    sampled_scores,
    scatter_rows,
    weighted_candidates,
)
from reltucker.model import RelationalTucker, RelationGroups
from reltucker.training.negatives import draw_candidates
from reltucker.training.recipe import TrainSettings


class NegativeSampling:
    """Computes loss and gradients of one batch; the buffers live as long as the training run."""

    def __init__(self, model: RelationalTucker, settings: TrainSettings, candidates: int) -> None:
        self.model = model
        self.settings = settings
        self.candidates = candidates
        self._dropped = torch.empty_like(model.E.detach())
        model.E.grad = torch.zeros_like(model.E)

    def backward(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Set the gradients of all parameters for a batch (B, 3); returns the mean loss."""
        model, settings = self.model, self.settings
        keys = torch.randint(2**62, (4,), generator=generator).tolist()
        groups = RelationGroups.of(triples[:, 1])
        triples = triples[groups.order]
        given = torch.cat([triples[:, 0], triples[:, 2]])

        # One mask for each entity and step: every occurrence of an entity in the batch is dropped
        # alike, so the mask is applied to E once instead of to 50 rows a triple.
        entity_dropout = Dropout(settings.entity_dropout, keys[0])
        entities = model.E.detach()
        if settings.entity_dropout:
            entities = apply_dropout(entities, entity_dropout, self._dropped)

        model.R.grad = None
        for parameter in model.core.parameters():
            parameter.grad = None
        mixing = model.core.mixing(model.R[groups.relations])
        mixing_dropout = Dropout(settings.mixing_dropout, keys[1])
        rows = entities[given].requires_grad_()
        subjects, objects = rows.chunk(2)
        queries = torch.cat(model.core.queries(mixing, subjects, objects, groups, mixing_dropout))

        candidates = torch.cat(
            [
                draw_candidates(triples[:, 2], settings.negatives, self.candidates, keys[2]),
                draw_candidates(triples[:, 0], settings.negatives, self.candidates, keys[3]),
            ]
        )
        scores = sampled_scores(queries.detach(), entities, candidates)
        log_normaliser = torch.logsumexp(scores, dim=1, keepdim=True)
        loss = (log_normaliser.squeeze(1) - scores[:, 0]).sum() / len(triples)
        score_gradient = (scores - log_normaliser).exp_()
        score_gradient[:, 0] -= 1.0
        score_gradient /= len(triples)

        query_gradient = weighted_candidates(score_gradient, entities, candidates)
        torch.autograd.backward(queries, query_gradient)
        self._entity_gradient(
            candidates, score_gradient, queries.detach(), given, rows.grad, entity_dropout
        )
        return loss

    def _entity_gradient(
        self,
        candidates: Tensor,
        score_gradient: Tensor,
        queries: Tensor,
        given: Tensor,
        row_gradient: Tensor | None,
        dropout: Dropout,
    ) -> None:
        """dE: each candidate gets its score's gradient times the query, each given entity what
        came back through the core."""
        assert row_gradient is not None
        assert self.model.E.grad is not None
        number = torch.arange(2 * len(given), device=given.device)
        of_queries, of_rows = number.chunk(2)
        scatter_rows(
            torch.cat([candidates.flatten(), given]),
            torch.cat([score_gradient.flatten(), torch.ones_like(given, dtype=queries.dtype)]),
            torch.cat([of_queries.repeat_interleave(candidates.shape[1]), of_rows]),
            torch.cat([queries, row_gradient]),
            dropout,
            self.model.E.grad,
        )
