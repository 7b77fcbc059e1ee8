"""Tables of names: TSV, CSV and Parquet files, and frames, as columns of checked strings.

Text is read twice at most. Polars reads it in bulk; only where that meets anything odd does a
careful pass over the lines decide, which either names the first bad line or finds that all is well.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeAlias

import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.panics import quiet_panics

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


Columns: TypeAlias = tuple[str, ...]

TRIPLES: Columns = ("subject", "relation", "object")
LABELS: Columns = ("id", "name")
LITERAL_LABELS = {**dict.fromkeys((*LABELS, "language"), pl.String), "property": pl.UInt8}
"""Labels as RDF has them; the lower the property, the better."""
NAME_LIST: Columns = ("name",)
HEADERS = {
    TRIPLES: (TRIPLES, ("head", "relation", "tail")),
    LABELS: (LABELS, ("id", "label")),
    NAME_LIST: (NAME_LIST,),
}
"""What a first line may call the columns."""


@dataclass(frozen=True, eq=False)
class NameTable:
    """String columns without nulls, and where they come from.

    Whether a name is blank, too long or holds a NUL is left to the caller, who checks distinct
    names only; when one is bad, `examine` raises the GraphError that says where.
    """

    frame: pl.DataFrame
    origin: str
    examine: Callable[[], object]
    literals: int = 0
    """Triples that were left out, since their object is a value."""
    labels: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LITERAL_LABELS))
    """Labels that stood among the triples."""


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed when its name ends with .gz, .zst or .zstd."""
    return b"".join(read_pieces(path))


