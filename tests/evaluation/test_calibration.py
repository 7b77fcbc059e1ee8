"""Probabilities that are known beforehand are found again, and come true."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as textbook_log_loss

from reltucker.errors import ReltuckerError, RunError
from reltucker.evaluation import Calibration, add_calibration, calibrate
from reltucker.evaluation.calibration import CALIBRATION, ENOUGH, fit_calibration
from reltucker.evaluation.curves import (
    Isotonic,
    Platt,
    Reliability,
    best_threshold,
    fit_isotonic,
    fit_platt,
    log_loss,
)
from tests.conftest import random_graph
from tests.evaluation.test_corruption import make_model

GRID = np.linspace(-4.0, 4.0, 81)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0.5, 0.1, 0.8)


def drawn(count: int, truth: object, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Plausibilities, and what is true with the probabilities `truth` of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=2.0, size=count)
    return x, rng.random(count) < truth(x)  # type: ignore[operator]


def fitted(x: np.ndarray, y: np.ndarray, relations: np.ndarray | None = None) -> Calibration:
    relations = np.zeros(len(x), dtype=np.int64) if relations is None else relations
    return fit_calibration(x, relations, y, np.arange(len(x)), np.ones(len(x), dtype=bool))


def test_a_logistic_curve_is_found() -> None:
    x, y = drawn(20_000, lambda x: sigmoid(1.5 * x - 1.0))
    curve = fit_platt(x, y)
    assert (curve.slope, curve.intercept) == (
        pytest.approx(1.5, abs=0.06),
        pytest.approx(-1.0, abs=0.06),
    )
    far = fit_platt(1e-3 * x + 1e6, y)
    np.testing.assert_allclose(far(1e-3 * GRID + 1e6), curve(GRID), atol=1e-3)


def test_the_better_of_two_ways_is_chosen() -> None:
    x, y = drawn(4000, lambda x: sigmoid(1.5 * x - 1.0))
    smooth = fitted(x, y)
    assert smooth.curve.method == "platt"
    x, y = drawn(4000, step)
    stepped = fitted(x, y)
    assert stepped.curve.method == "isotonic"
    at = np.array([-2.0, 2.0])
    np.testing.assert_allclose(
        stepped.probabilities(at, np.zeros(2, dtype=np.int64)), step(at), atol=0.06
    )
    for each in (smooth, stepped):
        assert each.reliability.expected_calibration_error < 0.03


def test_relations_with_enough_triples_have_their_own_curves() -> None:
    """The same score means much in relation 0, little in 1, and 2 has too few triples."""
    x0, y0 = drawn(2000, lambda x: sigmoid(2 * x - 3), seed=1)
    x1, y1 = drawn(2000, lambda x: sigmoid(2 * x + 3), seed=2)
    x2, y2 = drawn(ENOUGH - 1, lambda x: sigmoid(x), seed=3)
    relations = np.repeat([0, 1, 2], [2000, 2000, ENOUGH - 1])
    found = fitted(np.concatenate([x0, x1, x2]), np.concatenate([y0, y1, y2]), relations)
    assert set(found.relations) == {0, 1}
    zero = np.zeros(3)
    probabilities = found.probabilities(zero, np.array([0, 1, 2]))
    assert probabilities == pytest.approx([sigmoid(-3), sigmoid(3), found.curve(zero)[0]], abs=0.05)
    thresholds = found.thresholds(np.array([2, 1, 0, 1]))
    assert thresholds.tolist() == [
        found.threshold,
        found.relations[1].threshold,
        found.relations[0].threshold,
        found.relations[1].threshold,
    ]


def test_the_common_curve_fits_those_without_their_own() -> None:
    """One large relation, and many small ones in which the same score means far less."""
    x0, y0 = drawn(4000, lambda x: sigmoid(2 * x + 3), seed=1)
    x1, y1 = drawn(1000, lambda x: sigmoid(2 * x - 3), seed=2)
    relations = np.concatenate([np.zeros(4000, dtype=np.int64), 1 + np.arange(1000) // 25])
    found = fitted(np.concatenate([x0, x1]), np.concatenate([y0, y1]), relations)
    assert set(found.relations) == {0}
    zero = np.zeros(3)
    said = found.probabilities(zero, np.array([0, 7, 99]))
    assert said == pytest.approx([sigmoid(3), sigmoid(-3), sigmoid(-3)], abs=0.05)


def test_a_relation_like_all_others_keeps_their_curve() -> None:
    x, y = drawn(3000, lambda x: sigmoid(1.5 * x))
    found = fitted(x, y, np.repeat([0, 1], [2940, 60]))
    assert found.relations[1].curve is None


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic])
@pytest.mark.parametrize("sign", [1, -1])
def test_curves_ascend_within_0_and_1(fit: object, sign: int) -> None:
    x, y = drawn(300, lambda x: sigmoid(sign * 3 * x))
    probabilities = fit(x, y)(np.array([-1e30, *GRID, 1e30]))  # type: ignore[operator]
    assert np.all(np.diff(probabilities) >= 0)
    assert np.all((probabilities >= 0) & (probabilities <= 1))


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic])
def test_one_kind_alone_gives_a_level_curve(fit: object) -> None:
    for x, y in ((np.ones(40), np.arange(40) < 10), (GRID, np.ones(81, dtype=bool))):
        found = fit(x, y)(GRID)  # type: ignore[operator]
        assert found == pytest.approx(np.full(81, y.mean()), abs=0.03)


def test_reliability_against_brute_force() -> None:
    rng = np.random.default_rng(0)
    said = np.append(rng.random(500) ** 2, [0.0, 1.0])
    came = rng.random(502) < said
    found = Reliability.of(said, came)
    assert found.brier == pytest.approx(brier_score_loss(came, said))
    assert log_loss(said[:500], came[:500]) == pytest.approx(
        textbook_log_loss(came[:500], said[:500])
    )
    error = 0.0
    for number, each in enumerate(found.bins):
        low, high = number / 10, (number + 1) / 10
        inside = (said >= low) & ((said < high) | (number == 9))
        assert (each.low, each.high, each.count) == (low, high, inside.sum())
        assert each.mean_probability == pytest.approx(said[inside].mean())
        assert each.share_true == pytest.approx(came[inside].mean())
        error += inside.mean() * abs(said[inside].mean() - came[inside].mean())
    assert found.expected_calibration_error == pytest.approx(error)
    assert Reliability.of(np.array([0.05]), np.array([True])).bins[9].share_true is None


def test_the_threshold_is_right_most_often() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        said = rng.integers(6, size=12) / 10
        came = rng.random(12) < said
        rights = {t: np.mean((said >= t) == came) for t in (*said, 2.0)}
        threshold = best_threshold(said, came)
        best = max(value for t, value in rights.items() if t in said)
        assert rights[threshold] == best
        assert not any(t > threshold and rights[t] == best for t in said)


def test_figures_are_held_out() -> None:
    """Scores that mean nothing: fitted to themselves, isotonic curves would look better."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=200), rng.random(200) < 0.5
    own = fit_isotonic(x, y)
    assert np.square(own(x) - y).mean() < 0.248
    assert fitted(x, y).reliability.brier > 0.248


