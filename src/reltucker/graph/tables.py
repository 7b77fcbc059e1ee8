"""Tables of names: TSV, CSV and Parquet files, and frames, as columns of checked strings.

Text is read twice at most. Polars reads it in bulk; only where that meets anything odd does a
careful pass over the lines decide, which either names the first bad line or finds that all is well.
"""

import csv
import gzip
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import polars as pl

from reltucker.errors import GraphError
from reltucker.machine import memory_limit

LONGEST_NAME = 100_000
"""A longer name is taken for a damaged file."""

BATCH = 100_000
"""Rows that the careful pass holds as Python objects at a time."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}

GZIP_START = b"\x1f\x8b"
ZSTD_START = b"\x28\xb5\x2f\xfd"

PIECE = 1 << 20
"""Bytes that are read of a file at a time."""
ZSTD_PIECE = 1 << 10
"""Bytes of a zstd file that are decompressed at a time: to 32 MiB at the most."""

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
    TRIPLES: (
        *itertools.product(
            ("subject", "head", "source", "src", "from", "start"),
            ("relation", "predicate", "property", "relationship", "rel", "edge", "label", "type"),
            ("object", "tail", "target", "dst", "to", "end"),
        ),
        *(tuple(letters) for letters in ("spo", "sro", "hrt")),
    ),
    LABELS: (LABELS, ("id", "label")),
    NAME_LIST: (NAME_LIST,),
}
"""What a first line may call the columns, the usual names first."""

DEFAULT_MEMORY = "50%"

LONGEST_LINE = 1 << 24
"""Bytes; a longer line is taken for a damaged file."""


@dataclass(frozen=True, eq=False)
class NameTable:
    """Columns of strings or categoricals without nulls, and where they come from.

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


class Reading(NamedTuple):
    """How a table is to be read.

    columns    : which columns are which (`layout_of`); by default they are told by their names, or
                 are as many as are needed
    max_memory : a share of the machine's memory, or a size such as 8GB
    """

    columns: str | None = None
    max_memory: str = DEFAULT_MEMORY

    def check(self, needed: float, origin: object) -> None:
        """Refuse what needs more memory than the limit."""
        limit = memory_limit(self.max_memory, "--max-memory")
        if needed > limit:
            raise GraphError(
                f"{origin} unpacks to a graph of more than {limit / 2**30:,.1f} GiB, the limit of "
                f"memory ({self.max_memory}); if it is what you expect, raise --max-memory "
                "(max_memory in Python), or read it once by `reltucker data prepare`"
            )


class Layout(NamedTuple):
    """Where names stand in rows that are `width` wide, and whether the first row is a header."""

    width: int
    places: tuple[int, ...]
    has_header: bool

    def fits(self, row: Sequence[str]) -> bool:
        """Whether a row has the columns; further ones are fine where there are others anyway."""
        return len(row) == self.width or (
            self.width > len(self.places) and len(row) > max(self.places)
        )


def layout_of(first: Sequence[str], columns: Columns, chosen: str | None, origin: str) -> Layout:
    """The layout of a table whose first row, or whose header, is `first`.

    `chosen` is a list with commas: either `columns` themselves, in the order in which they stand
    from the first column on (relation,subject,object), or, for each of `columns`, the name or the
    number, from 1, of the column that holds it.
    """
    names = [name.strip().lower() for name in first]
    found = next((h for h in HEADERS[columns] if set(h) <= set(names)), None)
    if chosen is None:
        places = tuple(range(len(columns))) if found is None else tuple(map(names.index, found))
        width = len(columns) if found is None else len(names)
        return Layout(width, places, found is not None)
    parts = [part.strip().lower() for part in chosen.split(",")]
    if len(parts) != len(columns):
        raise GraphError(
            f"--columns {chosen}: {len(parts)} columns are named where {len(columns)} are needed, "
            f"for {', '.join(columns)}"
        )
    if set(parts) == set(columns):
        places, has_header = tuple(map(parts.index, columns)), found is not None
    else:
        has_header = found is not None or any(part in names for part in parts)
        places = tuple(_place(part, names) for part in parts)
    for place, part in zip(places, parts, strict=True):
        if not 0 <= place < len(names):
            raise GraphError(
                f"{origin} has no column {part!r}; its first row is {', '.join(first)[:200]}"
            )
    return Layout(len(names), places, has_header)


