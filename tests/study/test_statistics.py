"""Intervals and tests against brute force, closed forms, and their own promises."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reltucker.evaluation import PROTOCOLS, Ranking
from reltucker.study import statistics
from reltucker.study.statistics import (
    METRICS,
    bootstrap_intervals,
    holm,
    resampled_means,
    sign_flip_test,
    triple_values,
)


def a_ranking(seed: int, triples: int = 50) -> Ranking:
    rng = np.random.default_rng(seed)
    return Ranking(
        triples=rng.integers(5, size=(triples, 3)).astype(np.int32),
        ranks=rng.integers(1, 30, size=(2, triples, 3)) / 2 + 0.5,
        seen=rng.random(triples) < 0.8,
    )


def test_values_of_triples_average_to_the_metrics() -> None:
    ranking = a_ranking(0)
    where = ranking.triples[:, 1] == 2
    for protocol in PROTOCOLS:
        for chosen in (None, where):
            expected = ranking.metrics(where=chosen)[protocol].to_dict()
            means = triple_values(ranking, protocol, chosen).mean(axis=0)
            assert means == pytest.approx([expected[metric] for metric in METRICS])


def test_samples_are_draws_with_replacement() -> None:
    """Each sample's counts are whole and sum to n; all columns share them."""
    n = 40
    means = resampled_means(np.eye(n), resamples=500, seed=3)
    counts = means * n
    assert np.allclose(counts, np.round(counts))
    assert np.allclose(counts.sum(axis=1), n)
    # A row is missing from a sample with probability (1 - 1/n)^n.
    share = np.mean(np.round(counts) == 0)
    assert share == pytest.approx((1 - 1 / n) ** n, abs=0.01)


def test_samples_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((30, 2))
    whole = resampled_means(values, resamples=100, seed=5)
    flips = sign_flip_test(values - 0.5, flips=100, seed=5)
    monkeypatch.setattr(statistics, "BLOCK_BYTES", 8 * 30 * 7)
    assert np.allclose(whole, resampled_means(values, resamples=100, seed=5), rtol=1e-12)
    assert np.array_equal(flips, sign_flip_test(values - 0.5, flips=100, seed=5))
    assert not np.allclose(whole, resampled_means(values, resamples=100, seed=6))


def test_intervals_are_those_of_scipy() -> None:
    """The same draws, which scipy takes many times longer for."""
    values = np.random.default_rng(1).exponential(size=(80, 3))
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=300,
        confidence_level=0.9,
        method="percentile",
        rng=np.random.default_rng(7),
    )
    ends = bootstrap_intervals(values, resamples=300, confidence=0.9, seed=7)
    assert np.allclose(ends, np.column_stack(found.confidence_interval), rtol=1e-12)


def test_sign_flips_agree_with_all_sign_patterns() -> None:
    rng = np.random.default_rng(2)
    differences = np.round(rng.normal(0.3, 1.0, size=(10, 4)), 1)  # with ties
    exact = [
        stats.permutation_test((column,), np.sum, permutation_type="samples").pvalue
        for column in differences.T
    ]
    assert sign_flip_test(differences, flips=40_000) == pytest.approx(exact, abs=0.015)


def test_models_that_are_alike_are_not_told_apart() -> None:
    assert sign_flip_test(np.zeros((50, 1)), flips=1000)[0] == 1.0
    rng = np.random.default_rng(4)
    p = sign_flip_test(rng.normal(size=(60, 400)), flips=999)
    assert np.mean(p <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.all(p >= 1 / 1000)
    assert sign_flip_test(np.full((60, 1), 0.1), flips=999)[0] == pytest.approx(1 / 1000)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for one, two in itertools.permutations(range(len(p)), 2):
        if p[one] < p[two]:
            assert adjusted[one] <= adjusted[two]
    for before, after in zip(p, adjusted, strict=True):
        assert before <= after <= min(1.0, len(p) * before)


def test_many_queries_take_little_time() -> None:
    values = np.random.default_rng(0).random((40_000, 4))
    began = time.process_time()
    bootstrap_intervals(values, resamples=1000)
    assert time.process_time() - began < 6