def test_a_file_brings_it_back(tmp_path: Path) -> None:
    graph = random_graph(0, valid=300)
    found = calibrate(make_model(graph), graph)
    assert found.triples == np.count_nonzero(graph.is_seen(graph.valid))
    assert found.relations
    found.save(tmp_path)
    assert Calibration.load(tmp_path) == found
    assert Calibration.load(tmp_path / "none") is None
    x, relations = np.linspace(-3, 3, 40), np.arange(40) % 4
    again = Calibration.load(tmp_path)
    assert again is not None
    np.testing.assert_array_equal(
        again.probabilities(x, relations), found.probabilities(x, relations)
    )


def test_a_costly_model_is_calibrated_with_fewer_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(0, valid=300)
    model = make_model(graph)
    monkeypatch.setattr("reltucker.evaluation.calibration.LEAST", 20)
    monkeypatch.setattr("reltucker.evaluation.calibration.WORK", 2 * 30 * 4 * 25)
    assert calibrate(model, graph).triples == 25
    monkeypatch.setattr("reltucker.evaluation.calibration.WORK", 1)
    assert calibrate(model, graph).triples == 20


CURVE = {"method": "isotonic", "plausibilities": [0.0, 1.0], "probabilities": [0.2, 0.7]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("curve", {**CURVE, "probabilities": [0.7, 0.2]}),
        ("curve", {**CURVE, "plausibilities": [1.0, 0.0]}),
        ("curve", {**CURVE, "plausibilities": [1.0]}),
        ("curve", {**CURVE, "probabilities": [0.2, 1.2]}),
        ("curve", {"method": "platt", "slope": -1.0, "intercept": 0.0}),
        ("curve", {"method": "platt", "slope": float("nan"), "intercept": 0.0}),
        ("curve", {"method": "other"}),
        ("threshold", None),
        ("relations", {"x": {}}),
        ("unknown", 1),
    ],
)
def test_a_damaged_file_is_named(key: str, value: object, tmp_path: Path) -> None:
    x, y = drawn(100, sigmoid)
    good = {**fitted(x, y).to_dict(), "curve": CURVE}
    path = tmp_path / CALIBRATION
    path.write_text(json.dumps(good))
    assert isinstance(Calibration.load(tmp_path).curve, Isotonic)  # type: ignore[union-attr]
    path.write_text(json.dumps({**good, key: value}))
    with pytest.raises(RunError, match=r"calibration\.json is damaged .*reltucker calibrate"):
        Calibration.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null"])
def test_what_is_no_json_document_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CALIBRATION).write_bytes(content)
    with pytest.raises(RunError, match=r"calibration\.json is damaged"):
        Calibration.load(tmp_path)


def test_without_enough_triples_there_are_no_probabilities(tmp_path: Path) -> None:
    graph = random_graph(0)
    graph = replace(graph, valid=graph.valid[:5])
    model = make_model(graph)
    with pytest.raises(ReltuckerError, match="probabilities need at least 10"):
        calibrate(model, graph)
    add_calibration(model, graph, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failure_is_told_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("reltucker.evaluation.calibration.calibrate", fail)
    graph = random_graph(0)
    with (
        warnings.catch_warnings(),
        pytest.warns(UserWarning, match="no probabilities: out of luck"),
    ):
        add_calibration(make_model(graph), graph, tmp_path)


def test_platt_never_overflows() -> None:
    with np.errstate(all="raise"):
        assert Platt(slope=5.0, intercept=0.0)(np.array([-1e300, 1e300])).tolist() == [0.0, 1.0]
