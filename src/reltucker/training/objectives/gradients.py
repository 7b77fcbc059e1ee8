"""What a step hands to the optimiser: the gradients of all parameters, by name."""

from dataclasses import dataclass

from torch import Tensor

from reltucker.kernels import Entries, add_rows


@dataclass(frozen=True, eq=False)
class RowGradient:
    """The gradient of a matrix, zero but for some rows: distinct ids (n,), values (n, d)."""

    ids: Tensor
    values: Tensor


Gradient = Tensor | RowGradient | Entries
"""Whole, by rows, or for a whole matrix what is to be added to each row."""

Gradients = dict[str, Gradient]


def dense(gradient: Gradient, like: Tensor) -> Tensor:
    """A gradient written out, with the shape of its parameter."""
    if isinstance(gradient, RowGradient):
        return add_rows(like.new_zeros(like.shape), gradient.ids, gradient.values)
    if isinstance(gradient, Entries):
        return gradient.dense(like.new_empty(like.shape))
    return gradient
