"""Labels and types of entities as their publishers write them: tables, JSON, lists of aliases."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import polars as pl

from reltucker.atomic import read_json, write_with
from reltucker.errors import GraphError
from reltucker.graph.streaming import read_table
from reltucker.graph.tables import LABELS, POLARS_FAILURES, Reading, bad_names

_UNEXPECTED: tuple[type[BaseException], ...] = (*POLARS_FAILURES, AttributeError, KeyError)

Format = Literal["table", "json", "aliases"]


def read_annotations(
    path: Path, origin: str, format: Format = "table", columns: str | None = None
) -> pl.DataFrame:
    """Rows (id, name) of a file, where name is a label or a type.

    table   : the two `columns` of a table
    json    : {id: {"label": name, ...}} or {id: [name, ...]}
    aliases : lines with an id and its names, of which the first one counts
    """
    if format == "json":
        return _json(path, origin)
    if format == "table":
        return read_table(path, LABELS, Reading(columns)).frame.unique(maintain_order=True)
    try:
        lines = pl.read_csv(
            path,
            separator="\x01",
            has_header=False,
            schema={"line": pl.String},
            quote_char=None,
            glob=False,
        )
    except POLARS_FAILURES as cause:
        raise GraphError(f"{origin} is not a list of names in UTF-8 ({cause})") from cause
    parts = pl.col("line").str.splitn("\t", 3).struct.rename_fields([*LABELS, "more"])
    return lines.select(parts).unnest("line").select(LABELS)


def _json(path: Path, origin: str) -> pl.DataFrame:
    try:
        document = read_json(path)
        rows = [(key, name) for key, value in document.items() for name in _names(value)]
        return pl.DataFrame(rows, schema=dict.fromkeys(LABELS, pl.String), orient="row")
    except _UNEXPECTED as cause:
        raise GraphError(
            f"{origin} does not hold names by their ids as expected ({cause})"
        ) from cause


def _names(value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value["label"]]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a name is not a text")
    return names


def write_annotations(
    path: Path, frames: Iterable[pl.DataFrame], used: pl.Series, header: tuple[str, ...] = ()
) -> None:
    """Write the rows whose ids are used, each once, as a table with tabs; nothing for none."""
    names = pl.col("name").cast(pl.String).str.replace_all(r"[\t\r\n]+", " ")
    known = [frame.select(pl.col("id").cast(pl.String), names) for frame in frames]
    if not known:
        return
    rows = pl.concat(known).filter(
        pl.col("id").is_in(used.implode()) & ~bad_names(pl.col("name")).fill_null(True)
    )
    rows = rows.unique(maintain_order=True)
    if not rows.is_empty():
        write_table(path, rows, header)


def write_table(path: Path, rows: pl.DataFrame, header: tuple[str, ...] = ()) -> None:
    """Write rows with tabs, below the names of the columns where there are any."""
    if header:
        rows = rows.rename(dict(zip(rows.columns, header, strict=True)))
    write_with(
        path,
        lambda temporary: rows.write_csv(
            temporary, separator="\t", include_header=bool(header), quote_style="never"
        ),
    )
