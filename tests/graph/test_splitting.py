"""Splits of one set of triples: sizes, coverage, seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.graph.splitting import Triples, split_triples


def as_set(triples: Triples) -> set[tuple[int, ...]]:
    return set(map(tuple, triples.tolist()))


def random_triples(count: int, entities: int, relations: int) -> Triples:
    generator = np.random.default_rng(1)
    sizes = np.array([entities, relations, entities])
    return np.unique((generator.random((count, 3)) * sizes).astype(np.int32), axis=0)


@settings(deadline=None)
@given(
    st.sets(
        st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), min_size=1, max_size=120
    ),
    st.integers(0, 2**32),
)
def test_parts_are_disjoint_whole_and_covered(rows: set[tuple[int, int, int]], seed: int) -> None:
    triples = np.array(sorted(rows), dtype=np.int32)
    train, valid, test = split_triples(triples, 8, 3, seed)
    assert len(train) + len(valid) + len(test) == len(rows)
    assert as_set(train) | as_set(valid) | as_set(test) == rows
    assert {train.dtype, valid.dtype, test.dtype} == {np.dtype(np.int32)}
    assert len(valid) == len(test) <= (len(rows) + 5) // 10
    held_out = np.concatenate([valid, test])
    assert set(held_out[:, [0, 2]].flat) <= set(train[:, [0, 2]].flat)
    assert set(held_out[:, 1]) <= set(train[:, 1])


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 9), st.just(0), st.integers(0, 9)), min_size=10, max_size=25),
    st.integers(0, 99),
)
def test_valid_and_test_are_as_large_as_coverage_allows(
    rows: set[tuple[int, int, int]], seed: int
) -> None:
    triples = np.array(sorted(rows), dtype=np.int32)
    train, valid, test = split_triples(triples, 10, 1, seed)
    if len(valid) == (len(rows) + 5) // 10:
        return
    degree = np.zeros(10, dtype=int)
    for s, _, o in train.tolist():
        for entity in {s, o}:
            degree[entity] += 1
    # One triple that train could spare may be left, for valid and test are equally large.
    removable = 0
    for s, _, o in train.tolist():
        if degree[s] > 1 and degree[o] > 1 and len(train) - removable > 1:
            removable += 1
            for entity in {s, o}:
                degree[entity] -= 1
    assert removable <= 1
    assert len(test) == len(valid)


def test_a_plain_graph_is_split_80_10_10() -> None:
    triples = random_triples(20_000, 500, 10)
    train, valid, test = split_triples(triples, 500, 10, seed=3)
    tenth = (len(triples) + 5) // 10
    assert (len(valid), len(test)) == (tenth, tenth)
    assert len(train) == len(triples) - 2 * tenth


def test_the_order_of_the_triples_is_kept() -> None:
    triples = random_triples(1000, 50, 3)
    for part in split_triples(triples, 50, 3, seed=0):
        keys = (part[:, 0].astype(int) * 3 + part[:, 1]) * 50 + part[:, 2]
        assert np.all(np.diff(keys) > 0)


def test_the_seed_decides() -> None:
    triples = random_triples(2000, 100, 3)
    first, again, other = (split_triples(triples, 100, 3, seed) for seed in (5, 5, 6))
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert as_set(first[1]) != as_set(other[1])


def test_a_chain_still_gives_up_triples() -> None:
    steps = np.arange(1000, dtype=np.int32)
    triples = np.stack([steps, np.zeros_like(steps), steps + 1], axis=1)
    _, valid, test = split_triples(triples, 1001, 1, seed=0)
    assert len(valid) == len(test) == 100


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_star_of_leaves_stays_in_train(count: int) -> None:
    triples = np.array([[0, 0, leaf] for leaf in range(1, count + 1)], dtype=np.int32)
    train, valid, test = split_triples(triples, count + 1, 1, seed=0)
    assert (len(train), valid.shape, test.shape) == (count, (0, 3), (0, 3))
