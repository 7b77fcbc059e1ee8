"""Arrays in .npy files: written block by block, read block by block, or mapped into memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reltucker.atomic import replacing

Array = npt.NDArray[Any]
Append = Callable[[Array], None]

HEADER = 128
"""Bytes before the entries of a .npy file whose number is not known yet."""


@contextmanager
def growing(path: Path, dtype: npt.DTypeLike, width: int | None = None) -> Iterator[Append]:
    """Yields a function that appends entries, or rows of `width` of them; the file appears whole,
    at the end."""
    count = 0
    with replacing(path) as temporary, open(temporary, "wb", buffering=0) as file:
        file.write(bytes(HEADER))

        def append(entries: Array) -> None:
            nonlocal count
            count += len(entries)
            np.ascontiguousarray(entries, dtype=dtype).tofile(file)

        yield append
        file.seek(0)
        shape = (count,) if width is None else (count, width)
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(file, header)
        assert file.tell() == HEADER, "numpy leaves room for numbers of 21 digits"


def mapped(path: Path) -> Array:
    """The array of a file, mapped: processes share its pages, which are read when they are needed.

    What a process writes there stays its own and never comes to the file; that torch may take the
    array as it is, without a copy, is why it can be written to at all.
    """
    array = np.load(path, mmap_mode="c", allow_pickle=False)
    return np.asarray(array).view(np.ndarray)


def blocks(path: Path, size: int) -> Iterator[tuple[int, Array]]:
    """Copies of `size` entries or rows at a time, each with the number of its first.

    The file is mapped anew for each, so that pages that were read do not stay with the process.
    """
    length = len(mapped(path))
    for begin in range(0, length, size):
        yield begin, mapped(path)[begin : begin + size].copy()
