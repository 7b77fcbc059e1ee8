"""From files, folders and frames to a knowledge graph: the way in for every user's triples."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, SplitName, Triples
from reltucker.graph.labels import SUFFIXES as LABEL_SUFFIXES
from reltucker.graph.labels import labels_of, read_labels, unused
from reltucker.graph.rdf import FORMATS as RDF_FORMATS
from reltucker.graph.rdf import read_rdf
from reltucker.graph.splitting import split_triples
from reltucker.graph.tables import (
    COMPRESSIONS,
    POLARS_FAILURES,
    TRIPLES,
    NameTable,
    bad_names,
    from_frame,
    read_parquet,
    read_text,
)
from reltucker.graph.vocabulary import Vocabulary

SUFFIXES = (".tsv", ".txt", ".csv", ".parquet", ".pq", *RDF_FORMATS)
SPLIT_STEMS: dict[str, SplitName] = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "dev": "valid",
    "test": "test",
}

TripleSource: TypeAlias = str | PathLike[str] | pl.DataFrame | Iterable[Any]
"""A file, a polars or pandas frame, or triples (subject, relation, object) one by one."""

GraphSource: TypeAlias = TripleSource | Mapping[SplitName, TripleSource]

BLOCK = 2**18
"""Rows that are numbered at a time: what a processor's cache holds."""

Keys: TypeAlias = npt.NDArray[np.int64]


class GraphWarning(UserWarning):
    """Triples that can be used but are probably not what was meant."""


def load_graph(
    source: GraphSource,
    *,
    labels: str | PathLike[str] | None = None,
    seed: int = 0,
    name: str | None = None,
) -> KnowledgeGraph:
    """The knowledge graph of a folder, a file, a frame, triples, or a dict of splits.

    A folder holds train and, if it has them, valid and test, each in any format, and may hold
    labels. A dict has the keys train and, if wanted, valid and test. Anything else is one set of
    triples, split 80/10/10 by `seed` so that train knows every entity and relation.
    Ids follow the order of first appearance, so the same triples always get the same ids.
    """
    labels_file = None if labels is None else Path(labels)
    if isinstance(source, Mapping):
        return build_graph(_tables_of_splits(source), labels=labels_file, name=name or "graph")
    if not isinstance(source, (str, PathLike)):
        table = _read_source(source, "the given triples")
        return build_graph({"train": table}, labels=labels_file, name=name or "graph", seed=seed)
    path = Path(source)
    if path.is_dir():
        tables = {split: _read_file(file) for split, file in _split_files(path).items()}
        return build_graph(
            tables,
            labels=labels_file or _labels_in(path),
            name=name or path.resolve().name,
        )
    stem, _ = _stem_and_suffix(path)
    return build_graph(
        {"train": _read_file(path)}, labels=labels_file, name=name or stem, seed=seed
    )


def build_graph(
    tables: Mapping[SplitName, NameTable],
    *,
    name: str,
    labels: Path | None = None,
    seed: int | None = None,
) -> KnowledgeGraph:
    """Number the names, drop duplicates and count what was met.

    With a `seed` all triples stand in train and are split here; without, the splits are kept.
    """
    counts = {"literals_skipped": sum(table.literals for table in tables.values())}
    given = [tables[split] for split in SPLITS if split in tables]
    heights = [tables[split].frame.height if split in tables else 0 for split in SPLITS]
    if not heights[0]:
        origin = tables["train"].origin if "train" in tables else "the given splits"
        raise GraphError(f"{origin}: there are no training triples; at least one is needed")
    frame = pl.concat([table.frame for table in given], rechunk=False)
    entity_names, relation_names, triples, seen_entities, seen_relations = _number(
        frame, heights[0]
    )
    del frame
    if _any_bad(entity_names) or _any_bad(relation_names):
        for table in given:
            table.examine()
        raise GraphError(f"{given[0].origin}: a name is blank or broken; write it again")

    keys = _keys(triples, len(entity_names), len(relation_names))
    parts = np.split(triples, np.cumsum(heights)[:-1])
    distinct: list[Triples] = []
    before: list[Keys] = []
    for split, part, own in zip(
        SPLITS, parts, np.split(keys, np.cumsum(heights)[:-1]), strict=True
    ):
        kept, ordered = _distinct(own)
        distinct.append(part if kept is None else part[kept])
        counts[f"duplicates_{split}"] = len(part) - len(distinct[-1])
        if before:
            counts[f"overlap_{split}"] = _overlap(ordered, before)
        before.append(ordered)
    del keys, before, parts, triples
    train, valid, test = (
        distinct
        if seed is None
        else split_triples(distinct[0], len(entity_names), len(relation_names), seed)
    )
    _warn_of_overlap(name, counts)

    entity_labels = relation_labels = None
    if labels is not None:
        table_of_labels = read_labels(labels, _stem_and_suffix(labels)[1])
        entity_labels = labels_of(entity_names, table_of_labels)
        relation_labels = labels_of(relation_names, table_of_labels)
        counts["labels_unused"] = unused(table_of_labels, entity_names, relation_names)
    return KnowledgeGraph(
        name,
        Vocabulary(entity_names, entity_labels, "entity"),
        Vocabulary(relation_names, relation_labels, "relation"),
        train,
        valid,
        test,
        seen_entities,
        seen_relations,
        {key: count for key, count in counts.items() if count},
    )


