"""The questions of a batch, arranged so that each mixing matrix M_k is built and read once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from reltucker.kernels import arrange


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Q questions, each of which gives an entity and a relation and asks for the other entity:
    first those that ask for objects, then those that ask for subjects, either part by relation.

    order     : (Q,) the permutation that brings the caller's questions into this order
    relations : (U,) the distinct rows of R that they need
    index     : (Q,) the place of each question's row among them
    starts    : (2, U + 1) where the questions of each row begin, in either part
    objects   : how many questions ask for objects
    """

    order: Tensor
    relations: Tensor
    index: Tensor
    starts: Tensor
    objects: int

    @classmethod
    def of(cls, rows: Tensor, asks_subject: Tensor, count: int) -> "Arrangement":
        """Questions with these rows of R (Q,), of `count`, asking for subjects or for objects."""
        order, relations, index, starts = arrange(rows, asks_subject, count)
        return cls(order, relations, index, starts, int(starts[1, 0]))

    def part(self, questions: Tensor) -> "tuple[Arrangement, Tensor]":
        """Some of the questions, by their ascending numbers; with them the numbers of the relations
        that they need among those of all."""
        needed, index = torch.unique(self.index[questions], return_inverse=True)
        objects = int((questions < self.objects).sum())
        parts = (index[:objects], index[objects:])
        sizes = torch.stack([torch.bincount(part, minlength=len(needed)) for part in parts])
        starts = torch.nn.functional.pad(torch.cumsum(sizes, 1), (1, 0))
        starts[1] += objects
        order = self.order[questions]
        return Arrangement(order, self.relations[needed], index, starts, objects), needed

    def undone(self, ordered: Tensor) -> Tensor:
        """What stands in this order (Q, ...), in the caller's."""
        restored = torch.empty_like(ordered)
        restored[self.order] = ordered
        return restored

    def repeated_starts(self, times: int) -> Tensor:
        """`starts` where the same questions are asked of so many lists of U matrices: either part
        holds all of its questions for the first list, then all for the second, and so on."""
        sizes = (self.starts[:, 1:] - self.starts[:, :-1]).repeat(1, times)  # (2, times U)
        starts = torch.nn.functional.pad(torch.cumsum(sizes, 1), (1, 0))
        starts[1] += starts[0, -1].clone()
        return starts
