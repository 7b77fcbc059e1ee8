"""DistMult (Sec. bilinear)."""

from reltucker.model.cores.fixed import PatternCore, Runs


class DistMultCore(PatternCore):
    """M_k = diag(r_k), hence symmetric scores."""

    name = "distmult"
    title = "DistMult"

    def runs(self) -> Runs:
        """g_iii = 1."""
        return [(0, 0, 0, self.entity_dim, 1.0)]