def _number(frame: pl.DataFrame, train_rows: int) -> tuple[pl.Series, pl.Series, Triples, int, int]:
    """Names of entities and relations, triples of their ids, and how many of each train holds.

    Ids follow the first appearance, row by row and the subject before the object, so the names
    of train, whose rows come first, have the lowest ids.
    """
    # Categoricals are the fastest way to integers that polars has, but their codes depend on its
    # threads and on the process; all columns must be alive at once to share one set of codes.
    categorical = frame.select(pl.all().cast(pl.Categorical))
    codes = [column.to_physical().to_numpy() for column in categorical]
    del categorical
    triples = np.empty((frame.height, 3), dtype=np.int32)

    blocks = [slice(i, i + BLOCK) for i in range(0, frame.height, BLOCK)]

    def number_columns(columns: list[int]) -> tuple[pl.Series, int]:
        width = len(columns)
        never = width * frame.height
        size = max(int(codes[c].max()) for c in columns) + 1
        first = np.full(size, never, dtype=np.int64)
        for block in reversed(blocks):
            # Of several assignments to one place the last one stays, hence backwards.
            backwards = np.stack([codes[c][block] for c in columns], axis=1).ravel()[::-1]
            start = width * block.start
            first[backwards] = np.arange(start + len(backwards) - 1, start - 1, -1)
        # Marking the first positions puts them in order without a sort.
        is_first = np.zeros(never, dtype=bool)
        is_first[first[first < never]] = True
        positions = np.flatnonzero(is_first)
        rows, offsets = np.divmod(positions, width)
        ids = np.empty(size, dtype=np.int32)
        ids[np.choose(offsets, [codes[c][rows] for c in columns])] = np.arange(len(rows))
        for c in columns:
            for block in blocks:
                triples[block, c] = ids[codes[c][block]]
        names = frame.to_series(columns[0]).gather(rows)
        if width == 2:
            in_second = pl.Series(offsets == 1)
            names = frame.to_series(columns[1]).gather(rows).zip_with(in_second, names)
        return names.alias("name"), int(np.searchsorted(positions, width * train_rows))

    entity_names, seen_entities = number_columns([0, 2])
    relation_names, seen_relations = number_columns([1])
    return entity_names, relation_names, triples, seen_entities, seen_relations


def _any_bad(names: pl.Series) -> bool:
    return bool(names.to_frame().select(bad_names(pl.all()).any()).item())


def _keys(triples: Triples, entities: int, relations: int) -> Keys:
    """One integer for each triple, equal where the triples are equal."""
    pairs = triples[:, 0].astype(np.int64) * relations + triples[:, 1]
    if entities * relations * entities >= 2**63:
        pairs = np.unique(pairs, return_inverse=True)[1]
    pairs *= entities
    pairs += triples[:, 2]
    return pairs


def _distinct(keys: Keys) -> tuple[npt.NDArray[np.int64] | None, Keys]:
    """The rows that hold a key for the first time (None: all rows), and the keys ascending."""
    ordered = np.sort(keys)
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return None, ordered
    # Sorting the row numbers along would cost more than to look for the few repeated keys.
    repeated = pl.Series(ordered[~fresh]).unique()
    rows = pl.Series(keys).is_in(repeated.implode()).arg_true().to_numpy()
    _, first = np.unique(keys[rows], return_index=True)
    kept = np.ones(len(keys), dtype=bool)
    kept[rows] = False
    kept[rows[first]] = True
    return np.flatnonzero(kept), ordered[fresh]


def _overlap(keys: Keys, before: list[Keys]) -> int:
    """How many of the ascending keys stand in one of the earlier splits."""
    known = np.zeros(len(keys), dtype=bool)
    for earlier in before:
        if len(earlier) and len(keys):
            place = np.minimum(np.searchsorted(earlier, keys), len(earlier) - 1)
            known |= earlier[place] == keys
    return int(known.sum())


def _warn_of_overlap(name: str, counts: Mapping[str, int]) -> None:
    for split, earlier in (("valid", "train"), ("test", "train or valid")):
        count = counts[f"overlap_{split}"]
        if count:
            warnings.warn(
                f"graph {name}: {count} triples of {split} also stand in {earlier}, "
                "so results on them say little",
                GraphWarning,
                stacklevel=4,
            )


