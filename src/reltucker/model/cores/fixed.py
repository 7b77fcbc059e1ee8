"""The bilinear models: cores that are fixed and sparse (The Fixed Core Tensor View, Sec. rtucker).

Their pattern is the model: it says at which places of M_k the entries of r_k stand. Halves of a
vector are written e_i = (x, y), e_j = (u, v), r_k = (a, b).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout, add_rows, contract
from reltucker.model.arrangement import Arrangement
from reltucker.model.cores.core import Core
from reltucker.model.dropout import NONE, dropped

Entries = tuple[Tensor, Tensor, Tensor, Tensor]
"""i, j, l (0-based) and value of the non-zero entries of G."""

Runs = list[tuple[int, int, int, int, float]]
"""i, j, l (0-based), n and value v: g_(i + t, j + t, l + t) = v for t = 0, ..., n - 1."""


class FixedCore(Core):
    """A core without parameters: d_r follows from d_e, and G from its entries."""

    learns = "nothing"

    def __init__(self, entity_dim: int) -> None:
        super().__init__(entity_dim, self.relation_dim_for(entity_dim))

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r as the pattern fixes it; raises RecipeError for a d_e that it cannot have."""
        return entity_dim

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """The core for d_e; a d_r that is given must be the one that follows."""
        core = cls(entity_dim, **cls.Options(**options).model_dump())
        if relation_dim not in (None, core.relation_dim):
            raise RecipeError(
                f"model.relation_dim = {relation_dim}: {cls.name} with entity_dim {entity_dim} "
                f"has relation_dim {core.relation_dim}; leave it out"
            )
        return core

    @abstractmethod
    def entries(self) -> Entries:
        """The non-zero entries of G."""

    def nonzero_by_slice(self) -> Tensor:
        """How many places the pattern gives to each entry of r_k."""
        return torch.bincount(self.entries()[2], minlength=self.relation_dim)

    def explicit(self) -> dict[str, Tensor]:
        """The pattern's entries."""
        return dict(zip(("i", "j", "l", "value"), self.entries(), strict=True))

    def mixing_matrices(self, relations: Tensor) -> Tensor:
        """M_k with the entries of r_k at their places; no tensor is made."""
        i, j, l, value = (x.to(relations.device) for x in self.entries())
        d = self.entity_dim
        matrices = relations.new_zeros(len(relations), d * d)
        matrices.index_add_(1, i * d + j, relations[:, l] * value.to(relations))
        return matrices.view(-1, d, d)

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r) from the pattern's entries."""
        g = torch.zeros(self.entity_dim, self.entity_dim, self.relation_dim)
        i, j, l, value = self.entries()
        g[i, j, l] = value
        return g


class RowCore(FixedCore):
    """A fixed core whose M_k is applied row by row: the compact form is r_k itself.

    The three products are the derivatives of one form e_i^T (G x_3 r_k) e_j that is linear in each
    of its factors, so the gradients of each are the other two.
    """

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """r_k: the pattern says where its entries stand in M_k; a dropped one is gone from all."""
        return dropped(relations, dropout)

    def queries(self, mixing: Tensor, given: Tensor, arrangement: Arrangement) -> Tensor:
        """e_i^T M_k and M_k e_j."""
        apply: Callable[..., Tensor] = _Queries.apply
        return apply(mixing, given, self, arrangement)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """G x_1 e_i x_2 e_j."""
        apply: Callable[..., Tensor] = _RelationQueries.apply
        return apply(subjects, objects, self)

    @abstractmethod
    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """e_i^T M_k row by row: (B, d_e), (B, d_r) to (B, d_e)."""

    @abstractmethod
    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """M_k e_j row by row: (B, d_r), (B, d_e) to (B, d_e)."""

    @abstractmethod
    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """G x_1 e_i x_2 e_j row by row: (B, d_e), (B, d_e) to (B, d_r)."""


class PatternCore(RowCore):
    """A core whose pattern is a handful of runs along the diagonals of its slices; nothing else
    needs to be said about it."""

    @abstractmethod
    def runs(self) -> Runs:
        """The pattern."""

    def entries(self) -> Entries:
        """The entries of all runs."""
        runs = self.runs()
        i, j, l = (torch.cat([torch.arange(r[c], r[c] + r[3]) for r in runs]) for c in range(3))
        return i, j, l, torch.cat([torch.full((r[3],), r[4]) for r in runs])

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """sum_il g_ijl e_i r_l."""
        return self._contract((0, 2, 1), subjects, relations, self.entity_dim)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """sum_jl g_ijl r_l e_j."""
        return self._contract((2, 1, 0), relations, objects, self.entity_dim)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """sum_ij g_ijl e_i e_j."""
        return self._contract((0, 1, 2), subjects, objects, self.relation_dim)

    def _contract(
        self, roles: tuple[int, int, int], first: Tensor, second: Tensor, dim: int
    ) -> Tensor:
        runs, values = self._table
        return contract(runs, values.to(first.dtype), roles, first, second, dim)

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        rows = self.runs()
        return torch.tensor([row[:4] for row in rows]), torch.tensor([row[4] for row in rows])


class _Queries(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mixing: Tensor, given: Tensor, core: RowCore, arrangement: Arrangement
    ) -> Tensor:
        relations = mixing.index_select(0, arrangement.index)
        ctx.core, ctx.arrangement, ctx.count = core, arrangement, len(mixing)
        ctx.save_for_backward(relations, given)
        (x, y), (r, s) = _parts(arrangement, given, relations)
        return _joined((core.left, x, r), (core.right, s, y))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        relations, given = ctx.saved_tensors
        core: RowCore = ctx.core
        (x, y), (r, s), (g, h) = _parts(ctx.arrangement, given, relations, gradient)
        for_given = _joined((core.right, r, g), (core.left, h, s))
        for_rows = _joined((core.between, x, g), (core.between, h, y))
        total = relations.new_zeros(ctx.count, relations.shape[1])
        return add_rows(total, ctx.arrangement.index, for_rows), for_given, None, None


class _RelationQueries(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, subjects: Tensor, objects: Tensor, core: RowCore) -> Tensor:
        ctx.core = core
        ctx.save_for_backward(subjects, objects)
        return core.between(subjects, objects)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        subjects, objects = ctx.saved_tensors
        core: RowCore = ctx.core
        return core.right(gradient, objects), core.left(subjects, gradient), None


def _parts(arrangement: Arrangement, *rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Rows of questions for objects, and those of questions for subjects."""
    n = arrangement.objects
    return [(part[:n], part[n:]) for part in rows]


def _joined(*products: tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]) -> Tensor:
    """The rows of both products; not every operation takes an empty part."""
    parts = [product(first, second) for product, first, second in products if len(first)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def check_even(entity_dim: int, name: str, why: str) -> None:
    """Refuse an odd d_e."""
    if entity_dim % 2:
        raise RecipeError(f"model.entity_dim = {entity_dim}: {name} needs an even number, {why}")
