"""Tables of names in batches, never held whole as text."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.panics import quiet_panics
from reltucker.graph.tables import (
    COMPRESSIONS,
    LONGEST_LINE,
    PIECE,
    POLARS_FAILURES,
    TRIPLES,
    Columns,
    Layout,
    NameTable,
    Reading,
    careful_batches,
    check_names,
    empty_file,
    from_frame,
    layout_of,
    parse_in_bulk,
    read_pieces,
    stem_and_suffix,
)

TEXT = {".tsv": False, ".txt": False, ".csv": True}
"""Formats of text that are read in batches, and whether names may stand in quotes."""
PARQUET = (".parquet", ".pq")

BATCH = 1 << 26
"""Bytes of text of which a graph is loaded at a time."""
TASTED_ROWS = 10_000
"""Rows of a Parquet file that tell how many are a batch."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSED_STARTS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
"""Where a block begins so, polars would decompress it."""

BYTES_OF_TRIPLE = 96
"""What a triple takes at the most while a graph is built."""
BYTES_OF_NAME = 120
"""What a name takes beside its text meanwhile."""

Advance = Callable[[int], None] | None


def can_stream(path: Path) -> bool:
    """Whether a file can be read in batches."""
    suffix = stem_and_suffix(path)[1]
    if suffix in PARQUET:
        return path.is_file() and path.suffix.lower() not in COMPRESSIONS
    return path.is_file() and suffix in TEXT


def read_table(path: Path, columns: Columns = TRIPLES, reading: Reading | None = None) -> NameTable:
    """The table of a file of text or Parquet, as categoricals; refused before it takes more memory
    than it may."""
    reading = reading or Reading()
    budget = Budget(path, reading)
    examine = partial(examine_triples, path, columns, reading.columns)
    if path.suffix.lower() in COMPRESSIONS and stem_and_suffix(path)[1] in PARQUET:
        content = b"".join(budget.counted(read_pieces(path)))
        frames = _parquet(path, BATCH, None, columns, reading.columns, budget, content)
    else:
        frames = _frames(path, BATCH, columns, reading.columns, None, budget)
    parts = [budget.kept(frame) for frame in frames]
    if not any(map(len, parts)):
        raise empty_file(path, columns)
    return NameTable(pl.concat(parts, rechunk=True), str(path), examine)


