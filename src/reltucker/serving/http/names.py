"""Names that are found at once, however many there are: by hash, and by the beginning of a word."""

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import NameNotFoundError
from reltucker.graph import Vocabulary

KEY_LENGTH = 48
"""Characters of a name, from the beginning of a word on, that type-ahead compares."""
WORDS = 6
"""Words of a name that type-ahead finds it by."""
BLOCK = 256
"""Entries of the sorted array whose largest weight is kept."""
_TAIL = 10
"""Digits of the id at the end of a key; 0 stands before them, and in no folded text."""

Ids = npt.NDArray[np.int64]


class IndexedVocabulary(Vocabulary):
    """A vocabulary whose indexes are made at once, so that looking up changes nothing.

    `weights` (n,) says which of many names with the same beginning come first: how often each
    occurs in the graph.
    """

    def __init__(self, vocabulary: Vocabulary, weights: npt.NDArray[np.integer]) -> None:
        super().__init__(vocabulary.names, vocabulary.labels, vocabulary.kind)
        self.names = self.names.rechunk()
        self.shown = vocabulary.shown.rechunk()
        self.weights = weights
        self._by_name = HashIndex(self.names)
        self._by_label = self._by_name if self.labels is None else HashIndex(self.shown)
        self._by_word = WordIndex(
            [self.names] if self.labels is None else [self.names, self.shown], weights
        )

    def find(self, text: str) -> int:
        """As `Vocabulary.find`, without looking at every name."""
        found = self._by_name.find(text)
        if not found:
            found = self._by_label.find(text)
        if len(found) == 1:
            return found[0]
        shown = text if len(text) <= 120 else f"{text[:120]}…"
        if found:
            some = ", ".join(repr(self.name(i)[:120]) for i in found[:5])
            raise NameNotFoundError(
                f"the label {shown!r} belongs to {len(found)} names; use a name instead: {some}"
            )
        nearest = self.nearest(text)
        hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        raise NameNotFoundError(f"no {self.kind} is called {shown!r}{hint}")

    def nearest(self, text: str, count: int = 3) -> list[str]:
        """Names or labels that begin like `text`, or like the longest beginning of it that any
        does: cheap, where the edit distance to every name is not."""
        for length in (len(text), 8, 5, 3):
            if length <= len(text) and (found := self.complete(text[:length], count)):
                return list(dict.fromkeys(self.label(i)[:120] for i in found))
        return []

    def ids(self, names: Iterable[str]) -> Ids:
        """As `Vocabulary.ids`."""
        texts = names if isinstance(names, pl.Series) else pl.Series(list(names), dtype=pl.String)
        return self._by_name.first(texts)

    def locate(self, texts: pl.Series) -> Ids:
        """As `find` for many at once; -1 where it would raise."""
        ids = self.ids(texts)
        for place in np.flatnonzero(ids < 0):
            found = self._by_label.find(texts[int(place)])
            if len(found) == 1:
                ids[place] = found[0]
        return ids

    def complete(self, prefix: str, count: int) -> list[int]:
        """Ids of the names or labels in which a word begins with `prefix`: those that are `prefix`
        first, then the most frequent."""
        exact = self._by_name.find(prefix) or self._by_label.find(prefix)
        return list(dict.fromkeys([*exact, *self._by_word.find(prefix, count)]))[:count]


class HashIndex:
    """Texts by a sorted array of their hashes, 12 bytes each."""

    def __init__(self, texts: pl.Series) -> None:
        self.texts = texts
        hashes = texts.hash().to_numpy()
        self.order = np.argsort(hashes, kind="stable").astype(np.uint32)
        self.hashes = hashes[self.order]

    def find(self, text: str) -> list[int]:
        """The ids of all texts that are `text`, ascending."""
        value = pl.Series([text], dtype=pl.String).hash()[0]
        begin = np.searchsorted(self.hashes, np.uint64(value))
        end = np.searchsorted(self.hashes, np.uint64(value), "right")
        return [int(i) for i in self.order[begin:end] if self.texts[int(i)] == text]

    def first(self, texts: pl.Series) -> Ids:
        """The first id of each text (n,), or -1."""
        if not len(self.texts):
            return np.full(len(texts), -1, dtype=np.int64)
        values = texts.hash().to_numpy()
        places = np.searchsorted(self.hashes, values)
        places[places == len(self.hashes)] = 0
        ids = self.order[places].astype(np.int64)
        is_same = (self.texts.gather(ids) == texts).fill_null(False).to_numpy()
        ids[~is_same] = -1
        for place in np.flatnonzero(~is_same & (self.hashes[places] == values)):  # collisions
            ids[place] = next(iter(self.find(texts[int(place)])), -1)
        return ids


