"""Ids for more names than memory holds: batches of names go to disk, by their hash into parts, and
one part after the other is numbered."""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from reltucker.graph.arrays import Array, blocks, growing, mapped
from reltucker.graph.tables import bad_names

BLOCK = 1 << 20
"""Places that are gone through at a time."""
BYTES_BESIDE = 32
"""What a name takes beside its text."""


class Pieces:
    """A file with frames one after the other, each of which can be read without the others."""

    def __init__(self, path: Path, frames: Iterable[pl.DataFrame]) -> None:
        self.path = path
        self._ends = [0]
        with path.open("wb") as file:
            for frame in frames:
                frame.write_ipc_stream(file, compat_level=pl.CompatLevel.oldest())
                self._ends.append(file.tell())

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(self.read, range(len(self)))

    def read(self, number: int) -> pl.DataFrame:
        """The frame with this number."""
        begin, end = self._ends[number : number + 2]
        with self.path.open("rb") as file:
            file.seek(begin)
            return pl.read_ipc_stream(io.BytesIO(file.read(end - begin)))


class NameNumbers:
    """The ids of names by first appearance.

    Every batch has its distinct names, in the order of their first appearance; each of them has a
    place, and places are counted through all batches. So the first place of a name tells when it
    appeared first, and its id is the number of first places before that.
    """

    def __init__(self, folder: Path, parts: int, batch: int) -> None:
        """A part is held while it is numbered, and about `batch` bytes when names are read."""
        self.folder = folder
        self.parts = parts
        self.batch = batch
        self.places = 0
        self._bytes = 0
        self._batches: list[Pieces] = []
        self._parts: list[Pieces] = []
        folder.mkdir()

    def add(self, names: pl.Series) -> None:
        """The distinct names of the next batch."""
        frame = pl.DataFrame({"name": names}).with_row_index("place", offset=self.places)
        part = (pl.col("name").hash(seed=0) % self.parts).cast(pl.Int64)
        frame = frame.with_columns(pl.col("place").cast(pl.Int64), part=part)
        frame = frame.sort("part", maintain_order=True)
        bounds = np.searchsorted(frame["part"].to_numpy(), np.arange(self.parts + 1))
        path = self.folder / f"batch-{len(self._batches)}.arrow"
        self._batches.append(Pieces(path, _between(frame.drop("part"), bounds)))
        self.places += len(names)
        self._bytes += int(names.str.len_bytes().sum()) + BYTES_BESIDE * len(names)

    def number(self, advance: Callable[[int], None] | None = None) -> bool:
        """Find the id of every place; whether all names can be used."""
        kind = np.int32 if self.places < 2**31 else np.int64
        first = np.lib.format.open_memmap(
            self.folder / "first.npy", mode="w+", dtype=kind, shape=(self.places,)
        )
        step = max(self.batch * self.places // self._bytes, 1)
        blocks_of_names = np.arange(0, self.places + step, step)
        for part in range(self.parts):
            frame = pl.concat([batch.read(part) for batch in self._batches])
            frame = frame.with_columns(first=pl.col("place").first().over("name"))
            first[frame["place"].to_numpy()] = frame["first"].to_numpy()
            distinct = frame.filter(pl.col("place") == pl.col("first")).drop("first")
            if distinct.select(bad_names(pl.col("name")).any()).item():
                return False
            bounds = np.searchsorted(distinct["place"].to_numpy(), blocks_of_names)
            path = self.folder / f"part-{part}.arrow"
            self._parts.append(Pieces(path, _between(distinct, bounds)))
            if advance is not None:
                advance(len(frame))
        for batch in self._batches:
            batch.path.unlink()
        first.flush()
        del first
        self._rank()
        return True

    def _rank(self) -> None:
        """From first places to ids."""
        count = 0
        with growing(self.folder / "ranks.npy", np.int32) as append:
            for begin, first in blocks(self.folder / "first.npy", BLOCK):
                is_first = first == np.arange(begin, begin + len(first))
                append(count - 1 + np.cumsum(is_first))
                count += int(is_first.sum())
        ranks = mapped(self.folder / "ranks.npy")
        with growing(self.folder / "ids.npy", np.int32) as append:
            for _, first in blocks(self.folder / "first.npy", BLOCK):
                append(ranks[first])

    def ids(self, begin: int, end: int) -> Array:
        """The ids of the names at these places."""
        return mapped(self.folder / "ids.npy")[begin:end].copy()

    def before(self, place: int) -> int:
        """How many different names stand at places below this one."""
        return int(mapped(self.folder / "ranks.npy")[place - 1]) + 1 if place else 0

    def names(self) -> Iterator[pl.Series]:
        """All names in the order of their ids, some at a time."""
        for pieces in zip(*self._parts, strict=True):
            yield pl.concat(pieces).sort("place")["name"]


def _between(frame: pl.DataFrame, bounds: Array) -> Iterator[pl.DataFrame]:
    """The rows from each bound to the next."""
    for begin, end in pairwise(bounds.tolist()):
        yield frame.slice(begin, end - begin)
