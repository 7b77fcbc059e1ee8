"""Checksums that stand in the files of a run, so that damage shows when they are read.

Each file has its own inside of it: however a process ends, no file is parted from its checksum.
Files that were written before there were any are read without.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

CHECKSUM = "checksum"
PREFIX = "crc32:"
DIFFERS = "its checksum tells that it was changed after it had been written"


def checksum(*parts: bytes | memoryview | npt.NDArray[Any]) -> str:
    """Of bytes, and of arrays with their types and shapes."""
    found = 0
    for part in parts:
        if isinstance(part, bytes | memoryview):
            found = zlib.crc32(part, found)
        else:
            found = zlib.crc32(f"{part.dtype}{part.shape}".encode(), found)
            found = zlib.crc32(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data, found)
    return f"{PREFIX}{found:08x}"


def signed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document with its checksum."""
    return {**document, CHECKSUM: _of(document)}


def unsigned(document: Any) -> dict[str, Any]:
    """The document without its checksum, if it has one; ValueError where that differs, and for
    what is no document at all."""
    if not isinstance(document, dict):
        raise ValueError("it does not hold a table of names and values")
    rest = {key: value for key, value in document.items() if key != CHECKSUM}
    found = document.get(CHECKSUM)
    if found is None:
        # A name of which a bit has changed must not make a file of earlier times of it.
        if any(isinstance(value, str) and value.startswith(PREFIX) for value in rest.values()):
            raise ValueError(DIFFERS)
    elif found != _of(rest):
        raise ValueError(DIFFERS)
    return rest


def signed_text(text: str) -> str:
    """A text of whole lines after a comment with its checksum, which a text that was cut keeps."""
    return f"# {CHECKSUM} {checksum(text.encode())}\n{text}"


def verify_text(text: str) -> None:
    """Raise ValueError where a text is not what `signed_text` has made, if it has; and where
    nothing is left of it."""
    first, _, rest = text.partition("\n")
    if all(line.startswith("#") or not line.strip() for line in text.splitlines()):
        raise ValueError("it is empty")
    # A comment as long as ours is ours, whichever bit of it has changed.
    is_signed = first.startswith("#") and len(first) == len(signed_text("")) - 1
    if is_signed and text != signed_text(rest):
        raise ValueError(DIFFERS)


def _of(document: Mapping[str, Any]) -> str:
    # As it will be read: JSON knows no names but texts, whatever they were.
    plain = json.loads(json.dumps(document))
    return checksum(json.dumps(plain, sort_keys=True).encode())
