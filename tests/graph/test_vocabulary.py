"""Names by id, ids by name, labels, and what to say about a name that is not there."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import NameNotFoundError
from reltucker.graph.vocabulary import Vocabulary

CITIES = Vocabulary(["Q64", "Q90", "Q220", "Q1"], ["Berlin", "Paris", None, "Paris"])

distinct_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, unique=True
)


@settings(deadline=None)
@given(distinct_names)
def test_a_name_is_found_at_its_id(names: list[str]) -> None:
    vocabulary = Vocabulary(names)
    assert len(vocabulary) == len(names)
    assert [vocabulary.name(i) for i in range(len(names))] == names
    assert [vocabulary.find(name) for name in names] == list(range(len(names)))
    np.testing.assert_array_equal(vocabulary.ids(reversed(names)), np.arange(len(names))[::-1])


@settings(deadline=None)
@given(distinct_names, st.data())
def test_a_frame_brings_it_back(names: list[str], data: st.DataObject) -> None:
    labels = data.draw(
        st.none() | st.lists(st.none() | st.just("x"), min_size=len(names), max_size=len(names))
    )
    vocabulary = Vocabulary(names, labels, "relation")
    again = Vocabulary.from_frame(vocabulary.to_frame(), "relation")
    assert again.names.equals(vocabulary.names)
    assert again.shown.equals(vocabulary.shown)
    assert (again.labels is None) == (labels is None)


def test_labels_stand_in_for_names() -> None:
    assert [CITIES.label(i) for i in range(4)] == ["Berlin", "Paris", "Q220", "Paris"]
    assert CITIES.shown.to_list() == ["Berlin", "Paris", "Q220", "Paris"]
    assert CITIES.find("Berlin") == 0
    assert CITIES.find("Q220") == 2


def test_a_name_goes_before_a_label() -> None:
    assert Vocabulary(["x", "y"], ["y", "x"]).find("x") == 0


def test_a_shared_label_asks_for_a_name() -> None:
    with pytest.raises(NameNotFoundError, match=r"belongs to 2 entities.*'Q90', 'Q1'"):
        CITIES.find("Paris")


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(NameNotFoundError, match=r"no entity is called 'Berlim'.*'Berlin'"):
        CITIES.find("Berlim")
    relations = Vocabulary(["born in"], kind="relation")
    with pytest.raises(NameNotFoundError, match="no relation is called"):
        relations.find("zzzz")


def test_a_long_unknown_name_is_shortened() -> None:
    with pytest.raises(NameNotFoundError) as caught:
        CITIES.find("x" * 100_000)
    assert len(str(caught.value)) < 400


def test_unknown_names_have_the_id_minus_one() -> None:
    ids = CITIES.ids(["Q90", "nope", "Q64", "Q90", "Paris"])
    assert ids.tolist() == [1, -1, 0, 1, -1]
    assert ids.dtype == np.int64
    assert CITIES.ids([]).shape == (0,)


def test_an_empty_vocabulary_finds_nothing() -> None:
    empty = Vocabulary(pl.Series([], dtype=pl.String))
    assert len(empty) == 0
    with pytest.raises(NameNotFoundError):
        empty.find("a")
