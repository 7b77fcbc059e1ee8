"""Archives of others, unpacked as streams: only names that are expected are written, and only so
many bytes."""

import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

from reltucker.errors import GraphError

PIECE = 1 << 20
"""Bytes that are held at a time."""

PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)

# Headers with absurd numbers end in ValueError and OverflowError inside of tarfile.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, ValueError, OverflowError)


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class LimitedReader:
    """Hands on what another stream holds, and refuses more than so many bytes of it."""

    def __init__(self, stream: _Readable, limit: int, refusal: str) -> None:
        self.stream, self.left, self.refusal = stream, limit, refusal

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        content = self.stream.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise GraphError(self.refusal)
        return content


class LimitedWriter:
    """Writes to a file, and refuses more than so many bytes."""

    def __init__(self, file: BinaryIO, limit: int, refusal: str) -> None:
        self.file, self.left, self.refusal = file, limit, refusal

    def write(self, content: bytes) -> int:
        """Write the next bytes."""
        self.left -= len(content)
        if self.left < 0:
            raise GraphError(self.refusal)
        return self.file.write(content)

    def flush(self) -> None:
        """The file is flushed when it is closed."""


def unpack_gzip(path: Path, origin: str, target: Path, limit: int) -> None:
    """Write what a .gz holds to the file `target`."""
    try:
        with gzip.open(path) as content, target.open("wb") as file:
            _copy(LimitedReader(content, limit, _too_much(origin, limit)), file)
    except _DAMAGE as cause:
        raise GraphError(f"{origin} is damaged and cannot be unpacked ({cause})") from cause


def unpack_tar(
    path: Path, origin: str, names: Collection[str], folder: Path, limit: int, *, only: str = ""
) -> list[str]:
    """Write the files of a .tar.gz with these names, in whatever folder they stand, to `folder`.

    Other plain files are passed over; names that lead elsewhere, links and devices are refused.
    With `only`, which says what an archive may hold, everything but these names at the top is
    refused. Returns the names in their order.
    """
    written: list[str] = []
    try:
        with gzip.open(path) as content:
            stream = LimitedReader(content, limit, _too_much(origin, limit))
            with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:
                for member in archive:
                    name = _name(member, origin, names, only)
                    if member.size < 0:
                        raise tarfile.ReadError(f"{member.name} cannot have {member.size:,} bytes")
                    if name is None:
                        if member.size > limit:  # tarfile would read on after the end of the file
                            raise GraphError(stream.refusal)
                        continue
                    written.append(name)
                    source = archive.extractfile(member)
                    assert source is not None, "a regular file has content"
                    with (folder / name).open("wb") as file:
                        _copy(source, file)
            # The end of the archive is not yet that of the file, which has the checksum.
            while stream.read(PIECE):
                pass
    except _DAMAGE as cause:
        raise GraphError(f"{origin} is damaged and cannot be unpacked ({cause})") from cause
    return written


def _name(member: tarfile.TarInfo, origin: str, names: Collection[str], only: str) -> str | None:
    """The name under which a member is written; None where it is passed over."""
    is_plain = member.type in PLAIN
    if only:
        if member.name not in names or not is_plain:
            raise GraphError(f"{origin} may only hold {only}, but has {member.name[:200]!r}")
        return member.name
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (is_plain or member.isdir()):
        raise GraphError(
            f"{origin} may only hold plain files in folders of its own, but has "
            f"{member.name[:200]!r}"
        )
    return path.name if is_plain and path.name in names else None


def _copy(source: _Readable, target: BinaryIO) -> None:
    while piece := source.read(PIECE):
        target.write(piece)


def _too_much(origin: str, limit: int) -> str:
    return f"{origin} unpacks to more than {limit:,} bytes"
