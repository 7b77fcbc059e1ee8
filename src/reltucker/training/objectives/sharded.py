"""The rows of E that a step works with, where several processes hold them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reltucker.kernels import Dropout, add_rows, apply_dropout
from reltucker.peers import Peers, Route
from reltucker.training.objectives.entities import EntityRows, EntityTable, Held, summed
from reltucker.training.objectives.gradients import Gradient, RowGradient


@dataclass(frozen=True, eq=False)
class FetchedRows(EntityRows):
    """Rows that a step needs, from whoever holds them, after dropout; their gradient goes back.

    route : the way to their owners and back
    shard : what this process holds
    """

    route: Route
    shard: EntityShard

    def scored(self) -> tuple[Tensor, Tensor, int]:
        """The rows that this process holds."""
        return self.shard.dropped, self.shard.gradient, self.shard.first

    def returned(self) -> Gradient:
        """The gradient of the rows that this process holds, with what the others give for them."""
        return self.shard.complete(self.route.asked, self.route.give(self.gradient))

    def held(
        self, gradient: Gradient, E: Tensor, places: Tensor, weights: Tensor, held: Held
    ) -> Gradient:
        """Weights go to the owners of the rows, who add the gradient."""
        total = weights.new_zeros(len(self.matrix)).index_add_(0, places, weights)
        asked, weights = self.route.asked, self.route.give(total.unsqueeze(1)).squeeze(1)
        distinct, total = summed(asked, weights)
        added = held(E[distinct], total)
        if isinstance(gradient, RowGradient):  # of just these rows
            gradient.values.add_(added)
        else:
            add_rows(self.shard.gradient, distinct, added)
        return gradient


@dataclass(eq=False)
class EntityShard:
    """The rows of E that this process holds, in one step.

    first    : the id of the first
    dropout  : the mask on them
    dropped  : (n, d) the rows after dropout
    gradient : (n, d) where their gradient goes, of steps that move all of them; else empty
    """

    first: int
    dropout: Dropout
    dropped: Tensor
    gradient: Tensor

    def complete(self, asked: Tensor, values: Tensor) -> Gradient:
        """The gradient of these rows, to which values (r, d) are added for `asked` (r,)."""
        if len(self.gradient):
            add_rows(self.gradient, asked, values)
            if self.dropout.rate > 0.0:
                apply_dropout(self.gradient, self.dropout, self.gradient)
            return self.gradient
        distinct, places = torch.unique(asked, return_inverse=True)
        total = add_rows(values.new_zeros(len(distinct), values.shape[1]), places, values)
        if self.dropout.rate > 0.0:
            apply_dropout(total, self._of(distinct), total)
        return RowGradient(distinct, total)

    def rows(self, asked: Tensor) -> Tensor:
        """Some of the rows after dropout."""
        rows = self.dropped.index_select(0, asked)
        if self.dropout.rate > 0.0 and not len(self.gradient):  # where only these are masked
            apply_dropout(rows, self._of(asked), rows)
        return rows

    def _of(self, places: Tensor) -> Dropout:
        return self.dropout.of_rows(self.first + places, self.dropout.count)


class ShardedTable(EntityTable):
    """E as the steps of several processes see it: each asks the owners for the rows it needs."""

    def __init__(self, parameter: nn.Parameter, compact: bool, peers: Peers, count: int) -> None:
        """`compact`: steps touch few of many rows, and leave alone the others; there are `count`
        rows in all."""
        super().__init__(parameter, compact=False, by_rows=False)
        self.compact = compact
        self.peers = peers
        self.count = count
        held = peers.span(count)
        self.first = held.start
        self._held = torch.arange(held.start, held.stop, device=parameter.device)

    def open(self, dropout: Dropout, *ids: Tensor) -> tuple[EntityRows, list[Tensor]]:
        """The rows of these entities, after dropout, and the places of `ids` in them."""
        wanted = torch.cat([i.flatten() for i in ids])
        distinct, places = torch.unique(wanted, return_inverse=True)
        route = self.peers.route(distinct, self.count)
        held, mask = self.parameter.detach(), dropout.of_rows(self._held, self.count)
        if self.compact:
            shard = EntityShard(self.first, mask, held, held[:0])
        else:
            if dropout.rate > 0.0:
                held = apply_dropout(held, mask, self._buffer("dropped"))
            shard = EntityShard(self.first, mask, held, self._buffer("gradient").zero_())
        matrix = route.fetch(shard.rows(route.asked))
        parts = torch.split(places, [i.numel() for i in ids])
        shaped = [part.view(i.shape) for part, i in zip(parts, ids, strict=True)]
        none = Dropout.none()
        rows = FetchedRows(matrix, distinct, torch.zeros_like(matrix), none, none, route, shard)
        return rows, shaped
