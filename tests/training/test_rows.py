"""The objective of single rows against the objective of training, and against its formula."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reltucker.model import RelationalTucker
from reltucker.training.objectives import dense, rows
from reltucker.training.objectives.objective import Objective
from reltucker.training.objectives.rows import RowObjective
from tests.training.test_objectives import TRIPLES, graph, make, make_objective, settings

IDS = torch.tensor([0, 2, 17])


def objective_of(model: RelationalTucker, **changes: Any) -> Objective:
    model.eval().requires_grad_(False)
    return make_objective(model, settings(**changes), graph())


def gradient(objective: RowObjective, at: Tensor) -> Tensor:
    at = at.clone().requires_grad_()
    (found,) = torch.autograd.grad(objective.value(at), at)
    return found


def held(objective: RowObjective, at: Tensor) -> Tensor:
    return objective.hold * (at - objective.mean)


@pytest.mark.parametrize("name", ["drt", "block", "complex", "hole", "rescal", "merged"])
@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "one_vs_all"},
        {"objective": "one_vs_all", "answer_weights": "frequency", "relation_prediction": 0.7},
        {"objective": "k_vs_all", "answer_exponent": 0.5, "label_smoothing": 0.2},
        {"objective": "k_vs_all", "answers_at_once": 2, "answer_exponent": 1.0},
        {"objective": "k_vs_all", "loss": "binary", "label_smoothing": 0.1},
        {"objective": "one_vs_all", "regularizer": "n3", "regularizer_weight": 0.3},
        {"objective": "k_vs_all", "regularizer": "dura_diagonal", "regularizer_weight": 0.3},
        {"objective": "k_vs_all", "regularizer": "ivr", "regularizer_weight": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["plain", "reciprocal", "normalised"])
def test_gradients_are_those_of_the_training_step(
    name: str, changes: dict[str, Any], kind: str
) -> None:
    """All rows at once are joint: as given entities, as answers and as candidates."""
    model = make(name, kind != "plain", kind == "normalised")
    if model.norm is not None:
        for norm in (model.norm.before, model.norm.after):
            torch.nn.init.normal_(norm.weight, 1.0, 0.3)
            torch.nn.init.normal_(norm.bias)
            torch.nn.init.normal_(norm.running_mean)
    objective = objective_of(model, **changes)
    model.requires_grad_(True)
    of_rows = RowObjective(objective, IDS, 18)
    touched = objective.batches.touching(IDS)
    _, found = objective.gradients(touched, torch.Generator().manual_seed(0))
    expected = len(touched) * dense(found["E"], model.E)[IDS]
    at = model.E.detach()[IDS]
    assert torch.allclose(gradient(of_rows, at), expected + held(of_rows, at), atol=2e-4)


@pytest.mark.parametrize("reciprocal", [False, True])
def test_drawn_negatives_count_as_often_as_they_are_drawn(reciprocal: bool) -> None:
    """By the written formula, with one open row."""
    model = make("srt", reciprocal)
    of_rows = RowObjective(objective_of(model, negatives=5), torch.tensor([2]), 18)
    E = model.E.detach()
    row = torch.randn(1, 6)
    entities = torch.cat([E[:2], row, E[3:]])
    total = torch.zeros(())
    for i, k, j in TRIPLES.tolist():
        if 2 not in (i, j):
            continue
        for given, answer, asks_subject in ((i, j, False), (j, i, True)):
            relation = k + 4 * (asks_subject and reciprocal)
            matrix = model.core.mixing_matrices(model.R[relation][None])[0]
            if asks_subject and not reciprocal:
                matrix = matrix.t()
            scores = (entities[given] @ matrix @ entities.t())[:18].exp()  # of those in train
            others = scores.sum() - scores[answer]
            total += (scores[answer] + 5 / 17 * others).log() - scores[answer].log()
    value = of_rows.value(row) - 0.5 * (of_rows.hold * (row - of_rows.mean) ** 2).sum()
    assert torch.allclose(value, total, atol=1e-5)


def test_a_sample_of_candidates_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = objective_of(make("complex", True), objective="one_vs_all")
    at = torch.randn(1, 6)
    whole = RowObjective(objective, IDS[:1], 18)
    monkeypatch.setattr(rows, "FEWEST_CANDIDATES", 12)
    monkeypatch.setattr(rows, "CANDIDATE_NUMBERS", 0)
    sampled = RowObjective(objective, IDS[:1], 18)
    assert len(sampled.e_candidates) < len(whole.e_candidates) == 19
    assert sampled.times == pytest.approx(19 / len(sampled.e_candidates))
    assert sampled.value(at) == pytest.approx(float(whole.value(at)), rel=0.3)


def test_of_many_facts_a_sample_stands_for_all() -> None:
    objective = objective_of(make("complex", True), objective="one_vs_all")
    sampled = RowObjective(objective, IDS[:1], 18, most=3)
    items = len(objective.batches.touching(IDS[:1]))
    assert len(sampled.facts) < 2 * items
    assert float(sampled.weights.sum()) == pytest.approx(2 * items)


def test_weight_decay_counts_in_every_step() -> None:
    model = make("complex", False)
    at = torch.randn(1, 6)
    plain, decayed = (
        RowObjective(objective_of(model, weight_decay=decay), IDS[:1], 18) for decay in (0.0, 0.1)
    )
    expected = len(TRIPLES) * 0.1 * at
    assert torch.allclose(gradient(decayed, at) - gradient(plain, at), expected, atol=1e-5)


def test_facts_are_the_triples_of_the_open_rows() -> None:
    for name in ("one_vs_all", "k_vs_all"):
        for reciprocal in (False, True):
            objective = objective_of(make("complex", reciprocal), objective=name)
            found = RowObjective(objective, IDS[:1], 18)
            facts = {tuple(fact) for fact in found.facts[found.is_open].tolist()}
            assert facts == {tuple(t) for t in TRIPLES.tolist() if 0 in (t[0], t[2])}
