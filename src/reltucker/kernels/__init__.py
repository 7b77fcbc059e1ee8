"""The inner loops that torch has no single pass for.

Each is one function over tensors. On the CPU a loop compiled by numba runs it without temporaries;
on other devices, and as the reference in tests, plain torch operations compute the same.
"""

from reltucker.kernels.compiled import has_loops
from reltucker.kernels.dropout import Dropout, apply_dropout, gather_dropped, mask_rows
from reltucker.kernels.gates import gated_backward, gated_forward
from reltucker.kernels.grouped import arrange, grouped_outer_products, grouped_products
from reltucker.kernels.losses import (
    Loss,
    RowSums,
    Targets,
    add_to_sums,
    binary_gradient,
    shared_softmax,
    softmax_gradient,
)
from reltucker.kernels.negatives import draw_candidates
from reltucker.kernels.patterns import contract
from reltucker.kernels.products import (
    Precision,
    gradients_into,
    new_scores,
    padded,
    score_rows,
    scores_into,
)
from reltucker.kernels.ranking import count_above, count_reference, rank_by_counting, ranks_of
from reltucker.kernels.rows import adagrad_rows, add_rows, number_rows
from reltucker.kernels.sampled import Entries, sampled_softmax, scatter_gradient
from reltucker.kernels.sparse import sparse_mixing_backward, sparse_mixing_forward

__all__ = [
    "Dropout",
    "Entries",
    "Loss",
    "Precision",
    "RowSums",
    "Targets",
    "adagrad_rows",
    "add_rows",
    "add_to_sums",
    "apply_dropout",
    "arrange",
    "binary_gradient",
    "contract",
    "count_above",
    "count_reference",
    "draw_candidates",
    "gated_backward",
    "gated_forward",
    "gather_dropped",
    "gradients_into",
    "grouped_outer_products",
    "grouped_products",
    "has_loops",
    "mask_rows",
    "new_scores",
    "number_rows",
    "padded",
    "rank_by_counting",
    "ranks_of",
    "sampled_softmax",
    "scatter_gradient",
    "score_rows",
    "scores_into",
    "shared_softmax",
    "softmax_gradient",
    "sparse_mixing_backward",
    "sparse_mixing_forward",
]
