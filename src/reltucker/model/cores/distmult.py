"""DistMult (Sec. bilinear)."""

import torch
from torch import Tensor

from reltucker.model.cores.fixed import Entries, RowCore


class DistMultCore(RowCore):
    """M_k = diag(r_k), hence symmetric scores."""

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

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """e_i e_j."""
        return subjects * objects
