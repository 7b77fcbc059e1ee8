"""Figures of triple classification against scikit-learn, by hand."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

from reltucker.errors import ReltuckerError
from reltucker.evaluation import calibrate, classify_triples, plausibilities
from reltucker.evaluation.corruption import corrupt
from tests.conftest import random_graph
from tests.evaluation.test_corruption import make_model


def test_figures_are_those_of_scikit_learn() -> None:
    graph = random_graph(0, valid=300, test=200)
    model = make_model(graph)
    calibration = calibrate(model, graph)
    assert calibration.relations
    found = classify_triples(model, graph, calibration)
    judged = corrupt(model, graph, graph.test[graph.is_seen(graph.test)], seed=1)
    relations = judged.triples[:, 1]
    said = calibration.probabilities(plausibilities(model, judged.triples), relations)
    limits = np.array(
        [
            calibration.relations[k].threshold
            if k in calibration.relations
            else calibration.threshold
            for k in relations.tolist()
        ]
    )
    truth, pairs = judged.is_true, judged.is_pair
    decided = (said >= limits)[pairs]
    expected = {
        "accuracy": metrics.accuracy_score(truth[pairs], decided),
        "precision": metrics.precision_score(truth[pairs], decided),
        "recall": metrics.recall_score(truth[pairs], decided),
        "f1": metrics.f1_score(truth[pairs], decided),
        "roc_auc": metrics.roc_auc_score(truth[pairs], said[pairs]),
        "average_precision": metrics.average_precision_score(truth[pairs], said[pairs]),
    }
    figures = found.to_dict()
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert found.decisions == pairs.sum()
    assert 1.9 < found.decisions / (2 * found.triples) <= 2.0
    assert figures["reliability"]["brier"] == pytest.approx(metrics.brier_score_loss(truth, said))
    assert found.reliability.base_rate == pytest.approx(truth.mean())


def test_a_sample_is_classified_alone() -> None:
    graph = random_graph(0)
    model = make_model(graph)
    assert classify_triples(model, graph, calibrate(model, graph), sample=7).triples == 7


def test_an_empty_split_is_refused() -> None:
    graph = random_graph(0)
    model = make_model(graph)
    calibration = calibrate(model, graph)
    with pytest.raises(ReltuckerError, match="nothing to classify"):
        classify_triples(model, replace(graph, test=graph.test[:0]), calibration)
