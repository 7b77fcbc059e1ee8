"""DRT: a free dense core, every entry of which is learned (Definition, Eq. relationaltucker)."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from reltucker.kernels import Dropout
from reltucker.model.cores.matrices import MatrixCore, default_relation_dim, mixed
from reltucker.model.dropout import NONE
from reltucker.model.initial import Draw


class DenseCore(MatrixCore):
    """G is a parameter. It is stored as (d_r, d_e * d_e), so that all M_k are one product R G."""

    name = "drt"
    title = "DRT"
    learns = "entries"

    def __init__(self, entity_dim: int, relation_dim: int) -> None:
        super().__init__(entity_dim, relation_dim)
        self.slices = nn.Parameter(torch.empty(relation_dim, entity_dim * entity_dim))

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """d_r is free; by default no more than there are relations, nor more than d_e."""
        cls.Options(**options)
        return cls(entity_dim, default_relation_dim(entity_dim, relation_dim, relations))

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """A core with the given entries (d_e, d_e, d_r)."""
        core = cls(tensor.shape[0], tensor.shape[2]).to(tensor.dtype)
        with torch.no_grad():
            core.slices.copy_(tensor.permute(2, 0, 1).flatten(1))
        return core

    def reset(self, draw: Draw) -> None:
        """Draw every g_ijl so that the scale of a score stays near that of the product of its
        embeddings: variance 1 / (d_e d_r)."""
        draw(self.slices, (self.entity_dim * self.relation_dim) ** -0.5)

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """M_k = sum_l r_kl G_l: (U, d_r) to (U, d_e, d_e)."""
        return mixed(relations, self.slices, dropout).view(-1, self.entity_dim, self.entity_dim)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """t_l = e_i^T G_l e_j: the product of vec(e_i e_j^T) with the slices, or that of e_i^T G_l,
        which has fewer numbers where d_r is small, with e_j."""
        if 2 * self.relation_dim <= self.entity_dim:
            half = subjects @ self.slices.view(-1, self.entity_dim, self.entity_dim)
            return (half * objects).sum(dim=2).t()
        outer = (subjects.unsqueeze(2) * objects.unsqueeze(1)).flatten(1)
        return outer @ self.slices.t()

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r)."""
        d = self.entity_dim
        return self.slices.detach().view(self.relation_dim, d, d).permute(1, 2, 0).contiguous()

    def nonzero_by_slice(self) -> Tensor:
        """How many learned entries of each slice are not zero."""
        return torch.count_nonzero(self.slices, dim=1)
