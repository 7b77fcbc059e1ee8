"""What a graph looks like before anything is fitted: sizes, unseen names, kinds, hints, degrees."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, Triples

KINDS = ("1-1", "1-N", "N-1", "N-N")
MANY = 1.5
"""From this average on, a side of a relation counts as "N" (Bordes et al., 2013)."""

HINT_SHARE = 0.8
HINT_TRIPLES = 5
"""A relation with fewer train triples gets no hint: its shares say little."""

MOST = 10
"""How many of the most frequent relations and most connected entities are listed."""

CHUNK = 1 << 22
"""How many pairs of triples are compared at a time; it bounds the memory, not the result."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RelationFigures:
    """One relation with its train triples, kind, and averages behind the kind."""

    relation: str
    label: str
    triples: int
    kind: str
    objects_per_subject: float
    subjects_per_object: float


@dataclass(frozen=True)
class SymmetryHint:
    """`share` of the relation's train triples (i, k, j), i != j, come with (j, k, i)."""

    relation: str
    share: float
    triples: int


@dataclass(frozen=True)
class PairHint:
    """`share` of the relation's train triples (i, k, j), i != j, come with one of `other`.

    That is (j, other, i) for an inverse, (i, other, j) for a contained relation.
    """

    relation: str
    other: str
    share: float
    triples: int


@dataclass(frozen=True)
class DegreeFigures:
    """In how many train triples an entity stands, over the entities of train."""

    min: int
    median: float
    mean: float
    percentile_99: float
    max: int


@dataclass(frozen=True)
class EntityDegree:
    """One entity and the number of its train triples."""

    entity: str
    label: str
    degree: int


