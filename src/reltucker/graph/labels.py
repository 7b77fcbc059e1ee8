"""Labels: what to show to a person instead of an id, from a table of ids and names."""

from pathlib import Path

import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.tables import LABELS, NameTable, bad_names, read_parquet, read_text

SUFFIXES = (".tsv", ".txt", ".csv", ".parquet", ".pq")


def read_labels(path: Path, suffix: str) -> pl.DataFrame:
    """Columns id and name; of several rows with one id the first counts."""
    if suffix not in SUFFIXES:
        raise GraphError(
            f"{path} is not a labels file; its name must end with one of {', '.join(SUFFIXES)}"
        )
    table: NameTable
    if suffix in (".parquet", ".pq"):
        table = read_parquet(path, LABELS)
    else:
        table = read_text(path, LABELS, quoted=suffix == ".csv")
    if table.frame.select(pl.any_horizontal(bad_names(pl.all()).any())).item():
        table.examine()
    return table.frame.unique("id", keep="first", maintain_order=True)


def labels_of(names: pl.Series, labels: pl.DataFrame) -> pl.Series | None:
    """The label of each name, null where there is none; None when no name has a label."""
    found = names.alias("id").to_frame().join(labels, on="id", how="left", maintain_order="left")
    column = found["name"].alias("label")
    return None if column.null_count() == len(column) else column


def unused(labels: pl.DataFrame, *vocabularies: pl.Series) -> int:
    """How many labels belong to a name of none of the vocabularies."""
    known = pl.concat([names.alias("id") for names in vocabularies]).to_frame()
    return labels.join(known, on="id", how="anti").height
