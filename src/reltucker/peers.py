"""The processes that train or rank together. Each holds a share of the rows of E, and all of R and
of the core; whoever computes with rows asks these questions, and alone the answers are at hand.

What is split is split evenly, in order: of n things, process p of P has those from n p / P on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from reltucker.errors import ReltuckerError, RunError


class Route(ABC):
    """Rows of E that this process needs, by distinct ids (m,), and those of its own that others
    need.

    asked : (r,) places in this process's share of the rows that are asked for, by any of them
    """

    asked: Tensor

    @abstractmethod
    def fetch(self, rows: Tensor) -> Tensor:
        """The rows of `asked` (r, d) go to who asked; returns those of the own ids (m, d)."""

    @abstractmethod
    def give(self, values: Tensor) -> Tensor:
        """Values for the own ids (m, d) go to their owners; returns those for `asked` (r, d)."""


class Peers:
    """A process alone."""

    rank = 0
    size = 1
    here = 1
    """How many of them are on this machine."""

    def span(self, count: int, rank: int | None = None) -> slice:
        """The share of `count` things that this process, or another one, has."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.size, count * (rank + 1) // self.size)

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        return x

    def joined(self, part: Tensor, sizes: Sequence[int]) -> Tensor:
        """The parts (n, ...) of all processes, which have these sizes, one below the other."""
        return part

    def route(self, ids: Tensor, count: int) -> Route:
        """To the rows with these ids of a matrix that has `count`."""
        raise NotImplementedError("a process alone has all rows")

    def agreed(self, value: Any) -> Any:
        """The value that the first process has."""
        return value

    def first(self, work: Callable[[], None]) -> None:
        """Let the first process do something before the others go on; where it cannot be done, all
        of them say so."""
        problem = None
        if self.rank == 0:
            try:
                work()
            except ReltuckerError as error:
                if self.size == 1:
                    raise
                problem = str(error)
        if (problem := self.agreed(problem)) is not None:
            raise RunError(problem)

    def wait(self) -> None:
        """Until all processes are here."""

    def best(self, scores: Tensor, ids: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """The `top` largest in each row of the scores (b, n) of all processes, largest first, and
        their ids (b, top); each has some columns, with these ids (n,). Where there are fewer, the
        rest is -inf."""
        values, places = torch.topk(scores, min(top, scores.shape[1]), dim=1)
        found = ids[places]
        if self.size == 1:
            return values, found
        missing = (0, top - values.shape[1])
        values = self._beside(torch.nn.functional.pad(values, missing, value=-torch.inf))
        found = self._beside(torch.nn.functional.pad(found, missing))
        values, places = torch.topk(values, top, dim=1)
        return values, found.gather(1, places)

    def _beside(self, part: Tensor) -> Tensor:
        """The parts (b, n) of all processes as (b, size n)."""
        parts = self.joined(part, [len(part)] * self.size)
        return parts.view(self.size, *part.shape).transpose(0, 1).flatten(1)

    def rows(self, matrix: Tensor, ids: Tensor, count: int) -> Tensor:
        """Rows (n, d) with any ids (n,) of a matrix with `count` rows, of which this is the share
        of this process."""
        if self.size == 1:
            return matrix.index_select(0, ids)
        distinct, places = torch.unique(ids, return_inverse=True)
        route = self.route(distinct, count)
        return route.fetch(matrix.index_select(0, route.asked))[places]


ALONE = Peers()
