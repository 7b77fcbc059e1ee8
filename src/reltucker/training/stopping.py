"""Early stopping on the validation MRR."""

from dataclasses import dataclass
from typing import Any

from reltucker.model import SPARSE

KEPT = 0.97
"""While a core gets sparser, an epoch with this share of the best MRR is as good as the best."""

SETTLED = 0.95
"""A core that keeps this share of its entries over an epoch has settled."""


@dataclass
class EarlyStopping:
    """Stops when `patience` epochs in a row brought no better validation MRR.

    With `max_density`, epochs with a denser core count for nothing: they are neither the best nor a
    reason to stop. Without it, a core that `gets_sparse` is waited for: epochs in which it is not
    sparse are no reason to stop, and the first in which it is begins anew. From there on the
    latest epoch is the best as long as the MRR holds, until the core has settled.
    """

    patience: int
    max_density: float | None = None
    gets_sparse: bool = False
    best_mrr: float = -1.0
    best_epoch: int = 0
    waited: int = 0
    is_sparse: bool = False
    is_settled: bool = False
    highest_mrr: float = -1.0
    last_density: float = 1.0

    def improved(self, epoch: int, mrr: float, density: float, epochs: int = 1) -> bool:
        """Take note of a validated epoch, `epochs` after the one before; says whether it is the
        best so far."""
        if not self.counts(density):
            return False
        if self._awaits_sparsity:
            self.is_settled |= self.is_sparse and density >= self.last_density * SETTLED**epochs
            self.last_density = density
            if density <= SPARSE and not self.is_sparse:
                self.is_sparse, self.best_mrr, self.highest_mrr = True, -1.0, -1.0
        self.highest_mrr = max(self.highest_mrr, mrr)
        gets_sparser = self.is_sparse and not self.is_settled
        if mrr <= self.best_mrr and not (gets_sparser and mrr >= KEPT * self.highest_mrr):
            self.waited += 0 if self.is_still_dense else epochs
            return False
        self.best_mrr, self.best_epoch, self.waited = mrr, epoch, 0
        return True

    def counts(self, density: float) -> bool:
        """Whether an epoch with this core density can be the best."""
        if self._awaits_sparsity:
            return density <= SPARSE or not self.is_sparse
        return self.max_density is None or density <= self.max_density

    def ended(self, epoch: int, density: float) -> bool:
        """Take note of an epoch where nothing can be validated: the last one that counts is the
        best; says whether this one does."""
        is_best = self.counts(density)
        if is_best:
            self.best_epoch = epoch
            self.is_sparse |= self._awaits_sparsity and density <= SPARSE
        return is_best

    @property
    def is_still_dense(self) -> bool:
        """Whether a sparse core was waited for in vain."""
        return self._awaits_sparsity and not self.is_sparse

    @property
    def _awaits_sparsity(self) -> bool:
        return self.gets_sparse and self.max_density is None

    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """The best so far, how long ago that was, and how far the core is."""
        return {name: kind(getattr(self, name)) for name, kind in _STATE.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; what an earlier version did not write stays as it is."""
        for name in _STATE.keys() & state.keys():
            setattr(self, name, _STATE[name](state[name]))


_STATE = {
    "best_mrr": float,
    "best_epoch": int,
    "waited": int,
    "is_sparse": bool,
    "is_settled": bool,
    "highest_mrr": float,
    "last_density": float,
}
