"""From tables of names to a knowledge graph: ids, duplicates, splits, labels."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.answers import Keys, starts
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, SplitName, Triples
from reltucker.graph.labels import DEFAULT_LANGUAGE, in_language, read_labels
from reltucker.graph.splitting import split_triples
from reltucker.graph.tables import NameTable, bad_names
from reltucker.graph.vocabulary import Vocabulary

Rows = npt.NDArray[np.int64]


class GraphWarning(UserWarning):
    """Triples that can be used but are probably not what was meant."""


def build_graph(
    tables: Mapping[SplitName, NameTable],
    name: str,
    labels: Path | None = None,
    seed: int | None = None,
    language: str = DEFAULT_LANGUAGE,
) -> KnowledgeGraph:
    """Number the names, drop duplicates and count what was met.

    With a `seed` all triples stand in train and are split here; without, the splits are kept.
    Labels that stand among the triples count where there is no file of them.
    """
    heights = [tables[split].frame.height if split in tables else 0 for split in SPLITS]
    if not heights[0]:
        origin = tables["train"].origin
        raise GraphError(f"{origin}: there are no training triples; at least one is needed")
    given = [tables[split] for split in SPLITS if split in tables]
    names = pl.all().cast(pl.Categorical)
    frame = pl.concat([table.frame.select(names) for table in given], rechunk=False)
    triples = np.empty((frame.height, 3), dtype=np.int32)
    (entity_names, seen_entities), (relation_names, seen_relations) = number_names(
        frame, triples, heights[0]
    )
    del frame
    if any(pl.select(bad_names(pl.lit(n)).any()).item() for n in (entity_names, relation_names)):
        for table in given:
            table.examine()
        raise GraphError(f"{given[0].origin}: a name is blank or broken; write it again")
    sizes = len(entity_names), len(relation_names)
    counts = Counter(literals_skipped=sum(table.literals for table in given))
    ends = np.cumsum(heights)[:-1]
    repeated, met = find_repeated(np.split(keys_of(triples, *sizes), ends))
    counts |= met
    parts = zip(np.split(triples, ends), repeated, strict=True)
    train, valid, test = (
        np.delete(part, rows, axis=0) if len(rows) else part for part, rows in parts
    )
    del triples
    warn_of_overlap(name, counts, stacklevel=5)
    warn_of_relations(name, entity_names, relation_names, sum(heights), stacklevel=5)
    if labels is None:
        known = in_language(pl.concat([table.labels for table in given]), language)
    else:
        known = read_labels(labels, language)
        used = pl.concat([entity_names, relation_names])
        counts["labels_unused"] = known.height - int(known["id"].is_in(used.implode()).sum())
    return KnowledgeGraph(
        name,
        Vocabulary(entity_names, kind="entity").labelled(known),
        Vocabulary(relation_names, kind="relation").labelled(known),
        *((train, valid, test) if seed is None else split_triples(train, *sizes, seed)),
        seen_entities,
        seen_relations,
        {key: count for key, count in counts.items() if count},
    )


def number_names(
    frame: pl.DataFrame, triples: Triples, train_rows: int
) -> list[tuple[pl.Series, int]]:
    """Fill triples (n, 3) with ids; of entities and relations, the names and how many train has.

    Ids follow the first appearance, row by row and the subject before the object, so the names
    of train, whose rows come first, have the lowest ids.
    """
    # Categoricals are the fastest way to integers that polars has, but their codes depend on its
    # threads and on the process; all columns must be alive at once to share one set of codes.
    categorical = frame.select(pl.all().cast(pl.Categorical))
    codes = [column.to_physical().to_numpy() for column in categorical]
    del categorical
    numbered = []
    for columns in ([0, 2], [1]):
        width = len(columns)
        flat = np.stack([codes[c] for c in columns], axis=1).ravel()
        first = np.full(int(flat.max()) + 1, len(flat), dtype=np.uint32)
        # Of several assignments to one place the last one stays, hence backwards.
        first[flat[::-1]] = np.arange(len(flat), dtype=np.uint32)[::-1]
        # Marking the first positions puts them in order without a sort.
        is_first = np.zeros(len(flat) + 1, dtype=bool)
        is_first[first] = True
        positions = np.flatnonzero(is_first[:-1])
        ids = np.empty(len(first), dtype=np.int32)
        ids[flat[positions]] = np.arange(len(positions))
        for c in columns:
            triples[:, c] = ids[codes[c]]
        rows, offsets = np.divmod(positions, width)
        names = frame.to_series(columns[0]).gather(rows).cast(pl.String)
        if width == 2:
            in_second = pl.Series(offsets == 1)
            others = frame.to_series(columns[1]).gather(rows).cast(pl.String)
            names = others.zip_with(in_second, names)
        seen = int(np.searchsorted(positions, width * train_rows))
        numbered.append((names.alias("name"), seen))
    return numbered


def keys_of(triples: Triples, entities: int, relations: int) -> Keys:
    """One integer for each triple, equal where the triples are equal."""
    pairs = triples[:, 0].astype(np.int64) * relations + triples[:, 1]
    if entities * relations * entities >= 2**63:
        pairs = np.unique(pairs, return_inverse=True)[1]
    pairs *= entities
    pairs += triples[:, 2]
    return pairs


def find_repeated(keys: Sequence[Keys]) -> tuple[list[Rows], Counter[str]]:
    """For the keys of train, valid and test: the rows of each whose key stands in an earlier row of
    the same split; and counts of these, and of distinct keys that an earlier split has, too."""
    before: list[Keys] = []
    repeated: list[Rows] = []
    counts: Counter[str] = Counter()
    for split, own in zip(SPLITS, keys, strict=True):
        ordered = np.sort(own)
        fresh = starts(ordered)
        rows = np.empty(0, dtype=np.int64)
        if not fresh.all():
            # Sorting row numbers along would cost more than to look for the few repeated keys.
            several = pl.Series(own).is_in(pl.Series(ordered[~fresh]).implode()).arg_true()
            is_later = ~pl.Series(own).gather(several).is_first_distinct()
            rows = several.filter(is_later).cast(pl.Int64).to_numpy()
            ordered = ordered[fresh]
        known = np.zeros(len(ordered), dtype=bool)
        for earlier in before:
            known |= np.searchsorted(earlier, ordered, "right") > np.searchsorted(earlier, ordered)
        counts[f"duplicates_{split}"] = len(rows)
        counts[f"overlap_{split}"] = int(known.sum())
        before.append(ordered)
        repeated.append(rows)
    return repeated, counts


MANY_RELATIONS = 10
"""Fewer say nothing about a graph."""
USUAL_TRIPLES = 8
"""A relation has more of them on average."""


def warn_of_relations(
    name: str, entities: pl.Series, relations: pl.Series, triples: int, stacklevel: int
) -> None:
    """Warn where a graph looks as if relations stood in another column: there are more of them than
    entities, and each has few triples, or some are entities, too."""
    if len(relations) <= max(len(entities), MANY_RELATIONS):
        return
    if triples < USUAL_TRIPLES * len(relations) or relations.is_in(entities.implode()).any():
        warnings.warn(
            f"graph {name} has {len(relations):,} relations and only {len(entities):,} entities; "
            "if relations stand in another column, say so by `columns`, such "
            "as relation,subject,object",
            GraphWarning,
            stacklevel=stacklevel,
        )


def warn_of_overlap(name: str, counts: Mapping[str, int], stacklevel: int) -> None:
    """Warn where triples of valid or test also stand in an earlier split."""
    for split, earlier in (("valid", "train"), ("test", "train or valid")):
        if counts[f"overlap_{split}"]:
            warnings.warn(
                f"graph {name}: {counts[f'overlap_{split}']} triples of {split} also stand in "
                f"{earlier}, so results on them say little",
                GraphWarning,
                stacklevel=stacklevel,
            )
