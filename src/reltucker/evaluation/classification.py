"""Triple classification: true or not, by a threshold on the probability."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reltucker.errors import ReltuckerError
from reltucker.evaluation.calibration import Calibration, judged_of
from reltucker.evaluation.corruption import corrupt
from reltucker.evaluation.curves import Reliability
from reltucker.evaluation.plausibility import plausibilities
from reltucker.evaluation.ranking import sampled
from reltucker.graph import KnowledgeGraph, SplitName
from reltucker.model import RelationalTucker


@dataclass(frozen=True)
class Classification:
    """Figures of decisions about the split's triples, each asked both ways, and as many that were
    corrupted within the range of the relation; thresholds are the calibration's. The reliability
    is that of probabilities for these and all other corrupted triples, as in the calibration."""

    split: SplitName
    triples: int
    decisions: int
    accuracy: float
    precision: float
    recall: float
    f1: float
    roc_auc: float
    average_precision: float
    reliability: Reliability

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"reliability": self.reliability.model_dump(mode="json")}


def classify_triples(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    calibration: Calibration,
    split: SplitName = "test",
    *,
    sample: int | None = None,
) -> Classification:
    """Classify the triples of a split, or a sample of them, beside corrupted ones."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    triples = judged_of(graph, split)
    if sample is not None:
        triples = sampled(triples, sample)
    # Other draws than those that the thresholds were chosen with.
    judged = corrupt(model, graph, triples, seed=1)
    relations, pairs = judged.triples[:, 1], judged.is_pair
    is_true = judged.is_true[pairs]
    if is_true.all() or not is_true.any():
        raise ReltuckerError(
            f"split {split} has nothing to classify: there must be triples whose names are all in "
            "train, and corrupted ones that are no known facts"
        )
    probabilities = calibration.probabilities(plausibilities(model, judged.triples), relations)
    decided = (probabilities >= calibration.thresholds(relations))[pairs]
    hits, taken, true = (int(each.sum()) for each in (decided & is_true, decided, is_true))
    precision, recall = hits / max(1, taken), hits / true
    return Classification(
        split=split,
        triples=len(triples),
        decisions=len(is_true),
        accuracy=float(np.mean(decided == is_true)),
        precision=precision,
        recall=recall,
        f1=2 * hits / (taken + true),
        roc_auc=float(roc_auc_score(is_true, probabilities[pairs])),
        average_precision=float(average_precision_score(is_true, probabilities[pairs])),
        reliability=Reliability.of(probabilities, judged.is_true),
    )
