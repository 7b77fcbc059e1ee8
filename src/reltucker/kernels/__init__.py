"""The inner loops that torch has no single pass for.

Each is one function over tensors. On the CPU a loop compiled by numba runs it without temporaries;
on other devices, and as the reference in tests, plain torch operations compute the same.
"""

from reltucker.kernels.all_entities import Loss, all_entities_loss
from reltucker.kernels.compiled import has_loops
from reltucker.kernels.dropout import Dropout, apply_dropout
from reltucker.kernels.gates import HardConcrete, gated_backward, gated_forward
from reltucker.kernels.grouped import grouped_queries_backward, grouped_queries_forward
from reltucker.kernels.negatives import draw_candidates
from reltucker.kernels.ranking import rank_by_counting, rank_reference
from reltucker.kernels.rows import (
    adagrad_rows,
    add_rows,
    gather_dropped,
    mask_rows,
    number_rows,
)
from reltucker.kernels.sampled import sampled_softmax, scatter_gradient, shared_softmax

__all__ = [
    "Dropout",
    "HardConcrete",
    "Loss",
    "adagrad_rows",
    "add_rows",
    "all_entities_loss",
    "apply_dropout",
    "draw_candidates",
    "gated_backward",
    "gated_forward",
    "gather_dropped",
    "grouped_queries_backward",
    "grouped_queries_forward",
    "has_loops",
    "mask_rows",
    "number_rows",
    "rank_by_counting",
    "rank_reference",
    "sampled_softmax",
    "scatter_gradient",
    "shared_softmax",
]