def read_triples(path: Path) -> pl.DataFrame:
    """The rows of a file of triples in any format, as they stand: subject, relation, object."""
    table = _read_file(path)
    table.examine()
    return table.frame


def _stem_and_suffix(path: Path) -> tuple[str, str]:
    """The name without its endings, and the ending of the format, in lower case."""
    inner = Path(path.stem) if path.suffix.lower() in COMPRESSIONS else Path(path.name)
    return inner.stem, inner.suffix.lower()


def _read_file(path: Path) -> NameTable:
    if not path.is_file():
        raise GraphError(f"{path} does not exist; check the path")
    suffix = _stem_and_suffix(path)[1]
    if suffix in RDF_FORMATS:
        return read_rdf(path, RDF_FORMATS[suffix])
    if suffix in (".parquet", ".pq"):
        return read_parquet(path, TRIPLES)
    if suffix not in SUFFIXES:
        raise GraphError(
            f"{path} has no known format; its name must end with one of {', '.join(SUFFIXES)}, "
            "and may end with .gz or .zst after that"
        )
    return read_text(path, TRIPLES, quoted=suffix == ".csv")


def _split_files(folder: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for file in sorted(folder.iterdir()):
        stem, suffix = _stem_and_suffix(file)
        if stem not in SPLIT_STEMS or suffix not in SUFFIXES or not file.is_file():
            continue
        split = SPLIT_STEMS[stem]
        if split in found:
            raise GraphError(
                f"{folder} has two files for {split}, {found[split].name} and {file.name}; "
                "keep one of them"
            )
        found[split] = file
    if "train" not in found:
        raise GraphError(
            f"{folder} has no train.* file; train, valid and test were looked for with the "
            f"endings {', '.join(SUFFIXES)}, also with .gz or .zst after them"
        )
    return found


def _labels_in(folder: Path) -> Path | None:
    found = [
        file
        for file in sorted(folder.iterdir())
        if _stem_and_suffix(file) in {("labels", suffix) for suffix in LABEL_SUFFIXES}
        and file.is_file()
    ]
    if len(found) > 1:
        raise GraphError(
            f"{folder} has two files of labels, {found[0].name} and {found[1].name}; "
            "keep one of them"
        )
    return found[0] if found else None


def _tables_of_splits(source: Mapping[SplitName, TripleSource]) -> dict[SplitName, NameTable]:
    unknown = [key for key in source if key not in SPLITS]
    if unknown or "train" not in source:
        raise GraphError(
            f"the given splits are {', '.join(map(repr, source)) or 'none'}; "
            "give 'train' and, if there are any, 'valid' and 'test'"
        )
    return {
        split: _read_file(Path(value))
        if isinstance(value, (str, PathLike))
        else _read_source(value, f"the given {split} triples")
        for split, value in source.items()
    }


def _read_source(source: pl.DataFrame | Iterable[Any], origin: str) -> NameTable:
    if isinstance(source, pl.DataFrame):
        return from_frame(source, TRIPLES, origin)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return from_frame(_from_pandas(source, origin), TRIPLES, origin)
    return from_frame(_from_rows(source, origin), TRIPLES, origin)


def _from_pandas(source: Any, origin: str) -> pl.DataFrame:
    # Column by column through lists, because polars' own conversion needs pyarrow.
    columns = {}
    for position, label in enumerate(source.columns):
        column = source.iloc[:, position].astype(object)
        columns[str(label)] = column.where(column.notna(), None).tolist()
    if len(columns) < len(source.columns):
        raise GraphError(f"{origin} has two columns of one name; rename one of them")
    return pl.DataFrame([_column(name, values, origin) for name, values in columns.items()])


def _from_rows(source: Iterable[Any], origin: str) -> pl.DataFrame:
    try:
        rows = source.tolist() if isinstance(source, np.ndarray) else list(source)
    except TypeError as cause:
        raise GraphError(
            f"{origin} are a {type(source).__name__}; give a path, a frame or triples"
        ) from cause
    for number, row in enumerate(rows, 1):
        if not isinstance(row, (tuple, list)) or len(row) != 3:
            raise GraphError(
                f"{origin}, row {number}: {type(row).__name__} found where a tuple "
                "(subject, relation, object) is needed"
            )
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pl.DataFrame(
        [
            _column(name, list(values), origin)
            for name, values in zip(TRIPLES.columns, columns, strict=True)
        ]
    )


def _column(name: str, values: list[Any], origin: str) -> pl.Series:
    try:
        return pl.Series(name, values, strict=True)
    except POLARS_FAILURES as cause:
        raise GraphError(
            f"{origin}, column {name!r} mixes kinds of values; names must be all strings or all "
            "integers"
        ) from cause
