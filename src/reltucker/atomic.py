"""Files that appear whole or not at all: temporary name, flush to disk, rename."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is flushed and renamed to `path`.

    When the body raises, the temporary file is removed and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # which alone lets a folder be opened, to make the rename durable
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON; NaN and infinities are refused, for they are not JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_with(path: Path, writer: Callable[[Path], Any]) -> None:
    """Let `writer` fill a temporary path which then becomes `path`."""
    with replacing(path) as temporary:
        writer(temporary)


def is_free(folder: Path) -> bool:
    """Whether a folder is missing or empty; half-written files of a killed process do not count."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        path.name.startswith(".") and path.name.endswith(".tmp") for path in folder.iterdir()
    )
