"""Ids for more names than memory holds: batches of names go to disk, by their hash into parts, and
one part after the other is numbered."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from reltucker.graph.arrays import Array, blocks, growing, mapped
from reltucker.graph.tables import bad_names

OLDEST = pl.CompatLevel.oldest()
"""Strings one after the other, so that a part of a file is a part of its bytes."""

BLOCK = 1 << 20
"""Names, or places, that are gone through at a time."""


class NameNumbers:
    """The ids of names by first appearance.

    Every batch has its distinct names, in the order of their first appearance; each of them has a
    place, and places are counted through all batches. So the first place of a name tells when it
    appeared first, and its id is the number of first places before that.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.folder = folder
        self.parts = parts
        self.places = 0
        self._begins: list[Array] = []
        self._block_begins: list[Array] = []
        folder.mkdir()

    def add(self, names: pl.Series) -> None:
        """The distinct names of the next batch."""
        frame = pl.DataFrame({"name": names}).with_row_index("place", offset=self.places)
        frame = frame.cast({"place": pl.Int64})
        part = pl.col("name").hash(seed=0) % self.parts
        frame = frame.with_columns(part=part.cast(pl.Int64)).sort("part", maintain_order=True)
        sizes = np.bincount(frame["part"].to_numpy(), minlength=self.parts)
        frame.drop("part").write_ipc(self._batch(len(self._begins)), compat_level=OLDEST)
        self._begins.append(np.concatenate([[0], np.cumsum(sizes)]))
        self.places += len(names)

    def number(self, advance: Callable[[int], None] | None = None) -> bool:
        """Find the id of every place; whether all names can be used."""
        first = np.lib.format.open_memmap(
            self.folder / "first.npy", mode="w+", dtype=np.int64, shape=(self.places,)
        )
        bounds = np.arange(0, self.places + BLOCK, BLOCK)
        for part in range(self.parts):
            frame = pl.concat(
                pl.scan_ipc(self._batch(number), glob=False)
                .slice(int(begins[part]), int(begins[part + 1] - begins[part]))
                .collect()
                for number, begins in enumerate(self._begins)
            )
            frame = frame.with_columns(first=pl.col("place").first().over("name"))
            first[frame["place"].to_numpy()] = frame["first"].to_numpy()
            distinct = frame.filter(pl.col("place") == pl.col("first")).drop("first")
            if distinct.select(bad_names(pl.col("name")).any()).item():
                return False
            distinct.write_ipc(self._part(part), compat_level=OLDEST)
            self._block_begins.append(np.searchsorted(distinct["place"].to_numpy(), bounds))
            if advance is not None:
                advance(len(frame))
        for number in range(len(self._begins)):
            self._batch(number).unlink()
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
        for block in range(-(-self.places // BLOCK)):
            frames = [
                pl.scan_ipc(self._part(part), glob=False)
                .slice(int(begins[block]), int(begins[block + 1] - begins[block]))
                .collect()
                for part, begins in enumerate(self._block_begins)
            ]
            yield pl.concat(frames).sort("place")["name"]

    def _batch(self, number: int) -> Path:
        return self.folder / f"batch-{number}.arrow"

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number}.arrow"