class WordIndex:
    """One sorted array of folded texts, each from the beginning of a word on, with the id at its
    end: what begins with a prefix is a range of it."""

    def __init__(self, columns: list[pl.Series], weights: npt.NDArray[np.integer]) -> None:
        parts = [part for column in columns for part in _suffixes(column)]
        frame = pl.concat(parts) if parts else pl.DataFrame(schema={"key": pl.String})
        self.keys = frame["key"].unique().sort().rechunk()
        self.ids = self.keys.str.tail(_TAIL).cast(pl.UInt32).to_numpy()
        self.weights = weights[self.ids]
        filled = np.zeros(-(-len(self.ids) // BLOCK) * BLOCK, dtype=self.weights.dtype)
        filled[: len(self.ids)] = self.weights
        self.largest = filled.reshape(-1, BLOCK).max(axis=1)

    def find(self, prefix: str, count: int) -> list[int]:
        """The ids with the `count` largest weights among those that have a word with this
        beginning, largest first."""
        text = pl.select(_folded(pl.lit(prefix[: 4 * KEY_LENGTH], dtype=pl.String))).item()
        text = text[:KEY_LENGTH]
        begin = bisect_left(self.keys, text)
        end = bisect_left(self.keys, text + chr(0x10FFFF), lo=begin)
        # An id may stand in the range once for each of its words, under its name and its label.
        wanted = 2 * WORDS * count
        places = np.arange(begin, end)
        if len(places) > wanted + 4 * BLOCK:
            # The heaviest `wanted` entries stand in the `wanted` blocks with the largest maxima.
            first, last = -(-begin // BLOCK), end // BLOCK
            blocks = first + _heaviest(self.largest[first:last], wanted)
            inner = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
            edges = np.arange(begin, first * BLOCK), np.arange(last * BLOCK, end)
            places = np.concatenate([edges[0], inner, edges[1]])
        best = places[_heaviest(self.weights[places], wanted)]
        best = best[np.lexsort((self.ids[best], -self.weights[best].astype(np.int64)))]
        return list(dict.fromkeys(self.ids[best].tolist()))[:count]


def _heaviest(weights: npt.NDArray[np.integer], count: int) -> Ids:
    """The places of the `count` largest weights, in no order."""
    if len(weights) <= count:
        return np.arange(len(weights))
    return np.argpartition(weights, len(weights) - count)[-count:]


def _folded(text: pl.Expr) -> pl.Expr:
    """Lower case, without accents and control characters."""
    text = text.str.normalize("NFKD").str.replace_all(r"[\p{M}\p{Cc}]+", "")
    return text.str.to_lowercase()


def _suffixes(texts: pl.Series) -> Iterable[pl.DataFrame]:
    """Frames of keys: the folded text from each of its first words on, then 0 and the id. Of an
    address, words are those after its last / or #."""
    ids = pl.int_range(pl.len()).cast(pl.String).str.zfill(_TAIL)
    frame = texts.alias("text").to_frame().select(_folded(pl.col("text")), id=ids)
    key = pl.concat_str(pl.col("text").str.head(KEY_LENGTH), pl.lit("\0"), "id").alias("key")
    yield frame.select(key)
    text = pl.col("text")
    frame = frame.with_columns(text.str.head(4 * KEY_LENGTH))
    local = text.str.replace(r"^[a-z]+://.*[/#]", "")
    for number in range(WORDS):
        rest = local if number == 0 else text.str.replace(r"^[\p{L}\p{N}]*[^\p{L}\p{N}]+", "")
        before = frame if number else frame.with_columns(before=pl.lit(None, dtype=pl.String))
        frame = before.with_columns(before="text", text=rest)
        frame = frame.filter(text != "", (text != pl.col("before")) | (number == 0))
        if frame.is_empty():
            return
        yield frame.select(key)
