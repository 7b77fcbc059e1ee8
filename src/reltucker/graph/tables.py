"""Tables of names: TSV, CSV and Parquet files, and frames, as columns of checked strings.

Text is read twice at most. Polars reads it in bulk; only where that meets anything odd does a
careful pass over the lines decide, which either names the first bad line or finds that all is well.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from reltucker.errors import GraphError

LONGEST_NAME = 100_000
"""A longer name is taken for a damaged file."""

BATCH = 100_000
"""Rows that the careful pass holds as Python objects at a time."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}

ZSTD_START = b"\x28\xb5\x2f\xfd"

POLARS_FAILURES: tuple[type[BaseException], ...] = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    OSError,
    ValueError,
    TypeError,
    OverflowError,
)
"""What polars raises for content that it cannot take."""


@dataclass(frozen=True)
class Layout:
    """The columns of a table, the header lines to skip, and other names of the same columns."""

    columns: tuple[str, ...]
    headers: tuple[tuple[str, ...], ...]
    aliases: tuple[tuple[str, ...], ...]


_TRIPLE_COLUMNS = ("subject", "relation", "object")
_HEAD_TAIL = ("head", "relation", "tail")
TRIPLES = Layout(
    _TRIPLE_COLUMNS,
    headers=(_TRIPLE_COLUMNS, _HEAD_TAIL),
    aliases=(_TRIPLE_COLUMNS, _HEAD_TAIL, ("s", "p", "o")),
)
LABELS = Layout(
    ("id", "name"),
    headers=(("id", "name"), ("id", "label")),
    aliases=(("id", "name"), ("id", "label")),
)


@dataclass(frozen=True)
class NameTable:
    """String columns without nulls, and where they come from.

    Whether a name is blank, too long or holds a NUL is left to the caller, who checks distinct
    names only; when one is bad, `examine` raises the GraphError that says where.
    """

    frame: pl.DataFrame
    origin: str
    examine: Callable[[], None]
    literals: int = 0


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed when its name ends with .gz, .zst or .zstd."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    try:
        content = path.read_bytes()
    except OSError as cause:
        raise GraphError(
            f"{path} cannot be read ({cause.strerror}); check the path and its permissions"
        ) from cause
    try:
        if compression == "gzip":
            return gzip.decompress(content)
        if compression == "zstd":
            return _decompress_zstd(path, content)
    except (OSError, EOFError, ValueError, zlib.error) as cause:
        raise GraphError(
            f"{path} is not a whole {compression} file ({cause}); download or compress it again"
        ) from cause
    return content


def _decompress_zstd(path: Path, content: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise GraphError(
            f"{path} needs the package zstandard; install it or decompress the file first"
        ) from None
    parts = []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(content))
        except zstandard.ZstdError as cause:
            raise ValueError(str(cause)) from cause
        if not frame.eof:
            raise EOFError("the end of the last frame is missing")
        content = frame.unused_data
    return b"".join(parts)


def read_text(path: Path, layout: Layout, *, quoted: bool) -> NameTable:
    """A table of text: comma separated with quotes when `quoted`, else tab separated without."""

    def examine() -> None:
        _read_carefully(path, layout, quoted=quoted)

    frame = _read_in_bulk(path, layout, quoted=quoted)
    if frame is None:
        frame = _read_carefully(path, layout, quoted=quoted)
    if frame.is_empty():
        raise GraphError(f"{path} is empty; it needs lines of {_listed(layout.columns)}")
    return NameTable(frame, str(path), examine)


def _read_in_bulk(path: Path, layout: Layout, *, quoted: bool) -> pl.DataFrame | None:
    """The table as polars reads it; None when anything about it is not plain."""
    # Polars decompresses zstd by itself and without a further package, but goes by the first
    # bytes and not by the name; gzip is decompressed here.
    compression = COMPRESSIONS.get(path.suffix.lower())
    source = read_bytes(path) if compression == "gzip" else path
    try:
        if compression == "zstd" and not _starts_with(path, ZSTD_START):
            return None
        frame = pl.read_csv(
            source,
            separator="," if quoted else "\t",
            quote_char='"' if quoted else None,
            has_header=False,
            schema=dict.fromkeys(layout.columns, pl.String),
            glob=False,
        )
    except POLARS_FAILURES:
        return None
    # A null is a blank line, a missing column or a blank name.
    if frame.is_empty() or any(column.null_count() for column in frame):
        return None
    return frame.slice(1) if _is_header(frame.row(0), layout) else frame


