"""The bilinear models: cores that are fixed and sparse. Their pattern is the model.

A core is described twice: by `entries`, the non-zero g_ijl as in the paper, and by the products
that use them (`left`, `right`, `between`), which need no tensor. A test shows that both agree.
Halves of a vector are written e_i = (x, y), e_j = (u, v), r_k = (a, b).
"""

from typing import Any, Self

import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout
from reltucker.model.cores.core import Core, MatrixCore
from reltucker.model.dropout import dropped
from reltucker.model.groups import RelationGroups
from reltucker.model.initial import Draw

Entries = tuple[Tensor, Tensor, Tensor, Tensor]
"""i, j, l (0-based) and value of the non-zero entries of G."""


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
        core = cls(entity_dim, **options)
        if relation_dim not in (None, core.relation_dim):
            raise RecipeError(
                f"model.relation_dim = {relation_dim}: {cls.name} with entity_dim {entity_dim} "
                f"has relation_dim {core.relation_dim}; leave it out"
            )
        return core

    def reset(self, draw: Draw) -> None:
        """Nothing to draw."""

    def entries(self) -> Entries:
        """The non-zero entries of G."""
        raise NotImplementedError

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


class RescalCore(FixedCore, MatrixCore):
    """RESCAL: d_r = d_e^2, and every entry of r_k has a place of its own: M_k = reshape(r_k)."""

    name = "rescal"
    title = "RESCAL"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e^2."""
        return entity_dim**2

    def entries(self) -> Entries:
        """g_ijl = 1 for i = floor(l / d_e), j = l mod d_e."""
        l = torch.arange(self.relation_dim)
        return l // self.entity_dim, l % self.entity_dim, l, torch.ones(len(l))

    def mixing(self, relations: Tensor) -> Tensor:
        """M_k = reshape(r_k): (U, d_e^2) to (U, d_e, d_e)."""
        return relations.view(-1, self.entity_dim, self.entity_dim)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """vec(e_i e_j^T)."""
        return (subjects.unsqueeze(2) * objects.unsqueeze(1)).flatten(1)


class RowCore(FixedCore):
    """A fixed core whose M_k is applied row by row: the compact form is r_k itself."""

    def mixing(self, relations: Tensor) -> Tensor:
        """r_k: the pattern says where its entries stand in M_k."""
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
        relations = groups.spread(dropped(mixing, dropout))
        return self.left(subjects, relations), self.right(relations, objects)

    def object_queries(
        self, mixing: Tensor, subjects: Tensor, groups: RelationGroups, dropout: Dropout
    ) -> Tensor:
        """e_i^T M_k."""
        return self.left(subjects, groups.spread(dropped(mixing, dropout)))

    def subject_queries(self, mixing: Tensor, objects: Tensor, groups: RelationGroups) -> Tensor:
        """M_k e_j."""
        return self.right(groups.spread(mixing), objects)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """G x_1 e_i x_2 e_j."""
        return self.between(subjects, objects)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """e_i^T M_k row by row: (B, d_e), (B, d_r) to (B, d_e)."""
        raise NotImplementedError

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """M_k e_j row by row: (B, d_r), (B, d_e) to (B, d_e)."""
        raise NotImplementedError

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """e_i^T G_l e_j row by row: (B, d_e), (B, d_e) to (B, d_r)."""
        raise NotImplementedError


class DistMultCore(RowCore):
    """DistMult: M_k = diag(r_k), hence symmetric scores."""

    name = "distmult"
    title = "DistMult"

    def entries(self) -> Entries:
        """g_iii = 1."""
        i = torch.arange(self.entity_dim)
        return i, i, i, torch.ones(self.entity_dim)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """e_i r."""
        return subjects * relations

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """r e_j."""
        return relations * objects

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """e_i e_j."""
        return subjects * objects


class CpCore(RowCore):
    """CP: x describes an entity as subject, y as object; M_k = ((0, diag r_k), (0, 0))."""

    name = "cp"
    title = "CP"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e / 2."""
        _check_even(entity_dim, cls.name, "half of it for subjects and half for objects")
        return entity_dim // 2

    def entries(self) -> Entries:
        """g_(i, i + d_e/2, i) = 1."""
        i = torch.arange(self.relation_dim)
        return i, i + self.relation_dim, i, torch.ones(self.relation_dim)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """(0, x r)."""
        x, y = subjects.chunk(2, dim=1)
        return torch.cat([torch.zeros_like(y), x * relations], dim=1)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """(r v, 0)."""
        u, v = objects.chunk(2, dim=1)
        return torch.cat([relations * v, torch.zeros_like(u)], dim=1)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """x v."""
        return subjects.chunk(2, dim=1)[0] * objects.chunk(2, dim=1)[1]