class Budget:
    """Counts what a table takes of the memory that it may take."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path, self.reading = path, reading
        self.rows = 0
        self.names = 0
        self.text = 0
        self.beside = 0

    def kept(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame as categoricals, which are numbers and each name once."""
        self.rows += len(frame)
        frame = frame.select(pl.all().cast(pl.Categorical))
        distinct = pl.concat([column.unique() for column in frame])
        length = int(distinct.cast(pl.String).str.len_bytes().sum())
        # Names of a batch may have stood in another; all of them together have codes from 0 on.
        self.names += len(distinct)
        codes = int(distinct.to_physical().max() or 0) + 1  # type: ignore[arg-type]
        each = BYTES_OF_NAME + length / max(len(distinct), 1)
        self.text = int(min(self.names, codes) * each)
        self.check()
        return frame

    def check(self, rows: int = 0) -> None:
        """Refuse more than there may be, with so many rows at least."""
        triples = BYTES_OF_TRIPLE * max(rows, self.rows)
        self.reading.check(triples + self.text + self.beside, self.path)

    def counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces that are held together."""
        for piece in pieces:
            self.beside += len(piece)
            self.check()
            yield piece


def stream_triples(
    path: Path, size: int, advance: Advance = None, order: str | None = None
) -> Iterator[pl.DataFrame]:
    """The triples of a file in frames of about `size` bytes of text; a bad row is a GraphError.

    Whether a name is blank, too long or holds a NUL is left to the caller, as in `read_file`;
    `examine_triples` says where. `advance` is told how many bytes of the file are done.
    """
    is_empty = True
    for frame in _frames(path, size, TRIPLES, order, advance):
        if not frame.is_empty():
            is_empty = False
            yield frame
    if is_empty:
        raise empty_file(path)


def _frames(
    path: Path,
    size: int,
    columns: Columns,
    order: str | None,
    advance: Advance,
    budget: Budget | None = None,
) -> Iterator[pl.DataFrame]:
    quoted = TEXT.get(stem_and_suffix(path)[1])
    if quoted is None:
        return _parquet(path, size, advance, columns, order, budget)
    return _text(path, size, quoted, advance, columns, order)


def examine_triples(path: Path, columns: Columns = TRIPLES, order: str | None = None) -> None:
    """Raise the GraphError that says where a file has a bad name, if it has one."""
    quoted = TEXT.get(stem_and_suffix(path)[1])
    if quoted is not None:
        blocks = _blocks(path, _pieces(path), PIECE, quoted)
        first = next(blocks, b"")
        layout = _layout(path, first, quoted, columns, order)
        lines = _lines(chain([first], blocks))
        for _ in careful_batches(lines, path, columns, layout, quoted=quoted):
            pass
        return
    row = 1
    for frame in _parquet(path, PIECE, None, columns, order):
        check_names(frame, f"{path}, row", range(row, row + len(frame)))
        row += len(frame)


def _text(
    path: Path, size: int, quoted: bool, advance: Advance, columns: Columns, order: str | None
) -> Iterator[pl.DataFrame]:
    """Blocks of whole lines as polars reads them; from the first that is not plain on, the careful
    pass goes through the lines. A header is left out."""
    number = 1
    layout = None
    blocks = _blocks(path, _pieces(path, advance), size, quoted)
    for block in blocks:
        is_first, layout = layout is None, layout or _layout(path, block, quoted, columns, order)
        drop = int(is_first and layout.has_header)
        # In the middle of a file a mark belongs to a name, but polars would drop it.
        is_plain = number == 1 or not block.startswith(BYTE_ORDER_MARK)
        is_plain = is_plain and not block.startswith(COMPRESSED_STARTS)
        frame = parse_in_bulk(block, columns, layout, quoted=quoted) if is_plain else None
        if frame is None:
            rest = _lines(chain([block], blocks))
            for frame in careful_batches(rest, path, columns, layout, quoted=quoted, first=number):
                yield frame.slice(drop)
                drop = 0
            return
        yield frame.slice(drop)
        number += block.count(b"\n")


def _layout(path: Path, block: bytes, quoted: bool, columns: Columns, order: str | None) -> Layout:
    """The layout by the first line that is not blank."""
    lines = block.removeprefix(BYTE_ORDER_MARK).split(b"\n", 100)
    line = next((line for line in lines[:100] if line.strip()), b"")
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    try:
        first = next(csv.reader([text]), [""]) if quoted else text.split("\t")
    except csv.Error:
        first = [text]  # which the careful pass tells of
    return layout_of(first, columns, order, str(path))


def _pieces(path: Path, advance: Advance = None) -> Iterator[bytes]:
    return read_pieces(path, PIECE, advance)


def _blocks(path: Path, pieces: Iterable[bytes], size: int, quoted: bool) -> Iterator[bytes]:
    """The same bytes in blocks of whole lines of at least `size` bytes, but for the last."""
    waiting: list[bytes] = []
    held, since = 0, 0
    for piece in pieces:
        waiting.append(piece)
        held += len(piece)
        since = since + len(piece) if b"\n" not in piece else 0
        if since > LONGEST_LINE:
            raise _long_line(path)
        if held >= size:
            block = b"".join(waiting)
            end = _end_of_lines(block, quoted)
            waiting, held = [block[end:]], len(block) - end
            if held > size + LONGEST_LINE:
                raise _long_line(path)
            if end:
                yield block[:end]
    if rest := b"".join(waiting):
        yield rest


def _long_line(path: Path) -> GraphError:
    return GraphError(
        f"{path} has a line of more than {LONGEST_LINE >> 20} MiB; the file is damaged, or a "
        "quote is not closed"
    )


def _end_of_lines(block: bytes, quoted: bool) -> int:
    """Where the last whole line ends; a line end between quotes is none."""
    end = block.rfind(b"\n") + 1
    if not quoted:
        return end
    before = block.count(b'"', 0, end)
    while before % 2:
        earlier = block.rfind(b"\n", 0, end - 1) + 1
        before -= block.count(b'"', earlier, end)
        end = earlier
    return end


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Single lines; only \n ends one."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _parquet(
    path: Path,
    size: int,
    advance: Advance,
    columns: Columns,
    order: str | None,
    budget: Budget | None = None,
    content: bytes | None = None,
) -> Iterator[pl.DataFrame]:
    total = path.stat().st_size
    try:
        with quiet_panics():
            if content is None:
                table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            else:
                table = pl.scan_parquet(io.BytesIO(content))
            height = int(table.select(pl.len()).collect().item())
        if budget is not None:
            budget.check(height)
        start, rows, done = 0, min(TASTED_ROWS, height), 0
        while start < height or not start:
            with quiet_panics():
                frame = table.slice(start, rows).collect(engine="streaming")
            yield from_frame(frame, columns, str(path), start + 1, order).frame
            start += max(rows, 1)
            if advance is not None:
                share = min(start, height) * total // max(height, 1)
                advance(share - done)
                done = share
            rows = max(1, int(size * len(frame) / max(frame.estimated_size(), 1)))
    except GraphError:
        raise
    except POLARS_FAILURES as cause:
        raise GraphError(
            f"{path} is not a whole Parquet file; write or download it again"
        ) from cause
