"""A model is judged: ranking, protocols, metrics, break-downs."""

from reltucker.evaluation.breakdown import Breakdown, break_down
from reltucker.evaluation.metrics import Metrics
from reltucker.evaluation.protocols import PROTOCOLS, Protocol
from reltucker.evaluation.ranking import (
    ENTITY_DIRECTIONS,
    Ranking,
    rank_split,
    rank_weighted_sums,
    sampled,
)

__all__ = [
    "ENTITY_DIRECTIONS",
    "PROTOCOLS",
    "Breakdown",
    "Metrics",
    "Protocol",
    "Ranking",
    "break_down",
    "rank_split",
    "rank_weighted_sums",
    "sampled",
]
