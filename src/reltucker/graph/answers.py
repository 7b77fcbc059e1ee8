"""The answer index: for every query, its known answers, in compressed rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Direction = Literal["object", "subject", "relation"]
"""Which position of a triple is asked for."""

COLUMNS: dict[Direction, tuple[int, int, int]] = {
    "object": (0, 1, 2),
    "subject": (2, 1, 0),
    "relation": (0, 2, 1),
}
"""For each direction: the two columns that form the query, and the column of the answer."""

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True)
class AnswerRows:
    """The answers of a batch of queries, flat: entry n answers query `rows[n]`.

    Entries stand in the order of the queries. `splits` says where an answer is known from
    (0 train, 1 valid, 2 test; the smallest where a triple stands in several).
    """

    rows: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    splits: npt.NDArray[np.uint8]


class AnswerIndex:
    """Query (a, b) to the sorted known answers, as compressed sparse rows.

    `keys` holds a * width + b of every distinct query, ascending; the answers of keys[q] are
    answers[offsets[q] : offsets[q + 1]], ascending, each once.
    """

    def __init__(
        self,
        direction: Direction,
        width: int,
        keys: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        answers: npt.NDArray[np.int32],
        splits: npt.NDArray[np.uint8],
    ) -> None:
        self.direction = direction
        self.width = width
        self.keys = keys
        self.offsets = offsets
        self.answers = answers
        self.splits = splits

    @classmethod
    def build(
        cls, direction: Direction, splits: list[IntArray], entities: int, relations: int
    ) -> "AnswerIndex":
        """Index the triples (n, 3) of train, valid, test, in this order."""
        first, second, answer = COLUMNS[direction]
        width = relations if second == 1 else entities
        size = relations if answer == 1 else entities
        bits = max(size - 1, 1).bit_length()
        if (entities * width) << (bits + 2) >= 2**63:
            return cls._build_wide(direction, splits, width)
        # Query, answer and split packed into one integer: one sort orders all three. Everything
        # happens in place, because fresh memory costs as much as the arithmetic.
        packed = np.empty(sum(map(len, splits)), dtype=np.int64)
        start = 0
        for number, triples in enumerate(splits):
            part = packed[start : start + len(triples)]
            part[:] = triples[:, first]
            part *= width
            part += triples[:, second]
            part <<= bits
            part += triples[:, answer]
            part <<= 2
            part += number
            start += len(triples)
        packed.sort()
        tags = packed.astype(np.uint8)
        tags &= 3
        packed >>= 2
        kept = _starts(packed)
        if not kept.all():
            packed, tags = packed[kept], tags[kept]
        # The cast drops the upper bits, and an answer has at most 31.
        answers = packed.astype(np.int32)
        answers &= (1 << bits) - 1
        packed >>= bits
        return cls._from_sorted(direction, width, packed, answers, tags)

    @classmethod
    def _build_wide(cls, direction: Direction, splits: list[IntArray], width: int) -> "AnswerIndex":
        """The same for graphs so large that a packed triple would overflow 64 bits."""
        first, second, answer = COLUMNS[direction]
        triples = np.concatenate(splits)
        tags = np.repeat(np.arange(len(splits), dtype=np.uint8), [len(t) for t in splits])
        query = triples[:, first].astype(np.int64) * width + triples[:, second]
        answers = triples[:, answer].astype(np.int32)
        order = np.lexsort((tags, answers, query))
        query, answers, tags = query[order], answers[order], tags[order]
        kept = np.ones(len(query), dtype=bool)
        kept[1:] = (query[1:] != query[:-1]) | (answers[1:] != answers[:-1])
        return cls._from_sorted(direction, width, query[kept], answers[kept], tags[kept])

    @classmethod
    def _from_sorted(
        cls,
        direction: Direction,
        width: int,
        query: npt.NDArray[np.int64],
        answers: npt.NDArray[np.int32],
        tags: npt.NDArray[np.uint8],
    ) -> "AnswerIndex":
        starts = np.flatnonzero(_starts(query))
        offsets = np.append(starts, len(query)).astype(np.int64)
        return cls(direction, width, query[starts], offsets, answers, tags)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, first: IntArray, second: IntArray) -> npt.NDArray[np.int64]:
        """The key of queries: (subject, relation), (object, relation) or (subject, object)."""
        return np.asarray(first, dtype=np.int64) * self.width + second

    def query_of(self, triples: IntArray) -> npt.NDArray[np.int64]:
        """The keys of the queries that the triples (n, 3) answer."""
        first, second, _ = COLUMNS[self.direction]
        return self.key(triples[:, first], triples[:, second])

    def ranges(
        self, keys: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Start and count of each query's answers; the count is 0 for an unknown query."""
        if not len(self.keys):
            zeros = np.zeros(len(keys), dtype=np.int64)
            return zeros, zeros
        position = np.searchsorted(self.keys, keys)
        position[position == len(self.keys)] = 0
        known = self.keys[position] == keys
        starts = self.offsets[position]
        return starts, np.where(known, self.offsets[position + 1] - starts, 0)

    def rows(self, keys: npt.NDArray[np.int64]) -> AnswerRows:
        """The known answers of a batch of query keys."""
        starts, counts = self.ranges(keys)
        rows = np.repeat(np.arange(len(keys)), counts)
        before = np.cumsum(counts) - counts
        flat = np.arange(len(rows)) + np.repeat(starts - before, counts)
        return AnswerRows(rows, self.answers[flat].astype(np.int64), self.splits[flat])


def _starts(ascending: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which entries differ from the one before them."""
    starts = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=starts[1:])
    return starts
