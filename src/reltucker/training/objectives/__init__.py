"""What is minimised: objectives, their batches and regularisers.

An objective, or a regulariser, is a class in a file of its own and a line in its registry.
"""

from reltucker.training.objectives.all_entities import KvsAll, OneVsAll
from reltucker.training.objectives.gradients import Gradients, RowGradient, add_up, dense
from reltucker.training.objectives.objective import Objective
from reltucker.training.objectives.regularizers import REGULARIZERS
from reltucker.training.objectives.sampled import NegativeSampling

OBJECTIVES: dict[str, type[Objective]] = {
    "negative_sampling": NegativeSampling,
    "one_vs_all": OneVsAll,
    "k_vs_all": KvsAll,
}
"""Every objective by the name that recipes use."""

__all__ = [
    "OBJECTIVES",
    "REGULARIZERS",
    "Gradients",
    "Objective",
    "RowGradient",
    "add_up",
    "dense",
]
