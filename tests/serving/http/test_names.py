"""The index finds what a look at every name finds."""

import unicodedata

import numpy as np
import polars as pl
import pytest

from reltucker.errors import NameNotFoundError
from reltucker.graph import Vocabulary
from reltucker.serving.http import names as names_module
from reltucker.serving.http.names import HashIndex, IndexedVocabulary
from tests.serving.http.conftest import HOSTILE

WORDS = ["Alma", "alma", "Berger", "Zürich", "born_in", "Łódź", "x", "2", "é", "ALMA-", "日本"]


def some_names(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    drawn = {
        " ".join(rng.choice(WORDS, size=rng.integers(1, 4)).tolist()) + str(rng.integers(9))
        for _ in range(count)
    }
    return [*sorted(drawn), *HOSTILE, ""]


def folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return "".join(c for c in plain if unicodedata.category(c)[:1] != "M" and c >= " ").lower()


def beginnings(name: str) -> list[str]:
    """The folded name from the beginning of each of its words on."""
    text = folded(name)
    starts = [
        place
        for place in range(1, len(text))
        if text[place].isalnum() and not text[place - 1].isalnum()
    ]
    return [text, *(text[start:] for start in starts)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("block", [2, 256])
def test_completion_equals_a_look_at_every_name(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "BLOCK", block)
    texts = some_names(seed, 600)
    weights = np.random.default_rng(seed).permutation(len(texts))
    index = IndexedVocabulary(Vocabulary(texts), weights)
    for prefix in ("a", "al", "ALMA", "ber", "zur", "Zür", "日", "2", "nothing", "שלום", "<", "é1"):
        words = names_module.WORDS
        expected = [
            number
            for number, text in enumerate(texts)
            if any(part.startswith(folded(prefix)) for part in beginnings(text)[:words])
        ]
        expected.sort(key=lambda number: -weights[number])
        if prefix not in texts:
            assert index.complete(prefix, 7) == expected[:7], prefix


def test_an_exact_name_comes_first_and_labels_are_found() -> None:
    names = ["Q1", "Q11", "Q111", "http://example.org/entity/Q2"]
    index = IndexedVocabulary(Vocabulary(names, ["one", None, "Eleven", "two"]), np.arange(4))
    assert index.complete("Q1", 3) == [0, 2, 1]
    assert index.complete("elev", 3) == [2]
    assert index.complete("q2", 3) == [3]
    assert index.complete("http://ex", 3) == [3]


def test_look_up_is_that_of_a_plain_vocabulary() -> None:
    names = some_names(3, 200)
    labels = [None if n % 3 else f"label {n % 40}" for n in range(len(names))]
    plain = Vocabulary(names, labels)
    index = IndexedVocabulary(plain, np.ones(len(names), dtype=np.int64))
    asked = [*names[::7], *(f"label {n}" for n in range(40)), "nobody", "a\0"]
    assert index.ids(asked).tolist() == plain.ids(asked).tolist()
    located = index.locate(pl.Series(asked))
    for text, number in zip(asked, located, strict=True):
        try:
            expected = plain.find(text)
        except NameNotFoundError:
            expected = -1
            with pytest.raises(NameNotFoundError, match=r"is called|belongs to"):
                index.find(text)
        else:
            assert index.find(text) == expected
        assert number == expected


def test_texts_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Series, "hash", lambda texts: texts.str.len_chars().cast(pl.UInt64))
    index = HashIndex(pl.Series(["ab", "cd", "xyz", "ef", "ab"]))
    assert index.find("ab") == [0, 4]
    assert index.first(pl.Series(["ef", "gh", "cd", "xyz", "long"])).tolist() == [3, -1, 1, 2, -1]


def test_an_empty_vocabulary_has_no_names() -> None:
    index = IndexedVocabulary(Vocabulary([]), np.zeros(0, dtype=np.int64))
    assert index.complete("a", 5) == []
    assert index.ids(["a"]).tolist() == [-1]
    with pytest.raises(NameNotFoundError, match="no entity is called 'a'"):
        index.find("a")
