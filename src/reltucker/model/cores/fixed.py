"""Cores that are fixed and sparse: their pattern is the model, and no tensor is kept."""

from typing import Self

import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout
from reltucker.model.cores.core import Core
from reltucker.model.dropout import dropped
from reltucker.model.groups import RelationGroups


class FixedCore(Core):
    """A core without parameters whose M_k is linear in r_k and applied row by row.

    A subclass describes its pattern twice: `entries`, the non-zero g_ijl, and the three products
    that use them (`left`, `right`, `between`); a test shows that both agree.
    """

    def __init__(self, entity_dim: int) -> None:
        super().__init__(entity_dim, self.relation_dim_for(entity_dim))

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r as the pattern fixes it; raises RecipeError for a d_e that it cannot have."""
        return entity_dim

    @classmethod
    def build(cls, entity_dim: int, relation_dim: int | None, relations: int) -> Self:
        """d_r follows from d_e."""
        core = cls(entity_dim)
        if relation_dim not in (None, core.relation_dim):
            raise RecipeError(
                f"model.relation_dim = {relation_dim}: {cls.name} with entity_dim {entity_dim} "
                f"has relation_dim {core.relation_dim}; leave it out"
            )
        return core

    def reset(self, generator: torch.Generator) -> None:
        """Nothing to draw."""

    def mixing(self, relations: Tensor) -> Tensor:
        """r_k itself: the pattern says where its entries stand in M_k."""
        return relations

    def queries(
        self,
        mixing: Tensor,
        subjects: Tensor,
        objects: Tensor,
        groups: RelationGroups,
        dropout: Dropout,
    ) -> tuple[Tensor, Tensor]:
        """e_i^T M_k and M_k e_j; a dropped entry of r_k is gone from every place in M_k."""
        relations = dropped(mixing, dropout)[groups.index]
        return self.left(subjects, relations), self.right(relations, objects)

    def object_queries(self, mixing: Tensor, subjects: Tensor, groups: RelationGroups) -> Tensor:
        """e_i^T M_k."""
        return self.left(subjects, mixing[groups.index])

    def subject_queries(self, mixing: Tensor, objects: Tensor, groups: RelationGroups) -> Tensor:
        """M_k e_j."""
        return self.right(mixing[groups.index], objects)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """G x_1 e_i x_2 e_j."""
        return self.between(subjects, objects)

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r) from the pattern's entries."""
        g = torch.zeros(self.entity_dim, self.entity_dim, self.relation_dim)
        i, j, k, value = self.entries()
        g[i, j, k] = value
        return g

    def entries(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The non-zero entries of G: i, j, l (0-based) and value."""
        raise NotImplementedError

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """e_i^T M_k row by row: (B, d_e), (B, d_r) to (B, d_e)."""
        raise NotImplementedError

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """M_k e_j row by row: (B, d_r), (B, d_e) to (B, d_e)."""
        raise NotImplementedError

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """e_i^T G_l e_j row by row: (B, d_e), (B, d_e) to (B, d_r)."""
        raise NotImplementedError


class ComplexCore(FixedCore):
    """ComplEx: e = (x, y) holds real and imaginary parts, r = (a, b), and

    M_k = ((diag a, diag b), (-diag b, diag a)).
    """

    name = "complex"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e, which must be even."""
        if entity_dim % 2:
            raise RecipeError(
                f"model.entity_dim = {entity_dim}: complex needs an even number, half of it for "
                "real and half for imaginary parts"
            )
        return entity_dim

    def entries(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """g_ijk as in the paper's case distinction."""
        half = self.entity_dim // 2
        low = torch.arange(half)
        high = low + half
        i = torch.cat([low, high, low, high])
        j = torch.cat([low, high, high, low])
        k = torch.cat([low, low, high, high])
        return i, j, k, torch.ones(4 * half).index_fill_(0, torch.arange(3 * half, 4 * half), -1.0)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """(x a - y b, x b + y a)."""
        x, y = subjects.chunk(2, dim=1)
        a, b = relations.chunk(2, dim=1)
        return torch.cat([x * a - y * b, x * b + y * a], dim=1)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """(a x + b y, a y - b x)."""
        x, y = objects.chunk(2, dim=1)
        a, b = relations.chunk(2, dim=1)
        return torch.cat([a * x + b * y, a * y - b * x], dim=1)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """(x_i x_j + y_i y_j, x_i y_j - y_i x_j)."""
        x, y = subjects.chunk(2, dim=1)
        u, v = objects.chunk(2, dim=1)
        return torch.cat([x * u + y * v, x * v - y * u], dim=1)
