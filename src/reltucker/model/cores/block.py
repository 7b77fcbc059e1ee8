"""A block-diagonal learned core: block term decomposition (as in MEI and MEIM).

Coordinates of entities and relations fall into B blocks, and G has entries where i, j and l are of
the same block alone. B = 1 is DRT; 1x1 blocks with fixed entries are DistMult, 2x2 ones ComplEx and
Analogy. M_k costs 1 / B^2 of that of a dense core.
"""

from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout
from reltucker.model.arrangement import Arrangement
from reltucker.model.cores.core import Core, CoreOptions
from reltucker.model.cores.matrices import default_relation_dim, matrix_queries
from reltucker.model.dropout import NONE, dropped
from reltucker.model.initial import Draw


class BlockOptions(CoreOptions):
    """What a block core can be told."""

    blocks: int = Field(
        2,
        ge=1,
        le=10_000,
        description="B; d_e and d_r are multiples of it",
        json_schema_extra={"equation": "M_k = diag(M_k1, ..., M_kB), M_kb = G_b x_3 r_kb"},
    )


class BlockCore(Core):
    """B blocks of d x d x s with d = d_e / B and s = d_r / B, each with entries of its own.

    They are stored as (B, s, d * d), so that the blocks of all M_k are one batched product.
    """

    name = "block"
    title = "Block"
    learns = "entries"
    has_matrices = True
    Options = BlockOptions

    def __init__(self, entity_dim: int, relation_dim: int, blocks: int) -> None:
        super().__init__(entity_dim, relation_dim)
        self.blocks, self.side, self.depth = blocks, entity_dim // blocks, relation_dim // blocks
        self.slices = nn.Parameter(torch.empty(blocks, self.depth, self.side * self.side))

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """d_r is free; by default a block has no more of it than there are relations, nor than it
        has of d_e."""
        blocks = cls.Options(**options).model_dump()["blocks"]
        if relation_dim is None:
            relation_dim = blocks * default_relation_dim(
                max(entity_dim // blocks, 1), None, relations
            )
        for key, size in (("entity_dim", entity_dim), ("relation_dim", relation_dim)):
            if size % blocks:
                raise RecipeError(
                    f"model.{key} = {size}: {cls.name} needs a multiple of core.blocks = {blocks}"
                )
        return cls(entity_dim, relation_dim, blocks)

    def reset(self, draw: Draw) -> None:
        """As in DRT, by the sizes of a block: variance 1 / (d s)."""
        draw(self.slices, (self.side * self.depth) ** -0.5)

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """M_k^b = sum_l r_kbl G_bl: (U, d_r) to the blocks (U, B, d, d), in memory by block."""
        by_block = relations.view(-1, self.blocks, self.depth).transpose(0, 1)
        product = torch.bmm(by_block, self.slices).flatten(0, 1)  # (B U, d^2)
        matrices = dropped(product, dropout.repeated(self.blocks))
        return matrices.view(self.blocks, -1, self.side, self.side).transpose(0, 1)

    def queries(self, mixing: Tensor, given: Tensor, arrangement: Arrangement) -> Tensor:
        """The products of each block: B U matrices, and B rows for each question."""
        matrices = mixing.transpose(0, 1).reshape(-1, self.side, self.side)
        n = arrangement.objects
        rows = torch.cat([self._split(given[:n]), self._split(given[n:])])
        found = matrix_queries(matrices, rows, arrangement.repeated_starts(self.blocks))
        return torch.cat(
            [self._join(found[: self.blocks * n]), self._join(found[self.blocks * n :])]
        )

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """t_bl = e_i^T G_bl e_j over the coordinates of block b."""
        left, right = (x.view(len(x), self.blocks, self.side) for x in (subjects, objects))
        outer = (left.unsqueeze(3) * right.unsqueeze(2)).flatten(2).transpose(0, 1)
        return torch.bmm(outer, self.slices.transpose(1, 2)).transpose(0, 1).flatten(1)

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r), zero outside of the blocks."""
        B, d, s = self.blocks, self.side, self.depth
        tensor = self.slices.new_zeros(B, d, B, d, B, s)
        b = torch.arange(B, device=tensor.device)
        tensor[b, :, b, :, b, :] = self.slices.detach().view(B, s, d, d).permute(0, 2, 3, 1)
        return tensor.view(self.entity_dim, self.entity_dim, self.relation_dim)

    def explicit(self) -> dict[str, Tensor]:
        """The entries of the blocks by their places; G is not made."""
        B, s, d = self.blocks, self.depth, self.side
        b, l, i, j = torch.cartesian_prod(*map(torch.arange, (B, s, d, d))).t()
        value = self.slices.detach().flatten()
        return {"i": b * d + i, "j": b * d + j, "l": b * s + l, "value": value}

    def nonzero_by_slice(self) -> Tensor:
        """How many learned entries of each slice are not zero."""
        return torch.count_nonzero(self.slices, dim=2).flatten()

    def entry_range(self) -> tuple[int, int]:
        """All entries of the blocks."""
        return self.slices.numel(), self.slices.numel()

    def mixing_matrices(self, relations: Tensor) -> Tensor:
        """M_k with its blocks on the diagonal; G is not made."""
        B, d = self.blocks, self.side
        matrices = relations.new_zeros(len(relations), B, d, B, d)
        b = torch.arange(B, device=relations.device)
        matrices[:, b, :, b, :] = self.mixing(relations).transpose(0, 1)
        return matrices.view(len(relations), self.entity_dim, self.entity_dim)

    def query_work(self) -> int:
        """As d_e^2 / B."""
        return self.entity_dim * self.side

    def _split(self, rows: Tensor) -> Tensor:
        """(Q, d_e) to (B Q, d), by block."""
        return rows.view(-1, self.blocks, self.side).transpose(0, 1).reshape(-1, self.side)

    def _join(self, rows: Tensor) -> Tensor:
        """The inverse of `_split`."""
        parts = rows.view(self.blocks, -1, self.side)
        return parts.transpose(0, 1).reshape(-1, self.entity_dim)