def read_pieces(
    path: Path, size: int = -1, advance: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """As `read_bytes`, in pieces for which at most `size` bytes are read or decompressed at a
    time; `advance` is told how much of the file on the disk is done."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    cannot = f"{path} cannot be read ({{}}); check the path and its permissions"
    broken = f"{path} is not a whole {compression} file ({{}}); download or compress it again"
    try:
        file = path.open("rb")
    except OSError as cause:
        raise GraphError(cannot.format(cause.strerror)) from cause
    done = 0
    with file:
        try:
            for piece in _decompressed(path, file, compression, size):
                if advance is not None:
                    advance(file.tell() - done)
                    done = file.tell()
                yield piece
        except (OSError, EOFError, ValueError, zlib.error) as cause:
            raise GraphError((broken if compression else cannot).format(cause)) from cause


def _decompressed(
    path: Path, file: BinaryIO, compression: str | None, size: int
) -> Iterator[bytes]:
    if compression == "zstd":
        yield from _decompressed_zstd(path, file, size)
        return
    content = gzip.GzipFile(fileobj=file) if compression else file
    while piece := content.read(size):
        yield piece


def _decompressed_zstd(path: Path, file: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise GraphError(
            f"{path} needs the package zstandard; install it or decompress the file first"
        ) from None
    frame = None
    while content := file.read(size):
        while content:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                yield frame.decompress(content)
            except zstandard.ZstdError as cause:
                raise ValueError(str(cause)) from cause
            content = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError("the end of the last frame is missing")


def read_text(path: Path, columns: Columns, *, quoted: bool = False) -> NameTable:
    """A table of text: comma separated with quotes when `quoted`, else tab separated without."""
    read_carefully = partial(_read_carefully, path, columns, quoted=quoted)
    frame = _read_in_bulk(path, columns, quoted=quoted)
    if frame is None:
        frame = read_carefully()
    if len(frame) and tuple(name.lower() for name in frame.row(0)) in HEADERS[columns]:
        frame = frame.slice(1)
    return NameTable(frame, str(path), read_carefully)


def _read_in_bulk(path: Path, columns: Columns, *, quoted: bool) -> pl.DataFrame | None:
    """The table as polars reads it; None when anything about it is not plain."""
    # Polars decompresses zstd by itself and without a further package, but goes by the first
    # bytes and not by the name; gzip is decompressed here.
    compression = COMPRESSIONS.get(path.suffix.lower())
    source = read_bytes(path) if compression == "gzip" else path
    try:
        if compression == "zstd":
            with path.open("rb") as file:
                if file.read(len(ZSTD_START)) != ZSTD_START:
                    return None
    except OSError:
        return None
    return parse_in_bulk(source, columns, quoted=quoted)


def parse_in_bulk(source: Path | bytes, columns: Columns, *, quoted: bool) -> pl.DataFrame | None:
    """The table of a file or of whole lines as polars reads it; None when anything about it is
    not plain."""
    try:
        frame = pl.read_csv(
            source,
            separator="," if quoted else "\t",
            quote_char='"' if quoted else None,
            has_header=False,
            schema=dict.fromkeys(columns, pl.String),
            glob=False,
        )
    except POLARS_FAILURES:
        return None
    # A null is a blank line, a missing column or a blank name.
    return None if frame.is_empty() or any(column.null_count() for column in frame) else frame


def _read_carefully(path: Path, columns: Columns, *, quoted: bool) -> pl.DataFrame:
    """The table, line by line; raises GraphError with the first line that is not as it must be."""
    lines = io.BytesIO(read_bytes(path))
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    return pl.concat([empty, *careful_batches(lines, path, columns, quoted=quoted)])


def careful_batches(
    lines: Iterable[bytes], path: Path, columns: Columns, *, quoted: bool, first: int = 1
) -> Iterator[pl.DataFrame]:
    """The table of lines of a file, the first of them with the number `first`, in batches; raises
    GraphError with the first line that is not as it must be."""
    schema = dict.fromkeys(columns, pl.String)
    records = _records(_decoded(lines, path, first), path, quoted, first)
    while batch := list(islice(records, BATCH)):
        numbers, rows = zip(*batch, strict=True)
        good = next((n for n, row in enumerate(rows) if len(row) != len(columns)), len(rows))
        frame = pl.DataFrame(rows[:good], schema=schema, orient="row")
        check_names(frame, f"{path}, line", numbers)
        if good < len(rows):
            raise GraphError(
                f"{path}, line {numbers[good]}: {len(rows[good])} columns found where "
                f"{len(columns)} are needed; write {', '.join(columns)} "
                f"with one {'comma' if quoted else 'tab'} between them"
            )
        yield frame


def _records(
    lines: Iterator[str], path: Path, quoted: bool, first: int
) -> Iterator[tuple[int, list[str]]]:
    """The fields of a line and its number, without blank lines; a quoted name may span lines."""
    reader = csv.reader(lines, strict=True)
    split = (line.removesuffix("\n").removesuffix("\r").split("\t") for line in lines)
    number = first
    try:
        for fields in reader if quoted else split:
            if len(fields) > 1 or "".join(fields).strip():
                yield number, fields
            number = first + reader.line_num if quoted else number + 1
    except csv.Error as cause:
        raise GraphError(
            f"{path}, line {number}: the line is not CSV ({cause}); put names with commas, "
            "quotes or line ends in double quotes and double the quotes inside"
        ) from cause


def _decoded(lines: Iterable[bytes], path: Path, first: int) -> Iterator[str]:
    for number, line in enumerate(lines, first):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as cause:
            raise GraphError(
                f"{path}, line {number}: the text is not UTF-8 (byte {cause.start + 1} of the "
                "line); save the file as UTF-8"
            ) from cause


def read_parquet(path: Path, columns: Columns) -> NameTable:
    """The table of a Parquet file."""
    content = read_bytes(path)
    try:
        with quiet_panics():
            frame = pl.read_parquet(io.BytesIO(content))
    except POLARS_FAILURES as cause:
        raise GraphError(
            f"{path} is not a whole Parquet file; write or download it again"
        ) from cause
    return from_frame(frame, columns, str(path))


def from_frame(frame: pl.DataFrame, columns: Columns, origin: str, first_row: int = 1) -> NameTable:
    """The table of a frame whose columns are named as in a header, or s, p, o, or are as many."""
    by_name = {column.lower(): column for column in frame.columns}
    headers = [names for names in (*HEADERS[columns], tuple("spo")) if by_name.keys() >= set(names)]
    chosen = [by_name[name] for name in headers[0]] if headers else frame.columns
    if len(chosen) != len(columns):
        raise GraphError(
            f"{origin} has {len(chosen)} columns ({', '.join(chosen) or 'none'}); name "
            f"{len(columns)} of them {', '.join(columns)}"
        )
    for column in chosen:
        kind = frame[column].dtype
        if not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
            raise GraphError(
                f"{origin}, column {column!r} holds {kind} values; "
                "names must be strings or integers"
            )
    names = zip(chosen, columns, strict=True)
    texts = frame.select(pl.col(column).cast(pl.String).alias(name) for column, name in names)
    examine = partial(
        check_names, texts, f"{origin}, row", range(first_row, first_row + len(texts))
    )
    if any(column.null_count() for column in texts):
        examine()
    return NameTable(texts, origin, examine)


def bad_names(names: pl.Expr) -> pl.Expr:
    """Which names cannot be used: null, blank, longer than LONGEST_NAME, or with a NUL."""
    return (
        names.is_null()
        | (names.str.strip_chars() == "")
        | (names.str.len_chars() > LONGEST_NAME)
        | names.str.contains("\0", literal=True)
    )


def check_names(frame: pl.DataFrame, place: str, numbers: Sequence[int]) -> None:
    """Raise GraphError for the first row with a bad name, which is at `place` and its number."""
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
    raise GraphError(f"{place} {numbers[row]}: the {column} {fault}")
