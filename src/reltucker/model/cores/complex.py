"""ComplEx (Sec. bilinear; core in Fig. complexfrontal)."""

from torch import Tensor

from reltucker.model.cores.fixed import PatternCore, Runs, check_even


class ComplexCore(PatternCore):
    """Real and imaginary parts; M_k = ((diag a, diag b), (-diag b, diag a))."""

    name = "complex"
    title = "ComplEx"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e, which must be even."""
        check_even(entity_dim, cls.name, "half of it for real and half for imaginary parts")
        return entity_dim

    def runs(self) -> Runs:
        """g_ijk as in the paper's case distinction: a twice on the diagonal, b above, -b below."""
        half = self.entity_dim // 2
        return [
            (0, 0, 0, half, 1.0),
            (half, half, 0, half, 1.0),
            (0, half, half, half, 1.0),
            (half, 0, half, half, -1.0),
        ]

    def squares(self, vectors: Tensor) -> Tensor:
        """x^2 + y^2: of complex numbers."""
        x, y = vectors.chunk(2, dim=1)
        return x.square() + y.square()
