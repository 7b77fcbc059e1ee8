"""The answer index: for every query, its known answers, in compressed rows."""

from collections.abc import Sequence
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
Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AnswerRows:
    """The answers of a batch of queries, flat: entry n answers query `rows[n]`.

    Entries stand in the order of the queries. `splits` says where an answer is known from
    (0 train, 1 valid, 2 test; the smallest where a triple stands in several).
    """

    rows: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    splits: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class AnswerIndex:
    """Query (a, b) to the sorted known answers, as compressed sparse rows.

    `keys` holds a * width + b of every distinct query, ascending; the answers of keys[q] are
    answers[offsets[q] : offsets[q + 1]], ascending, each once.
    """

    direction: Direction
    width: int
    keys: Keys
    offsets: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int32]
    splits: npt.NDArray[np.uint8]

    @classmethod
    def build(
        cls, direction: Direction, splits: Sequence[IntArray], entities: int, relations: int
    ) -> "AnswerIndex":
        """Index the triples (n, 3) of train, valid, test, in this order."""
        first, second, answer = COLUMNS[direction]
        width = relations if second == 1 else entities
        size = relations if answer == 1 else entities
        bits = max(size - 1, 1).bit_length()
        # Query, answer and split packed into one integer: one sort orders all three. Everything
        # happens in place, because fresh memory costs as much as the arithmetic.
        packed = np.empty(sum(map(len, splits)), dtype=np.int64)
        parts = np.split(packed, np.cumsum([len(triples) for triples in splits])[:-1])
        for part, triples in zip(parts, splits, strict=True):
            part[:] = triples[:, first]
            part *= width
            part += triples[:, second]
        distinct = None
        if (entities * width) << (bits + 2) >= 2**63:
            # Too large to be packed: queries are numbered in their order.
            distinct, packed[:] = np.unique(packed, return_inverse=True)
        for number, (part, triples) in enumerate(zip(parts, splits, strict=True)):
            part <<= bits
            part += triples[:, answer]
            part <<= 2
            part += number
        packed.sort()
        tags = packed.astype(np.uint8)
        tags &= 3
        packed >>= 2
        kept = starts(packed)
        if not kept.all():
            packed, tags = packed[kept], tags[kept]
        # The cast drops the upper bits, and an answer has at most 31.
        answers = packed.astype(np.int32)
        answers &= (1 << bits) - 1
        packed >>= bits
        begins = np.flatnonzero(starts(packed))
        offsets = np.append(begins, len(packed)).astype(np.int64)
        keys = packed[begins] if distinct is None else distinct
        return cls(direction, width, keys, offsets, answers, tags)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, first: IntArray, second: IntArray) -> Keys:
        """The key of queries: (subject, relation), (object, relation) or (subject, object)."""
        return np.asarray(first, dtype=np.int64) * self.width + second

    def query_of(self, triples: IntArray) -> Keys:
        """The keys of the queries that the triples (n, 3) answer."""
        first, second, _ = COLUMNS[self.direction]
        return self.key(triples[:, first], triples[:, second])

    def ranges(self, keys: Keys) -> tuple[Keys, Keys]:
        """Start and count of each query's answers; the count is 0 for an unknown query."""
        if not len(self.keys):
            zeros = np.zeros(len(keys), dtype=np.int64)
            return zeros, zeros
        position = np.searchsorted(self.keys, keys)
        position[position == len(self.keys)] = 0
        known = self.keys[position] == keys
        starts = self.offsets[position]
        return starts, np.where(known, self.offsets[position + 1] - starts, 0)

    def holds(self, triples: IntArray) -> npt.NDArray[np.bool_]:
        """Which of the triples (n, 3) are known."""
        wanted = triples[:, COLUMNS[self.direction][2]]
        low, counts = self.ranges(self.query_of(triples))
        end = low + counts
        # A binary search in every row at once for the first answer that is not below the wanted.
        high = end
        for _ in range(int(counts.max(initial=0)).bit_length()):
            middle = (low + high) // 2
            below = (low < high) & (self.answers[np.minimum(middle, end - 1)] < wanted)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        found = low < end
        found[found] = self.answers[low[found]] == wanted[found]
        return found

    def rows(self, keys: Keys) -> AnswerRows:
        """The known answers of a batch of query keys."""
        starts, counts = self.ranges(keys)
        rows = np.repeat(np.arange(len(keys)), counts)
        before = np.cumsum(counts) - counts
        flat = np.arange(len(rows)) + np.repeat(starts - before, counts)
        return AnswerRows(rows, self.answers[flat].astype(np.int64), self.splits[flat])


def starts(ascending: Keys) -> npt.NDArray[np.bool_]:
    """Which entries differ from the one before them."""
    fresh = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=fresh[1:])
    return fresh
