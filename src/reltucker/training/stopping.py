"""Early stopping on the validation MRR."""

from dataclasses import dataclass


@dataclass
class EarlyStopping:
    """Stops when `patience` epochs in a row brought no better validation MRR."""

    patience: int
    best_mrr: float = -1.0
    best_epoch: int = 0

    def improved(self, epoch: int, mrr: float) -> bool:
        """Take note of an epoch's MRR; says whether it is the best so far."""
        if mrr <= self.best_mrr:
            return False
        self.best_mrr, self.best_epoch = mrr, epoch
        return True

    def should_stop(self, epoch: int) -> bool:
        """Whether the patience is used up after this epoch."""
        return epoch - self.best_epoch >= self.patience
