"""Which entities may be answers: those of a list, with known facts, or at that place in train."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import NameNotFoundError, ReltuckerError
from reltucker.graph import Direction, KnowledgeGraph
from reltucker.serving.naming import find_id

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Limits:
    """What a candidate must be, beside an entity of train.

    entities : ids in ascending order, or None for all
    in_range : whether it must be where it is asked for in a training triple of the relation
    """

    entities: Ids | None = None
    in_range: bool = False

    def candidates(self, graph: KnowledgeGraph, direction: Direction) -> Ids:
        """The candidates of every question of a direction, ascending."""
        if direction == "relation":
            if self.entities is not None or self.in_range:
                raise ReltuckerError(
                    "candidates can be limited where an entity is asked for, not for a relation; "
                    "leave in_range, among and where out"
                )
            return np.arange(graph.seen_relations)
        return np.arange(graph.seen_entities) if self.entities is None else self.entities

    def outside(
        self, graph: KnowledgeGraph, direction: Direction, relations: Ids, candidates: Ids
    ) -> npt.NDArray[np.bool_]:
        """Which of the candidates (n,) are out of range, for each of the relations: (U, n)."""
        outside = np.ones((len(relations), len(candidates)), dtype=bool)
        for row, relation in zip(outside, relations, strict=True):
            places, found = located(candidates, graph.occurring(relation, direction))
            row[places[found]] = False
        return outside


def limits_of(
    graph: KnowledgeGraph,
    *,
    in_range: bool = False,
    among: Sequence[str] | None = None,
    where: Sequence[str] = (),
    held_out: bool = False,
) -> Limits:
    """Limits from names or labels.

    `among` lists candidates; `where` has conditions 'relation=object', all of which a candidate x
    meets when (x, relation, object) is a fact of the graph. With `held_out`, facts of the test
    split do not count.
    """
    entities = None if among is None else _listed(graph, among)
    for condition in where:
        those = _with_fact(graph, condition, held_out)
        entities = those if entities is None else np.intersect1d(entities, those)
    return Limits(entities, in_range)


def located(ascending: Ids, wanted: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Where each of the wanted ids stands, and whether it does."""
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, ascending[places] == wanted


def _listed(graph: KnowledgeGraph, names: Sequence[str]) -> Ids:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ReltuckerError("among: give a list of names")
    if not len(names):
        raise ReltuckerError("among: the list of candidates is empty; name at least one entity")
    ids = graph.entities.locate(pl.Series(names, dtype=pl.String))
    for number in np.flatnonzero((ids < 0) | (ids >= graph.seen_entities)).tolist():
        try:
            find_id(graph, "object", names[number])
        except NameNotFoundError as error:
            raise NameNotFoundError(f"among, name {number + 1}: {error}") from None
    return np.unique(ids)


def _with_fact(graph: KnowledgeGraph, condition: str, held_out: bool) -> Ids:
    """The entities of train with a known fact 'relation=object'."""
    relation, object_ = _parsed(graph, condition)
    index = graph.answers("subject")
    facts = index.rows(index.key(np.array([object_]), np.array([relation])))
    counted = (facts.answers < graph.seen_entities) & ((facts.splits < 2) | (not held_out))
    if not counted.any():
        raise ReltuckerError(
            f"where {condition[:200]!r}: no entity has this fact, so there is no candidate"
        )
    return facts.answers[counted]


def _parsed(graph: KnowledgeGraph, condition: str) -> tuple[int, int]:
    """The ids of 'relation=object'. Names may hold '=' too: the longest relation that fits."""
    if not isinstance(condition, str) or "=" not in condition:
        raise ReltuckerError(f"where {str(condition)[:200]!r}: write it as 'relation=object'")
    relations = {*graph.relations.names, *graph.relations.shown}
    fitting = [name for name in relations if condition.startswith(f"{name}=")]
    if not fitting:
        fitting = [condition.partition("=")[0]]
    failure = None
    for name in sorted(fitting, key=len, reverse=True):
        try:
            relation = graph.relations.find(name)
            return relation, graph.entities.find(condition[len(name) + 1 :])
        except NameNotFoundError as error:
            failure = error
    raise NameNotFoundError(f"where {condition[:200]!r}: {failure}")
