"""Folders that the program writes: whether one is free, and one process at a time in it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from reltucker.errors import FolderInUseError

LOCK = ".reltucker.lock"
"""Its lock ends with the process that holds it, however that ends; the file itself says nothing
but that the folder was made here."""
HALF_WRITTEN = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
"""What `atomic` writes to before it renames."""


def is_free(folder: Path) -> bool:
    """Whether a folder is missing or empty; half-written files of a killed process do not count."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        path.name == LOCK or (path.name.startswith(".") and path.name.endswith(".tmp"))
        for path in folder.iterdir()
    )


@contextmanager
def sole_writer(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Make a folder and hold it; whoever else wants to hold it meanwhile, for so many seconds, is
    refused. What a killed process has left half-written there is removed."""
    lock = FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=wait)
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use: another process writes there; wait until it has ended, or end it"
        ) from None
    try:
        for path in folder.iterdir():
            if HALF_WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)
        yield
    finally:
        lock.release()
