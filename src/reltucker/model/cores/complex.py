"""ComplEx (Sec. bilinear; core in Fig. complexfrontal)."""

import torch
from torch import Tensor

from reltucker.model.cores.fixed import Entries, RowCore, check_even


class ComplexCore(RowCore):
    """Real and imaginary parts; M_k = ((diag a, diag b), (-diag b, diag a))."""

    name = "complex"
    title = "ComplEx"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e, which must be even."""
        check_even(entity_dim, cls.name, "half of it for real and half for imaginary parts")
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
        return torch.cat([torch.addcmul(x * a, y, b, value=-1), torch.addcmul(x * b, y, a)], dim=1)

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """(a u + b v, a v - b u)."""
        return self.relation_queries(relations, objects)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """(x u + y v, x v - y u)."""
        x, y = subjects.chunk(2, dim=1)
        u, v = objects.chunk(2, dim=1)
        return torch.cat([torch.addcmul(x * u, y, v), torch.addcmul(x * v, y, u, value=-1)], dim=1)

    def squares(self, vectors: Tensor) -> Tensor:
        """x^2 + y^2: of complex numbers."""
        x, y = vectors.chunk(2, dim=1)
        return x.square() + y.square()