def _place(part: str, names: Sequence[str]) -> int:
    """The place of a column by its name or its number; -1 where there is none."""
    return names.index(part) if part in names else int(part) - 1 if part.isdecimal() else -1


def stem_and_suffix(path: Path) -> tuple[str, str]:
    """The name without its endings, and the ending of the format, in lower case."""
    inner = Path(path.stem) if path.suffix.lower() in COMPRESSIONS else Path(path.name)
    return inner.stem, inner.suffix.lower()


def empty_file(path: Path, columns: Columns = TRIPLES, literals: int = 0) -> GraphError:
    """What to say of a file without rows."""
    only = f" (it has {literals} with literals only)" if literals else ""
    return GraphError(f"{path} is empty; it needs rows of {', '.join(columns)}{only}")


def read_pieces(
    path: Path, size: int = PIECE, advance: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """The content of a file, decompressed where it is compressed, in pieces of about `size` bytes;
    `advance` is told how much of the file on the disk is done."""
    compression = _compression(path)
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
        yield from _decompressed_zstd(path, file)
        return
    content = gzip.GzipFile(fileobj=file) if compression else file
    while piece := content.read(size):
        yield piece


def _compression(path: Path) -> str | None:
    """By the ending of the name, or by the first bytes, which no text begins with."""
    if path.suffix.lower() in COMPRESSIONS or not path.is_file():
        return COMPRESSIONS.get(path.suffix.lower())
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError:  # which is told of by whoever reads on
        return None
    return "gzip" if start[:2] == GZIP_START else "zstd" if start == ZSTD_START else None


def _decompressed_zstd(path: Path, file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise GraphError(
            f"{path} needs the package zstandard; install it or decompress the file first"
        ) from None
    frame = None
    while content := file.read(ZSTD_PIECE):
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


def parse_in_bulk(
    source: bytes, columns: Columns, layout: Layout, *, quoted: bool
) -> pl.DataFrame | None:
    """The table of whole lines as polars reads it; None when anything about it is not plain."""
    try:
        frame = pl.read_csv(
            source,
            separator="," if quoted else "\t",
            quote_char='"' if quoted else None,
            has_header=False,
            schema=dict.fromkeys(map(str, range(layout.width)), pl.String),
            glob=False,
        )
    except POLARS_FAILURES:
        return None
    names = zip(layout.places, columns, strict=True)
    frame = frame.select(pl.col(str(place)).alias(name) for place, name in names)
    # A null is a blank line, a missing column or a blank name.
    return None if frame.is_empty() or any(column.null_count() for column in frame) else frame


def careful_batches(
    lines: Iterable[bytes],
    path: Path,
    columns: Columns,
    layout: Layout,
    *,
    quoted: bool,
    first: int = 1,
) -> Iterator[pl.DataFrame]:
    """The table of lines of a file, the first of them with the number `first`, in batches; raises
    GraphError with the first line that is not as it must be."""
    schema = dict.fromkeys(columns, pl.String)
    records = _records(_decoded(lines, path, first), path, quoted, first)
    while batch := list(islice(records, BATCH)):
        numbers, rows = zip(*batch, strict=True)
        good = next((n for n, row in enumerate(rows) if not layout.fits(row)), len(rows))
        chosen = [[row[place] for place in layout.places] for row in rows[:good]]
        frame = pl.DataFrame(chosen, schema=schema, orient="row")
        check_names(frame, f"{path}, line", numbers)
        if good < len(rows):
            raise GraphError(
                f"{path}, line {numbers[good]}: {len(rows[good])} columns found where "
                f"{layout.width} are needed; write {', '.join(columns)} "
                f"with one {'comma' if quoted else 'tab'} between them, or name by `columns` those "
                "that count"
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


def from_frame(
    frame: pl.DataFrame,
    columns: Columns,
    origin: str,
    first_row: int = 1,
    order: str | None = None,
) -> NameTable:
    """The table of a frame whose columns are named as in a header, or are as many, or are told by
    `order` (`layout_of`)."""
    layout = layout_of(frame.columns, columns, order, origin)
    chosen = [frame.columns[place] for place in layout.places if place < frame.width]
    if order is None and not layout.has_header and frame.width != len(columns):
        raise GraphError(
            f"{origin} has {frame.width} columns ({', '.join(frame.columns) or 'none'}); name "
            f"{len(columns)} of them {', '.join(columns)}, or say by `columns` which they are"
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
