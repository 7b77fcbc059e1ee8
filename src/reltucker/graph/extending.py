"""A graph with more triples: new names get ids, and those of train still come first."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.building import GraphWarning
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, SplitName, Triples
from reltucker.graph.sources import TripleSource, read_names
from reltucker.graph.vocabulary import Vocabulary

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Extension:
    """A graph after more training triples.

    places : (N,) the new id of every entity that was there before
    fresh  : ids of the entities that had no training triple before
    added  : how many training triples are new
    """

    graph: KnowledgeGraph
    places: Ids
    fresh: Ids
    added: int


def extend(graph: KnowledgeGraph, triples: TripleSource) -> Extension:
    """The graph with these triples in train. Names or labels that it has mean what they mean in
    it, other names of entities are new; relations must occur in train. A triple that stood in
    valid or test leaves it."""
    frame = read_names(triples)
    relations = graph.relations.locate(frame["relation"])
    unknown = np.flatnonzero((relations < 0) | (relations >= graph.seen_relations))
    if len(unknown):
        row = int(unknown[0])
        name = frame["relation"][row][:120]
        place = f"{triples}, row" if isinstance(triples, str | PathLike) else "row"
        raise GraphError(
            f"{place} {row + 1}: nothing was learned about the relation {name!r}; "
            "new entities can be added, new relations need training (`reltucker train --from RUN`)"
        )
    ends = frame.select(pl.concat_list("subject", "object").explode()).to_series()  # row by row
    names = ends.filter(pl.Series(graph.entities.locate(ends) < 0)).unique(maintain_order=True)
    entities = _with_names(graph.entities, names)
    ids = entities.locate(ends)
    new = np.stack([ids[::2], relations, ids[1::2]], axis=1).astype(np.int32)
    new = _without(new, graph.train)
    splits: dict[SplitName, Triples] = {
        "train": np.concatenate([graph.train, new]),
        "valid": _without(graph.valid, new),
        "test": _without(graph.test, new),
    }
    extended, places = _seen_first(graph, entities, splits)
    fresh = np.arange(graph.seen_entities, extended.seen_entities)
    return Extension(extended, places[: len(graph.entities)], fresh, len(new))


def keep_splits(graph: KnowledgeGraph, before: KnowledgeGraph) -> KnowledgeGraph:
    """The graph with the triples that were known before in the split in which they were, so that
    nothing that was trained on is ever judged by; the others stay where they are."""
    columns = ["subject", "relation", "object"]
    known = pl.concat(
        before.named(before.split(split)).with_columns(split=pl.lit(number, pl.UInt8))
        for number, split in enumerate(SPLITS)
    ).unique(columns, keep="first")
    triples = np.concatenate([graph.split(split) for split in SPLITS])
    own = np.repeat(np.arange(len(SPLITS)), [len(graph.split(split)) for split in SPLITS])
    found = graph.named(triples).join(known, on=columns, how="left", maintain_order="left")["split"]
    part = found.fill_null(pl.Series(own.astype(np.uint8))).to_numpy()
    splits = {split: triples[part == number] for number, split in enumerate(SPLITS)}
    return _seen_first(graph, graph.entities, splits)[0] if len(splits["train"]) else graph


def warn_of_trained(graph: KnowledgeGraph, before: KnowledgeGraph) -> None:
    """Warn where triples of valid or test are ones that were trained on before."""
    judged = graph.named(np.concatenate([graph.valid, graph.test]))
    trained = before.named(before.train)
    count = judged.join(trained, on=judged.columns, how="semi").height
    if count:
        warnings.warn(
            f"graph {graph.name}: {count} triples of valid and test were trained on before, so "
            "results on them say little",
            GraphWarning,
            stacklevel=3,
        )


def _seen_first(
    graph: KnowledgeGraph, entities: Vocabulary, splits: Mapping[SplitName, Triples]
) -> tuple[KnowledgeGraph, Ids]:
    """The graph with other triples, numbered so that names of train come first, in the order that
    they had; and the new id of each entity."""
    train = splits["train"]
    entities, places, seen = _sorted(entities, train[:, [0, 2]])
    relations, numbers, seen_relations = _sorted(graph.relations, train[:, 1])

    def numbered(triples: Triples) -> Triples:
        subjects, linked, objects = triples.T
        ids = np.stack([places[subjects], numbers[linked], places[objects]], axis=1)
        return ids.astype(np.int32)

    made = KnowledgeGraph(
        graph.name,
        entities,
        relations,
        numbered(train),
        numbered(splits["valid"]),
        numbered(splits["test"]),
        seen,
        seen_relations,
        graph.counts,
    )
    return made, places


def _sorted(vocabulary: Vocabulary, used: npt.NDArray[np.int32]) -> tuple[Vocabulary, Ids, int]:
    is_used = np.zeros(len(vocabulary), dtype=bool)
    is_used[used] = True
    order = np.argsort(~is_used, kind="stable")
    labels = None if vocabulary.labels is None else vocabulary.labels.gather(order)
    made = Vocabulary(vocabulary.names.gather(order), labels, vocabulary.kind)
    return made, np.argsort(order), int(is_used.sum())


def _with_names(vocabulary: Vocabulary, names: pl.Series) -> Vocabulary:
    """The vocabulary with further names; one that several names have as their label is refused."""
    labels = vocabulary.labels
    if labels is not None:
        shared = names.filter(names.is_in(vocabulary.shown.implode()))
        if len(shared):
            vocabulary.find(shared[0])
        labels = labels.extend_constant(None, len(names))
    return Vocabulary(pl.concat([vocabulary.names, names]), labels, vocabulary.kind)


def _without(triples: Triples, others: Triples) -> Triples:
    """The distinct triples that are not among the others, in their order."""
    columns = ["i", "k", "j"]
    own, known = (pl.DataFrame(part, columns, orient="row") for part in (triples, others))
    kept = own.with_row_index().unique(columns, keep="first").join(known, on=columns, how="anti")
    return triples.take(np.sort(kept["index"].to_numpy()), axis=0)