def _starts_with(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start


def _read_carefully(path: Path, layout: Layout, *, quoted: bool) -> pl.DataFrame:
    """The table, line by line; raises GraphError with the first line that is not as it must be."""
    if not path.is_file():
        raise GraphError(f"{path} is not a file; check the path")
    lines = _decoded_lines(path)
    records = _quoted_records(path, lines) if quoted else _plain_records(lines)
    separator = "comma" if quoted else "tab"
    frames = [pl.DataFrame(schema=dict.fromkeys(layout.columns, pl.String))]
    numbers: list[int] = []
    rows: list[list[str]] = []

    def flush() -> None:
        frame = pl.DataFrame(rows, schema=frames[0].schema, orient="row")
        check_names(frame, lambda row: f"{path}, line {numbers[row]}")
        frames.append(frame)
        numbers.clear()
        rows.clear()

    start = True
    for number, fields in records:
        if len(fields) == 1 and not fields[0].strip():
            continue
        if len(fields) != len(layout.columns):
            if rows:
                flush()
            raise GraphError(
                f"{path}, line {number}: {len(fields)} columns found where "
                f"{len(layout.columns)} are needed; write {_listed(layout.columns)} "
                f"with one {separator} between them"
            )
        if not (start and _is_header(fields, layout)):
            numbers.append(number)
            rows.append(fields)
        start = False
        if len(rows) == BATCH:
            flush()
    if rows:
        flush()
    return pl.concat(frames)


def _decoded_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(io.BytesIO(read_bytes(path)), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as cause:
            raise GraphError(
                f"{path}, line {number}: the text is not UTF-8 (byte {cause.start + 1} of the "
                "line); save the file as UTF-8"
            ) from cause
        yield text.removeprefix("\ufeff") if number == 1 else text


def _plain_records(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix("\n").removesuffix("\r").split("\t")


def _quoted_records(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their first line; a quoted name may hold line ends."""
    reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as cause:
            raise GraphError(
                f"{path}, line {number}: the line is not CSV ({cause}); put names with commas, "
                "quotes or line ends in double quotes and double the quotes inside"
            ) from cause
        if fields:
            yield number, fields


def _is_header(fields: tuple[Any, ...] | list[str], layout: Layout) -> bool:
    return tuple(field.lower() for field in fields) in layout.headers


def read_parquet(path: Path, layout: Layout) -> NameTable:
    """The table of a Parquet file."""
    content = read_bytes(path)
    try:
        frame = pl.read_parquet(io.BytesIO(content))
    except POLARS_FAILURES as cause:
        raise GraphError(
            f"{path} is not a whole Parquet file; write or download it again"
        ) from cause
    table = from_frame(frame, layout, str(path))
    if table.frame.is_empty():
        raise GraphError(f"{path} is empty; it needs rows of {_listed(layout.columns)}")
    return table


def from_frame(frame: pl.DataFrame, layout: Layout, origin: str) -> NameTable:
    """The table of a frame whose columns are named as in the layout, or are just as many."""
    by_name = {column.lower(): column for column in frame.columns}
    chosen = next(
        ([by_name[n] for n in names] for names in layout.aliases if by_name.keys() >= set(names)),
        frame.columns,
    )
    if len(chosen) != len(layout.columns):
        raise GraphError(
            f"{origin} has {len(chosen)} columns ({', '.join(chosen) or 'none'}); name "
            f"{len(layout.columns)} of them {_listed(layout.columns)}"
        )
    texts = pl.DataFrame(
        [
            _as_text(frame[column], origin).alias(name)
            for name, column in zip(layout.columns, chosen, strict=True)
        ]
    )

    def examine() -> None:
        check_names(texts, lambda row: f"{origin}, row {row + 1}")

    if any(column.null_count() for column in texts):
        examine()
    return NameTable(texts, origin, examine)


def _as_text(column: pl.Series, origin: str) -> pl.Series:
    kind = column.dtype
    if not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
        raise GraphError(
            f"{origin}, column {column.name!r} holds {kind} values; "
            "names must be strings or integers"
        )
    return column.cast(pl.String)


def bad_names(names: pl.Expr) -> pl.Expr:
    """Which names cannot be used: null, blank, longer than LONGEST_NAME, or with a NUL."""
    return (
        names.is_null()
        | (names.str.strip_chars() == "")
        | (names.str.len_chars() > LONGEST_NAME)
        | names.str.contains("\0", literal=True)
    )


def check_names(frame: pl.DataFrame, place: Callable[[int], str]) -> None:
    """Raise GraphError for the first row with a bad name; `place` says where a row stands."""
    bad = frame.select(bad_names(pl.all()))
    rows = bad.select(pl.any_horizontal(pl.all())).to_series().arg_true()
    if not len(rows):
        return
    row = int(rows[0])
    column = next(column for column in frame.columns if bad[column][row])
    name = frame[column][row]
    if name is None or not name.strip():
        fault = "is blank; write a name or leave this row out"
    elif "\0" in name:
        fault = "holds a NUL character; remove it"
    else:
        fault = f"has {len(name)} characters; shorten it to at most {LONGEST_NAME}"
    raise GraphError(f"{place(row)}: the {column} {fault}")


def _listed(columns: tuple[str, ...]) -> str:
    return f"{', '.join(columns[:-1])} and {columns[-1]}"
