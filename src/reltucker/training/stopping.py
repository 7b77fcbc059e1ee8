"""Early stopping on the validation MRR."""

from dataclasses import dataclass
from typing import Any


@dataclass
class EarlyStopping:
    """Stops when `patience` epochs in a row brought no better validation MRR.

    With `max_density`, for a core that is wanted sparse, epochs with a denser core count for
    nothing: they are neither the best nor a reason to stop.
    """

    patience: int
    max_density: float | None = None
    best_mrr: float = -1.0
    best_epoch: int = 0
    waited: int = 0

    def improved(self, epoch: int, mrr: float, density: float, epochs: int = 1) -> bool:
        """Take note of a validated epoch, `epochs` after the one before; says whether it is the
        best so far."""
        if not self.is_sparse_enough(density):
            return False
        if mrr <= self.best_mrr:
            self.waited += epochs
            return False
        self.best_mrr, self.best_epoch, self.waited = mrr, epoch, 0
        return True

    def is_sparse_enough(self, density: float) -> bool:
        """Whether an epoch with this core density counts."""
        return self.max_density is None or density <= self.max_density

    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """The best so far, and how long ago that was."""
        return {
            "best_mrr": self.best_mrr,
            "best_epoch": self.best_epoch,
            "waited": self.waited,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.best_mrr, self.best_epoch = float(state["best_mrr"]), int(state["best_epoch"])
        self.waited = int(state["waited"])