@dataclass(frozen=True)
class GraphDescription:
    """The figures of a graph; "seen" means that all names also occur in train."""

    name: str
    entities: int
    seen_entities: int
    unseen_entities: int
    relations: int
    seen_relations: int
    unseen_relations: int
    triples: dict[str, int]
    seen_triples: dict[str, int]
    unseen_triples: dict[str, int]
    counts: dict[str, int]
    relation_kinds: dict[str, int]
    most_frequent_relations: list[RelationFigures]
    symmetric: list[SymmetryHint]
    inverse: list[PairHint]
    contained: list[PairHint]
    degree: DegreeFigures
    most_connected_entities: list[EntityDegree]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dictionaries, lists, strings and numbers, ready for JSON."""
        return asdict(self)


def describe_graph(graph: KnowledgeGraph) -> GraphDescription:
    """Count what is in the graph and hint at relations that repeat each other.

    A hint looks at the train triples of a relation and searches their counterparts in all splits:
    a test triple whose reverse is in train is known already, whoever reads a score should know.
    """
    per_subject, per_object = _averages(graph)
    kinds = _kinds(per_subject, per_object)
    triples = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    seen: dict[str, int] = {split: int(graph.is_seen(graph.split(split)).sum()) for split in SPLITS}
    symmetric, inverse, contained = _hints(graph)
    degree = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.seen_entities)
    frequent = [int(k) for k in _largest(triples)]
    return GraphDescription(
        name=graph.name,
        entities=len(graph.entities),
        seen_entities=graph.seen_entities,
        unseen_entities=len(graph.entities) - graph.seen_entities,
        relations=len(graph.relations),
        seen_relations=graph.seen_relations,
        unseen_relations=len(graph.relations) - graph.seen_relations,
        triples={split: len(graph.split(split)) for split in SPLITS},
        seen_triples=seen,
        unseen_triples={split: len(graph.split(split)) - seen[split] for split in SPLITS},
        counts=dict(graph.counts),
        relation_kinds={kind: kinds.count(kind) for kind in KINDS},
        most_frequent_relations=[
            RelationFigures(
                graph.relations.name(k),
                graph.relations.label(k),
                int(triples[k]),
                kinds[k],
                float(per_subject[k]),
                float(per_object[k]),
            )
            for k in frequent
        ],
        symmetric=symmetric,
        inverse=inverse,
        contained=contained,
        degree=_degree_figures(degree),
        most_connected_entities=[
            EntityDegree(graph.entities.name(i), graph.entities.label(i), int(degree[i]))
            for i in map(int, _largest(degree))
        ],
    )


def relation_kinds(graph: KnowledgeGraph) -> list[str]:
    """The kind of every relation by id: 1-1, 1-N, N-1 or N-N, and "unseen" without train triples.

    1-N is a relation with one subject and many objects: on average over train, at least 1.5
    objects for each (subject, relation) and fewer than 1.5 subjects for each (relation, object).
    """
    return _kinds(*_averages(graph))


def _kinds(per_subject: npt.NDArray[np.float64], per_object: npt.NDArray[np.float64]) -> list[str]:
    return [
        f"{'N' if subjects >= MANY else '1'}-{'N' if objects >= MANY else '1'}"
        if objects
        else "unseen"
        for objects, subjects in zip(per_subject, per_object, strict=True)
    ]


def _averages(
    graph: KnowledgeGraph,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """For every relation: objects per (subject, relation), subjects per (relation, object)."""
    relations = len(graph.relations)
    triples = np.bincount(graph.train[:, 1], minlength=relations)

    def per(column: int) -> npt.NDArray[np.float64]:
        keys = graph.train[:, column].astype(np.int64) * relations + graph.train[:, 1]
        keys.sort()
        distinct = keys[np.diff(keys, prepend=-1) != 0]
        queries = np.bincount(distinct % relations, minlength=relations)
        return np.asarray(triples / np.maximum(queries, 1))

    return per(0), per(2)


def _hints(
    graph: KnowledgeGraph,
) -> tuple[list[SymmetryHint], list[PairHint], list[PairHint]]:
    relations = len(graph.relations)
    proper = graph.train[graph.train[:, 0] != graph.train[:, 2]]
    triples = np.bincount(proper[:, 1], minlength=relations)
    codes, counts = _companions(graph)
    pair, reversed_ = np.divmod(codes, 2)
    first, second = np.divmod(pair, relations)
    kept = (triples[first] >= HINT_TRIPLES) & (counts >= HINT_SHARE * triples[first])
    symmetric: list[SymmetryHint] = []
    inverse: list[PairHint] = []
    contained: list[PairHint] = []
    rows = zip(first[kept], second[kept], reversed_[kept], counts[kept], strict=True)
    for k, other, is_reversed, count in rows:
        name, share = graph.relations.name(k), float(count / triples[k])
        if not is_reversed:
            contained.append(PairHint(name, graph.relations.name(other), share, int(triples[k])))
        elif k == other:
            symmetric.append(SymmetryHint(name, share, int(triples[k])))
        else:
            inverse.append(PairHint(name, graph.relations.name(other), share, int(triples[k])))
    for hints in (symmetric, inverse, contained):
        hints.sort(key=lambda hint: (-hint.share, -hint.triples))
    return symmetric, inverse, contained


def _companions(graph: KnowledgeGraph) -> tuple[Integers, Integers]:
    """How often a train triple (i, k, j) comes with (i, l, j) or (j, l, i), for all k and l.

    The result is codes (k * relations + l) * 2 + reversed, ascending, and their counts. Triples
    are sorted by their unordered pair of entities; only pairs with several triples, few in most
    graphs, are compared, a chunk at a time.
    """
    relations = len(graph.relations)
    pair, relation, backward, in_train = _shared_pairs(graph)
    sizes = np.diff(np.flatnonzero(np.diff(pair, prepend=-1, append=-1)))
    size = np.repeat(sizes, sizes)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    found: list[tuple[Integers, Integers]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for rows in _chunks(size):
        one = np.repeat(np.arange(rows.start, rows.stop), size[rows])
        before = np.cumsum(size[rows]) - size[rows]
        other = np.arange(len(one)) + np.repeat(start[rows] - before, size[rows])
        compared = in_train[one] & (one != other)
        one, other = one[compared], other[compared]
        code = (relation[one] * relations + relation[other]) * 2
        found.append(np.unique(code + (backward[one] != backward[other]), return_counts=True))
    codes, position = np.unique(np.concatenate([c for c, _ in found]), return_inverse=True)
    counts = np.zeros(len(codes), dtype=np.int64)
    np.add.at(counts, position, np.concatenate([n for _, n in found]))
    return codes, counts


def _shared_pairs(
    graph: KnowledgeGraph,
) -> tuple[Integers, Integers, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Triples whose entities share another triple: pair, relation, backward, in train."""

    def gather(triples: Triples) -> tuple[Integers, Triples]:
        proper = triples[triples[:, 0] != triples[:, 2]]
        low = np.minimum(proper[:, 0], proper[:, 2]).astype(np.int64)
        return low * len(graph.entities) + np.maximum(proper[:, 0], proper[:, 2]), proper

    parts = [gather(graph.split(split)) for split in SPLITS]
    pair = np.concatenate([p for p, _ in parts])
    in_train = np.arange(len(pair)) < len(parts[0][0])
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    equal = pair[1:] == pair[:-1]
    shared = np.zeros(len(pair), dtype=bool)
    shared[1:] |= equal
    shared[:-1] |= equal
    pair, order = pair[shared], order[shared]
    proper = np.concatenate([t for _, t in parts])[order]
    relation, backward = proper[:, 1].astype(np.int64), np.asarray(proper[:, 0] > proper[:, 2])
    # A triple that stands in several splits is one triple; both sorts are stable: train first.
    directed = relation * 2 + backward
    order_within = np.lexsort((directed, pair))
    again = np.zeros(len(pair), dtype=bool)
    again[1:] = (np.diff(pair[order_within]) == 0) & (np.diff(directed[order_within]) == 0)
    once = order_within[~again]
    return pair[once], relation[once], backward[once], in_train[order][once]


def _chunks(size: Integers) -> Iterator[slice]:
    """Slices of rows whose sizes sum up to about CHUNK."""
    if not len(size):
        return
    chunk = np.cumsum(size) // CHUNK
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    for start, stop in pairwise(bounds):
        yield slice(int(start), int(stop))


def _degree_figures(degree: npt.NDArray[np.integer[Any]]) -> DegreeFigures:
    if not len(degree):
        return DegreeFigures(0, 0.0, 0.0, 0.0, 0)
    median, percentile_99 = np.percentile(degree, [50, 99])
    return DegreeFigures(
        int(degree.min()),
        float(median),
        float(degree.mean()),
        float(percentile_99),
        int(degree.max()),
    )


def _largest(values: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """Ids of the largest values, largest first, equal ones by id; zeros are left out."""
    order = np.argsort(-values, kind="stable")[:MOST]
    return order[values[order] > 0]
