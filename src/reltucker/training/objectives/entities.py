"""The rows of E that a step works with, and where their gradient goes."""

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

COMPACT_ABOVE = 3.0
"""How many times more entities than a step touches there must be for compact steps to pay."""


@dataclass(frozen=True, eq=False)
class EntityRows:
    """The entities of one step after dropout: all of them, or the ones that it touches.

    matrix : (n, d) their rows; `ids` says which entities they are, None for all in order
    """

    matrix: Tensor
    ids: Tensor | None
    dropout: Dropout
    gradient: Tensor
    """Where its gradient goes, a row for each."""

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

    def returned(self) -> Gradient:
        """The gradient of E, now that it is complete."""
        return self.gradient if self.ids is None else RowGradient(self.ids, self.gradient)

    def written_out(self, gradient: Gradient) -> Gradient:
        """The same gradient of E with its sums in `gradient`, so that more can be added."""
        if isinstance(gradient, Entries):
            gradient.dense(self.gradient)
        return self.returned()


class EntityTable:
    """E as the steps of a training run see it; the buffers live as long as the run.

    One mask serves an entity for a whole step: every occurrence of it is dropped alike, so that
    the mask is applied to E once instead of to each of dozens of rows a triple.
    """

    def __init__(self, parameter: nn.Parameter, compact: bool, drops: bool) -> None:
        self.parameter = parameter
        self.compact = compact and has_loops(parameter)
        if self.compact:
            self._marks = torch.full((len(parameter),), -1, dtype=torch.int32)
        else:
            # Buffers for the whole run: fresh memory in every step would fault page by page.
            self._gradient = torch.zeros_like(parameter.detach())
            self._dropped = torch.empty_like(parameter.detach() if drops else parameter[:0])
            use_huge_pages(self._gradient, self._dropped)

    def open(self, dropout: Dropout, *ids: Tensor) -> tuple[EntityRows, list[Tensor]]:
        """The rows of a step that touches these entities, and the places of `ids` in it."""
        entities = self.parameter.detach()
        if not self.compact:
            if dropout.rate > 0.0:
                entities = apply_dropout(entities, dropout, self._dropped)
            return EntityRows(entities, None, dropout, self._gradient), list(ids)
        distinct, places = number_rows(self._marks, torch.cat([i.flatten() for i in ids]))
        matrix = gather_dropped(entities, distinct, dropout)
        parts = torch.split(places, [i.numel() for i in ids])
        shaped = [part.view(i.shape) for part, i in zip(parts, ids, strict=True)]
        return EntityRows(matrix, distinct, dropout, torch.empty_like(matrix)), shaped
