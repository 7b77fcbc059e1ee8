"""Tables of names in batches: what `tables.py` and `sources.py` read whole, never held whole."""

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.sources import empty_file, stem_and_suffix
from reltucker.graph.tables import (
    COMPRESSIONS,
    HEADERS,
    POLARS_FAILURES,
    TRIPLES,
    careful_batches,
    check_names,
    from_frame,
    parse_in_bulk,
    read_pieces,
)

TEXT = {".tsv": False, ".txt": False, ".csv": True}
"""Formats of text that are read in batches, and whether names may stand in quotes."""
PARQUET = (".parquet", ".pq")

PIECE = 1 << 20
"""Bytes that are read of a file at a time."""
TASTED_ROWS = 10_000
"""Rows of a Parquet file that tell how many are a batch."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSED_STARTS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
"""Where a file begins so, polars decompresses it whatever its name is."""

Advance = Callable[[int], None] | None


def can_stream(path: Path) -> bool:
    """Whether a file can be read in batches."""
    suffix, compression = stem_and_suffix(path)[1], COMPRESSIONS.get(path.suffix.lower())
    if not path.is_file():
        return False
    if suffix in PARQUET:
        return compression is None
    if compression is None and suffix in TEXT:
        with path.open("rb") as file:
            return not file.read(4).startswith(COMPRESSED_STARTS)
    return suffix in TEXT and (compression == "gzip" or find_spec("zstandard") is not None)


def stream_triples(path: Path, size: int, advance: Advance = None) -> Iterator[pl.DataFrame]:
    """The triples of a file in frames of about `size` bytes of text; a bad row is a GraphError.

    Whether a name is blank, too long or holds a NUL is left to the caller, as in `read_file`;
    `examine_triples` says where. `advance` is told how many bytes of the file are done.
    """
    quoted = TEXT.get(stem_and_suffix(path)[1])
    frames = _parquet(path, size, advance) if quoted is None else _text(path, size, quoted, advance)
    is_empty = True
    for frame in frames:
        if not frame.is_empty():
            is_empty = False
            yield frame
    if is_empty:
        raise empty_file(path)


def examine_triples(path: Path) -> None:
    """Raise the GraphError that says where a file has a bad name, if it has one."""
    quoted = TEXT.get(stem_and_suffix(path)[1])
    if quoted is not None:
        for _ in careful_batches(_lines(_pieces(path)), path, TRIPLES, quoted=quoted):
            pass
        return
    row = 1
    for frame in _parquet(path, PIECE, None):
        check_names(frame, f"{path}, row", range(row, row + len(frame)))
        row += len(frame)


def _text(path: Path, size: int, quoted: bool, advance: Advance) -> Iterator[pl.DataFrame]:
    """A header is left out, as a whole file's is."""
    is_first = True
    for frame in _text_frames(path, size, quoted, advance):
        if is_first and tuple(name.lower() for name in frame.row(0)) in HEADERS[TRIPLES]:
            frame = frame.slice(1)
        is_first = False
        yield frame


def _text_frames(path: Path, size: int, quoted: bool, advance: Advance) -> Iterator[pl.DataFrame]:
    """Blocks of whole lines as polars reads them; from the first that is not plain on, the careful
    pass goes through the lines."""
    number = 1
    blocks = _blocks(_pieces(path, advance), size, quoted)
    for block in blocks:
        # In the middle of a file a mark belongs to a name, but polars would drop it.
        is_plain = number == 1 or not block.startswith(BYTE_ORDER_MARK)
        frame = parse_in_bulk(block, TRIPLES, quoted=quoted) if is_plain else None
        if frame is None:
            rest = _lines(chain([block], blocks))
            yield from careful_batches(rest, path, TRIPLES, quoted=quoted, first=number)
            return
        yield frame
        number += block.count(b"\n")


def _pieces(path: Path, advance: Advance = None) -> Iterator[bytes]:
    return read_pieces(path, PIECE, advance)


def _blocks(pieces: Iterable[bytes], size: int, quoted: bool) -> Iterator[bytes]:
    """The same bytes in blocks of whole lines of at least `size` bytes, but for the last."""
    waiting: list[bytes] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) >= size:
            block = b"".join(waiting)
            end = _end_of_lines(block, quoted)
            waiting = [block[end:]]
            if end:
                yield block[:end]
    if rest := b"".join(waiting):
        yield rest


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


def _parquet(path: Path, size: int, advance: Advance) -> Iterator[pl.DataFrame]:
    total = path.stat().st_size
    try:
        table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        height = int(table.select(pl.len()).collect().item())
        start, rows, done = 0, min(TASTED_ROWS, height), 0
        while start < height or not start:
            frame = table.slice(start, rows).collect(engine="streaming")
            yield from_frame(frame, TRIPLES, str(path), start + 1).frame
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