class ComplexCore(RowCore):
    """ComplEx: real and imaginary parts; M_k = ((diag a, diag b), (-diag b, diag a))."""

    name = "complex"
    title = "ComplEx"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e, which must be even."""
        _check_even(entity_dim, cls.name, "half of it for real and half for imaginary parts")
        return entity_dim

    def entries(self) -> Entries:
        """g_ijk as in the paper's case distinction."""
        half = self.entity_dim // 2
        low = torch.arange(half)
        high = low + half
        one = torch.ones(half)
        return (
            torch.cat([low, high, low, high]),
            torch.cat([low, high, high, low]),
            torch.cat([low, low, high, high]),
            torch.cat([one, one, one, -one]),
        )

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """(x a - y b, x b + y a)."""
        x, y = subjects.chunk(2, dim=1)
        a, b = relations.chunk(2, dim=1)
        return torch.cat([x * a - y * b, x * b + y * a], dim=1)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """(a u + b v, a v - b u)."""
        u, v = objects.chunk(2, dim=1)
        a, b = relations.chunk(2, dim=1)
        return torch.cat([a * u + b * v, a * v - b * u], dim=1)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """(x u + y v, x v - y u)."""
        x, y = subjects.chunk(2, dim=1)
        u, v = objects.chunk(2, dim=1)
        return torch.cat([x * u + y * v, x * v - y * u], dim=1)

    def squares(self, vectors: Tensor) -> Tensor:
        """x^2 + y^2: of complex numbers."""
        x, y = vectors.chunk(2, dim=1)
        return x.square() + y.square()


class HoleCore(RowCore):
    """HolE: s = r_k . (e_i * e_j) with * the circular correlation, computed by FFT."""

    name = "hole"
    title = "HolE"

    def entries(self) -> Entries:
        """g_(t, (l + t) mod d_e, l) = 1."""
        d = self.entity_dim
        t = torch.arange(d).repeat_interleave(d)
        l = torch.arange(d).repeat(d)
        return t, (l + t) % d, l, torch.ones(d * d)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """The circular convolution of e_i and r."""
        return _convolution(subjects, relations, self.entity_dim)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """The circular correlation of r and e_j."""
        return _correlation(relations, objects, self.entity_dim)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """The circular correlation of e_i and e_j."""
        return _correlation(subjects, objects, self.entity_dim)


class AnalogyCore(RowCore):
    """Analogy: M_k is block-diagonal and normal, with blocks (a) and ((a, -b), (b, a)).

    A share of the coordinates has 1x1 blocks, as in DistMult; a coordinate p of the first half of
    the others forms a 2x2 block with its counterpart of the second half (ComplEx, transposed).
    """

    name = "analogy"
    title = "Analogy"
    options = frozenset({"scalar_share"})

    def __init__(self, entity_dim: int, scalar_share: float = 0.5) -> None:
        super().__init__(entity_dim)
        self.pairs = min(round(entity_dim * (1.0 - scalar_share) / 2), entity_dim // 2)
        self.scalars = entity_dim - 2 * self.pairs

    def entries(self) -> Entries:
        """g_iii = 1 for scalars; four entries for each parameter pair of a 2x2 block."""
        s = torch.arange(self.scalars)
        low = self.scalars + torch.arange(self.pairs)
        high = low + self.pairs
        one = torch.ones(self.pairs)
        return (
            torch.cat([s, low, high, low, high]),
            torch.cat([s, low, high, high, low]),
            torch.cat([s, low, low, high, high]),
            torch.cat([torch.ones(self.scalars), one, one, -one, one]),
        )

    def _parts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        return torch.split(vectors, [self.scalars, self.pairs, self.pairs], dim=1)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """(s r, x a + y b, y a - x b)."""
        s, x, y = self._parts(subjects)
        r, a, b = self._parts(relations)
        return torch.cat([s * r, x * a + y * b, y * a - x * b], dim=1)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """(r s, a u - b v, b u + a v)."""
        s, u, v = self._parts(objects)
        r, a, b = self._parts(relations)
        return torch.cat([r * s, a * u - b * v, b * u + a * v], dim=1)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """(s s', x u + y v, y u - x v)."""
        s, x, y = self._parts(subjects)
        t, u, v = self._parts(objects)
        return torch.cat([s * t, x * u + y * v, y * u - x * v], dim=1)

    def squares(self, vectors: Tensor) -> Tensor:
        """s^2 of scalars, x^2 + y^2 of pairs."""
        s, x, y = self._parts(vectors)
        return torch.cat([s.square(), x.square() + y.square()], dim=1)


def _convolution(x: Tensor, y: Tensor, d: int) -> Tensor:
    """z_j = sum_t x_t y_(j - t mod d), row by row."""
    product: Tensor = torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), n=d)
    return product


def _correlation(x: Tensor, y: Tensor, d: int) -> Tensor:
    """z_l = sum_t x_t y_(l + t mod d), row by row."""
    product: Tensor = torch.fft.irfft(torch.fft.rfft(x).conj() * torch.fft.rfft(y), n=d)
    return product


def _check_even(entity_dim: int, name: str, why: str) -> None:
    if entity_dim % 2:
        raise RecipeError(f"model.entity_dim = {entity_dim}: {name} needs an even number, {why}")
