"""The rows of E that a step works with, and where their gradient goes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reltucker.kernels import (
    Dropout,
    Entries,
    add_rows,
    apply_dropout,
    gather_dropped,
    has_loops,
    mask_rows,
    number_rows,
)
from reltucker.training.memory import use_huge_pages
from reltucker.training.objectives.gradients import Gradient, RowGradient

Held = Callable[[Tensor, Tensor], Tensor]
"""Rows of E (n, d) and their weights (n,) to the gradient of a regulariser for the rows."""

COMPACT_ABOVE = 3.0
"""How many times more entities than a step touches there must be for compact steps to pay."""


@dataclass(frozen=True, eq=False)
class EntityRows:
    """The entities of one step: all of them, or the ones that it touches.

    matrix   : (n, d) their rows; `ids` says which entities they are, None for all in order
    gradient : (n, d) where their gradient goes
    dropout  : the mask on the rows of E
    pending  : the part of it that is not yet applied to `matrix`: all or nothing
    """

    matrix: Tensor
    ids: Tensor | None
    gradient: Tensor
    dropout: Dropout
    pending: Dropout

    def rows(self, places: Tensor) -> Tensor:
        """Single rows after dropout (m, d)."""
        if self.pending.rate > 0.0:
            return gather_dropped(self.matrix, places, self.pending)
        return self.matrix.index_select(0, places)

    def add(self, places: Tensor, rows: Tensor) -> None:
        """Add rows to the gradient, before the mask."""
        add_rows(self.gradient, places, rows)

    def mask_gradient(self) -> None:
        """Let the gradient pass through the dropout."""
        if self.dropout.rate == 0.0:
            return
        if self.ids is None:
            apply_dropout(self.gradient, self.dropout, self.gradient)
        else:
            mask_rows(self.gradient, self.ids, self.dropout)

    def scored(self) -> tuple[Tensor, Tensor, int]:
        """For scores over all entities: the rows of them that this process scores (n, d), where
        their gradient goes, and the id of the first."""
        return self.matrix, self.gradient, 0

    def returned(self) -> Gradient:
        """The gradient of E, now that it is complete."""
        return self.gradient if self.ids is None else RowGradient(self.ids, self.gradient)

    def held(
        self, gradient: Gradient, E: Tensor, places: Tensor, weights: Tensor, held: Held
    ) -> Gradient:
        """The gradient of E with that of a regulariser, for rows of E with these weights."""
        gradient = self.written_out(gradient)
        distinct, total = summed(places, weights)
        ids = distinct if self.ids is None else self.ids[distinct]
        self.add(distinct, held(E[ids], total))
        return gradient

    def written_out(self, gradient: Gradient) -> Gradient:
        """The same gradient of E with its sums in `gradient`, so that more can be added."""
        if isinstance(gradient, Entries):
            gradient.dense(self.gradient)
        return self.returned()


class EntityTable:
    """E as the steps of a training run see it; the buffers live as long as the run.

    One mask serves an entity for a whole step: every occurrence of it is dropped alike.
    """

    def __init__(self, parameter: nn.Parameter, compact: bool, by_rows: bool) -> None:
        """`compact`: steps touch few of many rows; `by_rows`: they take single ones of all."""
        self.parameter = parameter
        self.compact = compact and has_loops(parameter)
        self.by_rows = by_rows and has_loops(parameter)
        self._marks = torch.full((len(parameter) if compact else 0,), -1, dtype=torch.int32)
        self._buffers: dict[str, Tensor] = {}

    def _buffer(self, name: str) -> Tensor:
        """Memory for the whole run: fresh one in every step would fault page by page."""
        if name not in self._buffers:
            self._buffers[name] = torch.zeros_like(self.parameter.detach())
            use_huge_pages(self._buffers[name])
        return self._buffers[name]

    def open(self, dropout: Dropout, *ids: Tensor) -> tuple[EntityRows, list[Tensor]]:
        """The rows of a step that touches these entities, and the places of `ids` in it."""
        entities, done = self.parameter.detach(), Dropout.none()
        if not self.compact:
            pending = dropout if self.by_rows else done
            if dropout.rate > 0.0 and not self.by_rows:
                entities = apply_dropout(entities, dropout, self._buffer("dropped"))
            gradient = self._buffer("gradient")
            return EntityRows(entities, None, gradient, dropout, pending), list(ids)
        distinct, places = number_rows(self._marks, torch.cat([i.flatten() for i in ids]))
        matrix = gather_dropped(entities, distinct, dropout)
        parts = torch.split(places, [i.numel() for i in ids])
        shaped = [part.view(i.shape) for part, i in zip(parts, ids, strict=True)]
        return EntityRows(matrix, distinct, torch.empty_like(matrix), dropout, done), shaped


def summed(places: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct places, and the sum of the weights of each."""
    distinct, inverse = torch.unique(places, return_inverse=True)
    return distinct, weights.new_zeros(len(distinct)).index_add_(0, inverse, weights)
