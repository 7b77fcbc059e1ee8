"""Which questions a training step asks, arranged so that each M_k is built once.

A question gives an entity and a relation and asks for the entity on the other side. Each kind of
arrangement says which rows of R it needs and how the compact mixing matrices of those rows become
queries. `order` brings the caller's questions into the order in which the queries come.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from reltucker.kernels import Dropout
from reltucker.model.cores import Core
from reltucker.model.dropout import dropped
from reltucker.model.groups import RelationGroups


class Questions(Protocol):
    """An arrangement of questions.

    order     : (Q,) the permutation of the caller's questions
    relations : (U,) the distinct rows of R that they need
    """

    @property
    def order(self) -> Tensor: ...

    @property
    def relations(self) -> Tensor: ...

    def queries(self, core: Core, mixing: Tensor, given: Tensor, dropout: Dropout) -> Tensor:
        """Compact M_k of `relations` and the given entities' rows, in the order of `order`, to
        queries, differentiable, with dropout on the compact form."""


@dataclass(frozen=True)
class OneWay:
    """All questions ask for objects; with reciprocal relations, that is all there is."""

    groups: RelationGroups

    @classmethod
    def of(cls, rows: Tensor) -> "OneWay":
        """Questions with the given rows of R (Q,)."""
        return cls(RelationGroups.of(rows))

    @property
    def order(self) -> Tensor:
        """By relation."""
        return self.groups.order

    @property
    def relations(self) -> Tensor:
        """One for each group."""
        return self.groups.relations

    def queries(self, core: Core, mixing: Tensor, given: Tensor, dropout: Dropout) -> Tensor:
        """e_i^T M_k."""
        return core.object_queries(mixing, given, self.groups, dropout)


@dataclass(frozen=True)
class BothWays:
    """The two questions of B triples: first those for objects, then those for subjects, in the
    same order of triples, so that one pass over M_k serves both."""

    groups: RelationGroups

    @classmethod
    def of(cls, relations: Tensor) -> "BothWays":
        """Triples with the given relations (B,)."""
        return cls(RelationGroups.of(relations))

    @property
    def order(self) -> Tensor:
        """By relation, for either half."""
        order = self.groups.order
        return torch.cat([order, order + len(order)])

    @property
    def relations(self) -> Tensor:
        """One for each group."""
        return self.groups.relations

    def queries(self, core: Core, mixing: Tensor, given: Tensor, dropout: Dropout) -> Tensor:
        """e_i^T M_k, then M_k e_j."""
        subjects, objects = given.chunk(2)
        return torch.cat(core.queries(mixing, subjects, objects, self.groups, dropout))


@dataclass(frozen=True)
class Separate:
    """Questions for objects and questions for subjects that have nothing to do with each other,
    but share the mixing matrices: first the former, then the latter."""

    order: Tensor
    relations: Tensor
    for_objects: RelationGroups
    for_subjects: RelationGroups

    @classmethod
    def of(cls, relations: Tensor, asks_subject: Tensor) -> "Separate":
        """Questions with the given relations; `asks_subject` (Q,) says which way they ask."""
        distinct, place = torch.unique(relations, return_inverse=True)
        objects = torch.nonzero(~asks_subject).squeeze(1)
        subjects = torch.nonzero(asks_subject).squeeze(1)
        for_objects = RelationGroups.of(place[objects])
        for_subjects = RelationGroups.of(place[subjects])
        order = torch.cat([objects[for_objects.order], subjects[for_subjects.order]])
        return cls(order, distinct, for_objects, for_subjects)

    def queries(self, core: Core, mixing: Tensor, given: Tensor, dropout: Dropout) -> Tensor:
        """e_i^T M_k, then M_k e_j."""
        mixing = dropped(mixing, dropout)
        former, latter = self.for_objects, self.for_subjects
        subjects, objects = torch.split(given, [len(former.order), len(latter.order)])
        # The relations of either group are places among the distinct ones. A batch may ask one way
        # only, and not every operation takes an empty part.
        parts = []
        if len(subjects):
            chosen = mixing[former.relations]
            parts.append(core.object_queries(chosen, subjects, former, Dropout.none()))
        if len(objects):
            parts.append(core.subject_queries(mixing[latter.relations], objects, latter))
        return torch.cat(parts)
