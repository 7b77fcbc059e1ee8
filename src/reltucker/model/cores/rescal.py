"""RESCAL (Sec. bilinear; core in Fig. rescal)."""

import torch
from torch import Tensor

from reltucker.kernels import Dropout
from reltucker.model.cores.fixed import Entries, FixedCore
from reltucker.model.cores.matrices import MatrixCore
from reltucker.model.dropout import NONE, dropped


class RescalCore(FixedCore, MatrixCore):
    """d_r = d_e^2, and every entry of r_k has a place of its own: M_k = reshape(r_k)."""

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

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """M_k = reshape(r_k): (U, d_e^2) to (U, d_e, d_e)."""
        return dropped(relations, dropout).view(-1, self.entity_dim, self.entity_dim)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """vec(e_i e_j^T)."""
        return (subjects.unsqueeze(2) * objects.unsqueeze(1)).flatten(1)
