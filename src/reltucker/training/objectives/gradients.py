"""What a step hands to the optimiser: the gradients of all parameters, by name."""

from dataclasses import dataclass

import torch
from torch import Tensor

from reltucker.kernels import Entries, add_rows
from reltucker.peers import Peers


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


def add_up(gradients: Gradients, parameters: dict[str, Tensor], peers: Peers) -> None:
    """Sum over all processes the gradients of what each of them has a copy of, as one message; that
    of E is of the rows that a process holds."""
    if peers.size == 1:
        return
    names = [name for name in gradients if name != "E"]
    parts = [dense(gradients[name], parameters[name]) for name in names]
    total = peers.total(torch.cat([part.flatten() for part in parts]))
    sizes = [part.numel() for part in parts]
    for name, part in zip(names, torch.split(total, sizes), strict=True):
        gradients[name] = part.view(parameters[name].shape)
