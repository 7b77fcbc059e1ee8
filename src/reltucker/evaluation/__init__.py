"""A model is judged: ranking, protocols, metrics, break-downs, calibration, classification."""

from reltucker.evaluation.breakdown import Breakdown, break_down
from reltucker.evaluation.calibration import CALIBRATION, Calibration, add_calibration, calibrate
from reltucker.evaluation.classification import Classification, classify_triples
from reltucker.evaluation.judging import Evaluation, evaluate
from reltucker.evaluation.metrics import Metrics
from reltucker.evaluation.plausibility import plausibilities
from reltucker.evaluation.protocols import FULL_FILTER, PROTOCOLS, Protocol
from reltucker.evaluation.ranking import (
    ENTITY_DIRECTIONS,
    Ranking,
    fully_filtered,
    rank_split,
    rank_weighted_sums,
    sampled,
)

__all__ = [
    "CALIBRATION",
    "ENTITY_DIRECTIONS",
    "FULL_FILTER",
    "PROTOCOLS",
    "Breakdown",
    "Calibration",
    "Classification",
    "Evaluation",
    "Metrics",
    "Protocol",
    "Ranking",
    "add_calibration",
    "break_down",
    "calibrate",
    "classify_triples",
    "evaluate",
    "fully_filtered",
    "plausibilities",
    "rank_split",
    "rank_weighted_sums",
    "sampled",
]
