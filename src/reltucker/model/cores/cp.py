"""CP (Sec. bilinear)."""

from reltucker.model.cores.fixed import PatternCore, Runs, check_even


class CpCore(PatternCore):
    """x describes an entity as subject, y as object; M_k = ((0, diag r_k), (0, 0))."""

    name = "cp"
    title = "CP"

    @classmethod
    def relation_dim_for(cls, entity_dim: int) -> int:
        """d_r = d_e / 2."""
        check_even(entity_dim, cls.name, "half of it for subjects and half for objects")
        return entity_dim // 2

    def runs(self) -> Runs:
        """g_(i, i + d_e/2, i) = 1."""
        half = self.relation_dim
        return [(0, half, 0, half, 1.0)]
