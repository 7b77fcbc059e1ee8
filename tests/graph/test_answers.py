"""The answer index against a dictionary of sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.graph.answers import COLUMNS, AnswerIndex, Direction

ENTITIES, RELATIONS = 6, 3
DIRECTIONS: list[Direction] = ["object", "subject", "relation"]

triples = st.lists(
    st.tuples(
        st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)
    ),
    max_size=40,
).map(lambda rows: np.array(rows, dtype=np.int32).reshape(-1, 3))
three_splits = st.lists(triples, min_size=3, max_size=3)
Oracle = dict[tuple[int, int], dict[int, int]]


def oracle_of(direction: Direction, splits: list[np.ndarray]) -> Oracle:
    """Query to its answers, and each answer to the first split that holds it."""
    first, second, answer = COLUMNS[direction]
    known: Oracle = {}
    for number, split in enumerate(splits):
        for row in split.tolist():
            known.setdefault((row[first], row[second]), {}).setdefault(row[answer], number)
    return known


def all_queries(direction: Direction) -> np.ndarray:
    seconds = RELATIONS if COLUMNS[direction][1] == 1 else ENTITIES
    return np.array([(a, b) for a in range(ENTITIES) for b in range(seconds)])


@settings(max_examples=150, deadline=None)
@given(
    three_splits,
    st.sampled_from(DIRECTIONS),
    st.sampled_from([(ENTITIES, RELATIONS), (2**31 - 1, 2**20)]),
    st.randoms(use_true_random=False),
)
def test_rows_are_those_of_a_dictionary(
    splits: list[np.ndarray], direction: Direction, sizes: tuple[int, int], shuffler: object
) -> None:
    """Also with vocabularies so large that a triple does not fit into 64 bits."""
    index = AnswerIndex.build(direction, splits, *sizes)
    known = oracle_of(direction, splits)
    assert len(index) == len(known)
    queries = all_queries(direction)
    shuffler.shuffle(order := list(range(len(queries))))  # type: ignore[attr-defined]
    queries = queries[order]
    found = index.rows(index.key(queries[:, 0], queries[:, 1]))
    expected = [
        (row, answer, split)
        for row, query in enumerate(map(tuple, queries.tolist()))
        for answer, split in sorted(known.get(query, {}).items())
    ]
    assert list(zip(found.rows, found.answers, found.splits, strict=True)) == expected
    assert found.splits.dtype == np.uint8
    assert (index.keys.dtype, index.offsets.dtype) == (np.int64, np.int64)
    assert np.all(np.diff(index.keys) > 0)
    assert index.answers.dtype == np.int32


@settings(deadline=None)
@given(three_splits, st.sampled_from(DIRECTIONS))
def test_it_holds_the_known_triples_alone(splits: list[np.ndarray], direction: Direction) -> None:
    index = AnswerIndex.build(direction, splits, ENTITIES, RELATIONS)
    grid = np.indices((ENTITIES, RELATIONS, ENTITIES)).reshape(3, -1).T
    known = {tuple(row) for split in splits for row in split.tolist()}
    assert index.holds(grid).tolist() == [tuple(row) in known for row in grid.tolist()]
    assert index.holds(grid[:0]).tolist() == []


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_huge_vocabularies_take_the_wide_path(direction: Direction) -> None:
    last = 2**31 - 2
    rows = np.array([[last, 5, 0], [0, 5, last], [last, 5, last], [last, 5, 0]], dtype=np.int32)
    index = AnswerIndex.build(direction, [rows[:2], rows[2:], rows[:0]], 2**31 - 1, 2**20)
    first, second, answer = COLUMNS[direction]
    query = (int(rows[0, first]), int(rows[0, second]))
    found = index.rows(index.query_of(rows[:1]))
    known = [row[answer] for row in rows.tolist() if (row[first], row[second]) == query]
    assert found.answers.tolist() == sorted(set(known))
    assert found.splits[found.answers == rows[0, answer]].tolist() == [0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_an_empty_index_answers_nothing(direction: Direction) -> None:
    nothing = np.empty((0, 3), dtype=np.int32)
    index = AnswerIndex.build(direction, [nothing] * 3, ENTITIES, RELATIONS)
    starts, counts = index.ranges(np.array([0, 5]))
    assert (len(index), counts.tolist(), len(starts)) == (0, [0, 0], 2)
    assert len(index.rows(np.array([0, 5])).answers) == 0


def test_an_index_equals_itself_alone() -> None:
    rows = np.array([[1, 1, 2], [0, 0, 1]], dtype=np.int32)
    one, other = (AnswerIndex.build("object", [rows], ENTITIES, RELATIONS) for _ in range(2))
    for first, second in ((one, other), (one.rows(one.keys), one.rows(one.keys))):
        assert first == first
        assert first != second
        assert len({first, second, first}) == 2


def test_building_leaves_the_triples_alone() -> None:
    rows = np.array([[1, 1, 2], [0, 0, 1]], dtype=np.int32)
    before = rows.copy()
    AnswerIndex.build("object", [rows, rows[:0], rows[:0]], ENTITIES, RELATIONS)
    np.testing.assert_array_equal(rows, before)
