"""Files that appear whole or not at all: temporary name, flush to disk, rename."""

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is flushed and renamed to `path`.

    When the body raises, the temporary file is removed and `path` stays as it was. Whatever writes
    it, the file gets the permissions that the umask leaves, and a full disk is an OSError that
    names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, path)
    except Exception as error:
        # Rust tells the number of a fault within its text.
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = getattr(error, "errno", None) or (found and int(found[1]))
        if not isinstance(number, int):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
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


def parse_json(text: str | bytes) -> Any:
    """What a JSON text holds; ValueError, which says why, for what `write_json` never writes."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """What a JSON file holds; OSError or ValueError where it cannot be read."""
    return parse_json(path.read_bytes())


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
