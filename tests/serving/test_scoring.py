"""Scores, probabilities and ranks of named triples, and probabilities of predictions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from reltucker.errors import RunError
from reltucker.evaluation import rank_split
from reltucker.run import Run, open_run, train
from reltucker.training import Recipe
from tests.conftest import random_graph

RECIPE = Recipe().changed(
    [
        "model.name='complex'",
        "model.entity_dim=6",
        "model.reciprocal=true",
        "train.epochs=2",
        "train.batch_size=50",
    ]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "run"
    return train(random_graph(0), RECIPE, out=path, progress=False)


def test_scores_and_ranks_equal_brute_force(run: Run) -> None:
    graph, model = run.graph, run.model
    rng = np.random.default_rng(0)
    triples = np.concatenate([rng.integers([30, 4, 30], size=(20, 3)), graph.train[:5]])
    found = run.score(graph.named(triples), progress=False)
    known = {
        t for part in (graph.train, graph.valid, graph.test) for t in map(tuple, part.tolist())
    }
    size = graph.seen_entities
    scores = {}
    for (i, k, j), row in zip(triples.tolist(), found.iter_rows(named=True), strict=True):
        assert (row["subject"], row["relation"], row["object"]) == (f"e{i}", f"r{k}", f"e{j}")
        assert row["known"] == ((i, k, j) in known)
        for direction, given, asked in (("object", i, j), ("subject", j, i)):
            query = model.queries(direction, torch.tensor([given]), torch.tensor([k]))
            all_scores = (query @ model.E.detach()[:size].t())[0]
            scores[direction] = float(all_scores[asked])
            rivals = [
                all_scores[e]
                for e in range(size)
                if e != asked and ((i, k, e) if direction == "object" else (e, k, j)) not in known
            ]
            above = sum(bool(score > all_scores[asked]) for score in rivals)
            assert row[f"{direction}_rank"] == above + 1
        assert row["score"] == pytest.approx((scores["object"] + scores["subject"]) / 2, abs=1e-5)
    assert run.calibration is not None
    expected = run.calibration.probabilities(found["score"].to_numpy(), triples[:, 1])
    np.testing.assert_allclose(found["probability"], expected)


def test_ranks_are_those_of_the_evaluation(run: Run) -> None:
    graph = run.graph
    found = run.score(graph.named(graph.test), progress=False)
    ranking = rank_split(run.model, graph, "test")
    for direction in ("object", "subject"):
        ranks = found[f"{direction}_rank"].drop_nulls()
        np.testing.assert_array_equal(ranks, ranking.of("seen", direction))
    both = pl.concat([found["object_rank"], found["subject_rank"]]).drop_nulls()
    assert (1 / both).mean() == pytest.approx(run.evaluate(progress=False).metrics["seen"].mrr)


def test_a_name_that_is_not_in_train_has_no_figures(run: Run) -> None:
    found = run.score([("e1", "r0", "e31"), ("e1", "r0", "e2")], progress=False)
    figures = found.select("score", "probability", "object_rank", "subject_rank")
    assert figures.row(0) == (None,) * 4
    assert None not in figures.row(1)
    assert run.score([], progress=False).schema == found.schema


def test_a_prediction_has_the_probability_of_its_triple(run: Run) -> None:
    for question in (("e1", "r0", None), (None, "r1", "e4"), ("e3", None, "e5")):
        answers = run.predict(*question, top=5)
        triples = answers.select("subject", "relation", "object")
        scored = run.score(triples, progress=False)
        np.testing.assert_allclose(answers["probability"], scored["probability"], atol=1e-6)
        assert answers["probability"].is_between(0, 1).all()


def test_without_validation_triples_there_are_no_probabilities(tmp_path: Path) -> None:
    graph = random_graph(0)
    bare = replace(graph, valid=graph.valid[:0])
    run = train(bare, RECIPE.with_values({"train.epochs": 1}), out=tmp_path / "run", progress=False)
    assert run.calibration is None
    answers = run.predict("e1", "r0")
    assert answers["probability"].dtype == pl.Float64
    assert answers["probability"].null_count() == len(answers) > 0
    scored = run.score([("e1", "r0", "e2")], progress=False)
    assert scored.row(0, named=True)["probability"] is None
    assert scored.row(0, named=True)["score"] is not None
    with pytest.raises(RunError, match="reltucker calibrate"):
        run.evaluate(classify=True, progress=False)
    calibration = run.calibrate("test")
    assert run.calibration is calibration
    assert open_run(run.path).calibration == calibration
    assert run.predict("e1", "r0")["probability"].null_count() == 0


def test_a_resumed_run_is_calibrated_as_an_unbroken_one(run: Run, tmp_path: Path) -> None:
    again = train(random_graph(0), RECIPE, out=tmp_path / "again", progress=False)
    assert again.calibration == run.calibration
    for name in ("result.json", "calibration.json"):
        (again.path / name).unlink()
    resumed = open_run(again.path)
    assert resumed.calibration is None
    resumed.resume(progress=False)
    assert resumed.calibration == run.calibration
    assert_frame_equal(resumed.predict("e1", "r0"), run.predict("e1", "r0"), abs_tol=1e-6)


def test_evaluation_may_classify(run: Run) -> None:
    figures = run.evaluate("valid", classify=True, progress=False).to_dict()
    assert 0.3 < figures["classification"]["accuracy"] <= 1.0
    assert "classification" not in run.evaluate("valid", progress=False).to_dict()
