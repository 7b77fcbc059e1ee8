"""CP (Sec. bilinear)."""

import torch
from torch import Tensor

from reltucker.model.cores.fixed import Entries, RowCore, check_even


class CpCore(RowCore):
    """x describes an entity as subject, y as object; M_k = ((0, diag r_k), (0, 0))."""

    name = "cp"
    title = "CP"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e / 2."""
        check_even(entity_dim, cls.name, "half of it for subjects and half for objects")
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

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """x v."""
        return subjects.chunk(2, dim=1)[0] * objects.chunk(2, dim=1)[1]
