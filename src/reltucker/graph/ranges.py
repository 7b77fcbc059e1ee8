"""Triples in files, gone through for one range of entities after the other: what is repeated, and
the answer index. So only the triples of a range are held."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reltucker.graph.answers import COLUMNS, AnswerIndex, Direction
from reltucker.graph.arrays import Array, blocks, growing
from reltucker.graph.building import find_repeated, keys_of
from reltucker.graph.prepared import INDEX_ARRAYS

BLOCK = 1 << 20
"""Triples that are looked through at a time."""


def write_index(
    files: Sequence[Path],
    folder: Path,
    direction: Direction,
    sizes: tuple[int, int],
    most: int,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Write the answer index over the triples of three files to a prepared folder; `most` triples
    are held at a time, and `sizes` are the numbers of entities and relations."""
    column = COLUMNS[direction][0]
    answers = 0
    with ExitStack() as stack:
        append = {
            name: stack.enter_context(growing(folder / f"{direction}-{name}.npy", dtype))
            for name, dtype in INDEX_ARRAYS.items()
        }
        for low, high in entity_ranges(files, column, sizes[0], most):
            triples = [_in_range(file, column, low, high)[1] for file in files]
            index = AnswerIndex.build(direction, triples, *sizes)
            append["keys"](index.keys)
            append["offsets"](index.offsets[:-1] + answers)
            append["answers"](index.answers)
            append["splits"](index.splits)
            answers += len(index.answers)
            if advance is not None:
                advance(sum(map(len, triples)))
        append["offsets"](np.array([answers]))


def find_repeated_triples(
    file: Path, heights: Sequence[int], sizes: tuple[int, int], most: int
) -> tuple[npt.NDArray[np.bool_], Counter[str]]:
    """Which triples of a file stand in an earlier row of their split, and the counts of
    `find_repeated`; `heights` says how many rows are of train, valid and test."""
    ends = np.cumsum(heights)
    repeated = np.zeros(int(ends[-1]), dtype=bool)
    counts: Counter[str] = Counter()
    for low, high in entity_ranges([file], 0, sizes[0], most):
        rows, triples = _in_range(file, 0, low, high)
        begins = np.searchsorted(rows, ends[:-1])
        found, met = find_repeated(np.split(keys_of(triples, *sizes), begins))
        for own, later in zip(np.split(rows, begins), found, strict=True):
            repeated[own[later]] = True
        counts += met
    return repeated, counts


def entity_ranges(
    files: Sequence[Path], column: int, entities: int, most: int
) -> Iterator[tuple[int, int]]:
    """Ranges of entities with at most that many triples, or of one entity that has more."""
    triples = np.zeros(entities, dtype=np.int64)
    for file in files:
        for _, block in blocks(file, max(BLOCK, entities)):
            triples += np.bincount(block[:, column], minlength=entities)
    before = np.concatenate([[0], np.cumsum(triples)])
    del triples
    low = 0
    while low < entities:
        high = int(np.searchsorted(before, before[low] + most, "right")) - 1
        high = min(max(high, low + 1), entities)
        yield low, high
        low = high


def _in_range(file: Path, column: int, low: int, high: int) -> tuple[Array, Array]:
    """Row numbers (n,) and triples (n, 3) whose entity in this column is in the range."""
    rows, triples = [np.empty(0, dtype=np.int64)], [np.empty((0, 3), dtype=np.int32)]
    for begin, block in blocks(file, BLOCK):
        chosen = np.flatnonzero((block[:, column] >= low) & (block[:, column] < high))
        rows.append(chosen + begin)
        triples.append(block.take(chosen, axis=0))
    return np.concatenate(rows), np.concatenate(triples)
