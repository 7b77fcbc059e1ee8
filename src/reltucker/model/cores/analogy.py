"""Analogy (Sec. bilinear)."""

import torch
from pydantic import Field
from torch import Tensor

from reltucker.model.cores.core import CoreOptions
from reltucker.model.cores.fixed import Entries, RowCore


class AnalogyOptions(CoreOptions):
    """What Analogy can be told."""

    scalar_share: float = Field(
        0.5, ge=0.0, le=1.0, description="share of coordinates with 1x1 blocks"
    )


class AnalogyCore(RowCore):
    """M_k is block-diagonal and normal, with blocks (a) and ((a, -b), (b, a)).

    A share of the coordinates has 1x1 blocks, as in DistMult; a coordinate p of the first half of
    the others forms a 2x2 block with its counterpart of the second half (ComplEx, transposed).
    """

    name = "analogy"
    title = "Analogy"
    Options = AnalogyOptions

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

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """(s s', x u + y v, y u - x v)."""
        return self.left(subjects, objects)

    def squares(self, vectors: Tensor) -> Tensor:
        """s^2 of scalars, x^2 + y^2 of pairs."""
        s, x, y = self._parts(vectors)
        return torch.cat([s.square(), x.square() + y.square()], dim=1)
