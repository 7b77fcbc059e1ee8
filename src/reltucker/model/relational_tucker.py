"""The one model: entity matrix E, relation matrix R, core G, score e_i^T (G x_3 r_k) e_j."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from reltucker.graph import Direction
from reltucker.kernels import Dropout
from reltucker.model.cores import Core
from reltucker.model.groups import RelationGroups


class RelationalTucker(nn.Module):
    """The Relational Tucker decomposition of N entities and K relations with a given core.

    E : (N, d_e), R : (K, d_r), core.tensor() = G : (d_e, d_e, d_r)

    With reciprocal relations R has 2 K rows: row K + k belongs to the inverse of relation k, and
    (?, k, j) is asked as (j, k^-1, ?). Scores of triples and queries over relations use rows k.
    """

    def __init__(
        self, entities: int, relations: int, core: Core, *, reciprocal: bool = False
    ) -> None:
        super().__init__()
        self.relations = relations
        self.reciprocal = reciprocal
        self.E = nn.Parameter(torch.empty(entities, core.entity_dim))
        self.R = nn.Parameter(torch.empty(relations * (1 + reciprocal), core.relation_dim))
        self.core = core

    def reset(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw all parameters anew; embeddings are normal with variance scale^2 / dimension."""
        nn.init.normal_(self.E, 0.0, scale * self.core.entity_dim**-0.5, generator=generator)
        nn.init.normal_(self.R, 0.0, scale, generator=generator)
        self.core.reset(generator)

    def training_queries(
        self, subjects: Tensor, objects: Tensor, groups: RelationGroups, dropout: Dropout
    ) -> Tensor:
        """Queries over objects, then over subjects, of triples grouped by relation, differentiable:
        e_i (B, d_e), e_j (B, d_e) to (2 B, d_e)."""
        if not self.reciprocal:
            mixing = self.core.mixing(self.R[groups.relations])
            return torch.cat(self.core.queries(mixing, subjects, objects, groups, dropout))
        rows = torch.cat([groups.relations, groups.relations + self.relations])
        mixing, inverse = self.core.mixing(self.R[rows]).chunk(2)
        return torch.cat(
            [
                self.core.object_queries(mixing, subjects, groups, dropout),
                # Another key, or a relation and its inverse would be masked alike.
                self.core.object_queries(inverse, objects, groups, dropout.another()),
            ]
        )

    def serving_state(self) -> dict[str, Tensor]:
        """What is needed to use the model after training, by name."""
        core = {f"core.{name}": value for name, value in self.core.serving_state().items()}
        return {"E": self.E.detach(), "R": self.R.detach(), **core}

    @torch.no_grad()
    def load_serving_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `serving_state`; raises KeyError, RuntimeError or ValueError where the
        state does not fit the model."""
        for name, parameter in (("E", self.E), ("R", self.R)):
            if state[name].shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(state[name].shape)}")
            parameter.copy_(state[name])
        self.core.load_serving_state(
            {k.removeprefix("core."): v for k, v in state.items() if k.startswith("core.")}
        )

    @torch.no_grad()
    def queries(self, direction: Direction, first: Tensor, second: Tensor) -> Tensor:
        """The query vectors q with scores q E^T (q R^T for relations), in the caller's order.

        (first, second) are ids (B,): (subject, relation) for objects, (object, relation) for
        subjects, (subject, object) for relations.
        """
        if direction == "relation":
            return self.core.relation_queries(self.E[first], self.E[second])
        inverse = direction == "subject" and self.reciprocal
        groups = RelationGroups.of(second + self.relations if inverse else second)
        mixing = self.core.mixing(self.R[groups.relations])
        rows = self.E[first[groups.order]]
        queries = torch.empty_like(rows)
        queries[groups.order] = (
            self.core.object_queries(mixing, rows, groups, Dropout.none())
            if direction == "object" or inverse
            else self.core.subject_queries(mixing, rows, groups)
        )
        return queries

    def candidates(self, direction: Direction) -> Tensor:
        """What queries of this direction are multiplied with: E, or R for relations."""
        return self.R.detach()[: self.relations] if direction == "relation" else self.E.detach()

    @torch.no_grad()
    def score(self, triples: Tensor) -> Tensor:
        """s_ijk = e_i^T M_k e_j for triples (n, 3) of ids (i, k, j)."""
        queries = self.queries("object", triples[:, 0], triples[:, 1])
        return (queries * self.E[triples[:, 2]]).sum(dim=1)

    @torch.no_grad()
    def mixing_matrix(self, relation: int) -> Tensor:
        """M_k (d_e, d_e) of one relation."""
        return self.core.mixing_matrices(self.R[relation : relation + 1])[0]
