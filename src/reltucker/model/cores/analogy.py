"""Analogy (Sec. bilinear)."""

import torch
from pydantic import Field
from torch import Tensor

from reltucker.model.cores.core import CoreOptions
from reltucker.model.cores.fixed import PatternCore, Runs


class AnalogyOptions(CoreOptions):
    """What Analogy can be told."""

    scalar_share: float = Field(
        0.5, ge=0.0, le=1.0, description="share of coordinates with 1x1 blocks"
    )


class AnalogyCore(PatternCore):
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

    def runs(self) -> Runs:
        """g_iii = 1 for scalars; a twice on the diagonal of the blocks, -b above, b below."""
        s, n = self.scalars, self.pairs
        return [
            (0, 0, 0, s, 1.0),
            (s, s, s, n, 1.0),
            (s + n, s + n, s, n, 1.0),
            (s, s + n, s + n, n, -1.0),
            (s + n, s, s + n, n, 1.0),
        ]

    def squares(self, vectors: Tensor) -> Tensor:
        """s^2 of scalars, x^2 + y^2 of pairs."""
        s, x, y = torch.split(vectors, [self.scalars, self.pairs, self.pairs], dim=1)
        return torch.cat([s.square(), x.square() + y.square()], dim=1)
