"""A graph becomes E, R, G: the one model, its cores, their sizes and views."""

from reltucker.model.arrangement import Arrangement
from reltucker.model.cores import CORES, Core, CoreOptions
from reltucker.model.dropout import QueryDropout
from reltucker.model.relational_tucker import RelationalTucker
from reltucker.model.sizes import SPARSE, Sizes, sizes_of
from reltucker.model.sums import weighted_sum
from reltucker.model.views import (
    as_rescal,
    constrained_core_view,
    explicit_core_view,
    fixed_core_view,
    from_tucker3,
    without_normalisation,
)

__all__ = [
    "CORES",
    "SPARSE",
    "Arrangement",
    "Core",
    "CoreOptions",
    "QueryDropout",
    "RelationalTucker",
    "Sizes",
    "as_rescal",
    "constrained_core_view",
    "explicit_core_view",
    "fixed_core_view",
    "from_tucker3",
    "sizes_of",
    "weighted_sum",
    "without_normalisation",
]
