"""Where triples and labels come from: files of every format, folders, frames and rows."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.knowledge_graph import SPLITS, SplitName
from reltucker.graph.rdf import FORMATS as RDF_FORMATS
from reltucker.graph.rdf import read_rdf
from reltucker.graph.streaming import PARQUET, TEXT, read_table
from reltucker.graph.tables import (
    POLARS_FAILURES,
    TRIPLES,
    Columns,
    NameTable,
    Reading,
    bad_names,
    empty_file,
    from_frame,
    stem_and_suffix,
)

TABLES = (*TEXT, *PARQUET)
SUFFIXES = (*TABLES, *RDF_FORMATS)
FILE_STEMS: dict[str, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "validation", "dev"),
    "test": ("test",),
    "labels": ("labels",),
}

TripleSource: TypeAlias = str | PathLike[str] | pl.DataFrame | Iterable[Any]
"""A file, a polars or pandas frame, or triples (subject, relation, object) one by one."""

GraphSource: TypeAlias = TripleSource | Mapping[SplitName, TripleSource]


def read_names(
    source: TripleSource, columns: Columns = TRIPLES, others: tuple[str, ...] = ()
) -> pl.DataFrame:
    """The rows of triples, or of a file of another kind in a table's format, as they stand;
    `others` are endings that somebody else reads."""
    if isinstance(source, str | PathLike):
        table = read_file(Path(source), columns, others)
    else:
        table = read_rows(source)
    frame = table.frame.select(pl.all().cast(pl.String))
    if frame.select(pl.any_horizontal(bad_names(pl.all()).any())).item():
        table.examine()
    return frame


def read_file(
    path: Path,
    columns: Columns = TRIPLES,
    others: tuple[str, ...] = (),
    reading: Reading | None = None,
) -> NameTable:
    """The table of a file, whose format is known by its ending; without rows it is refused."""
    suffix = stem_and_suffix(path)[1]
    suffixes = SUFFIXES if columns == TRIPLES else (*TABLES, *others)
    if not path.is_file():
        raise GraphError(f"{path} does not exist; check the path")
    if suffix not in suffixes:
        raise GraphError(
            f"{path} has no known format; its name must end with one of {', '.join(suffixes)}, "
            "and may end with .gz or .zst after that"
        )
    if suffix not in RDF_FORMATS:
        return read_table(path, columns, reading)
    if reading is not None and reading.columns is not None:
        raise GraphError(f"{path}: RDF has no columns to choose from; leave --columns out")
    table = read_rdf(path, RDF_FORMATS[suffix], reading)
    if table.frame.is_empty():
        raise empty_file(path, columns, table.literals)
    return table


def find_splits(folder: Path) -> tuple[dict[SplitName, Path], Path | None]:
    """The files of the splits that a folder holds, and its file of labels if it has one."""
    files: dict[str, Path] = {}
    for use, stems in FILE_STEMS.items():
        names = {(stem, suffix) for stem in stems for suffix in SUFFIXES}
        found = [f for f in sorted(folder.iterdir()) if stem_and_suffix(f) in names and f.is_file()]
        if len(found) > 1:
            raise GraphError(
                f"{folder} has two files for {use}, {found[0].name} and {found[1].name}; "
                "keep one of them"
            )
        if found:
            files[use] = found[0]
    if "train" not in files:
        raise GraphError(
            f"{folder} has no train.* file; train, valid and test were looked for with the "
            f"endings {', '.join(SUFFIXES)}, also with .gz or .zst after them"
        )
    return {split: files[split] for split in SPLITS if split in files}, files.get("labels")


def read_folder(
    folder: Path, reading: Reading | None = None
) -> tuple[dict[SplitName, NameTable], Path | None]:
    """The splits that a folder holds, and its file of labels if it has one."""
    files, labels = find_splits(folder)
    return {split: read_file(path, reading=reading) for split, path in files.items()}, labels


def read_splits(
    source: Mapping[SplitName, TripleSource], reading: Reading | None = None
) -> dict[SplitName, NameTable]:
    """The splits of a dict with the keys train and, if wanted, valid and test."""
    if "train" not in source or not source.keys() <= set(SPLITS):
        raise GraphError(
            f"the given splits are {', '.join(map(repr, source)) or 'none'}; "
            "give 'train' and, if there are any, 'valid' and 'test'"
        )
    return {
        split: read_file(Path(value), reading=reading)
        if isinstance(value, str | PathLike)
        else read_rows(value, f"the given {split} triples", reading)
        for split, value in source.items()
    }


def read_rows(
    source: pl.DataFrame | Iterable[Any],
    origin: str = "the given triples",
    reading: Reading | None = None,
) -> NameTable:
    """The table of a polars or pandas frame, or of triples one by one."""
    order = None if reading is None else reading.columns
    frame = frame_of(source, origin)
    if frame is None:
        frame = _frame(TRIPLES, _columns_of(source, origin), origin)
    return from_frame(frame, TRIPLES, origin, order=order)


def frame_of(source: Any, origin: str) -> pl.DataFrame | None:
    """A polars or pandas frame as one of polars; None for anything else."""
    if isinstance(source, pl.DataFrame):
        return source
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(source, pandas.DataFrame):
        return None
    # Through lists, because polars' own conversion needs pyarrow.
    names = tuple(map(str, source.columns))
    if len(set(names)) < len(names):
        raise GraphError(f"{origin} have two columns of one name; rename one of them")
    columns = source.astype(object).where(source.notna(), None).to_numpy().T.tolist()
    return _frame(names, columns, origin)


def _frame(names: Sequence[str], columns: Iterable[list[Any]], origin: str) -> pl.DataFrame:
    series = []
    for name, values in zip(names, columns, strict=True):
        try:
            series.append(pl.Series(name, values, strict=True))
        except POLARS_FAILURES as cause:
            raise GraphError(
                f"{origin}, column {name!r} mixes kinds of values; names must be all strings or "
                "all integers"
            ) from cause
    return pl.DataFrame(series)


def _columns_of(source: Iterable[Any], origin: str) -> list[list[Any]]:
    """Subjects, relations and objects of triples one by one."""
    try:
        rows = source.tolist() if isinstance(source, np.ndarray) else list(source)
    except TypeError as cause:
        raise GraphError(
            f"{origin} are of type {type(source).__name__}; give a path, a frame or triples"
        ) from cause
    for number, row in enumerate(rows, 1):
        if not isinstance(row, tuple | list) or len(row) != 3:
            raise GraphError(
                f"{origin}, row {number}: {type(row).__name__} found where a tuple "
                "(subject, relation, object) is needed"
            )
    return [[row[n] for row in rows] for n in range(3)]
