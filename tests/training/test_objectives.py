"""Every objective against its written loss in plain autograd, with the same draws."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reltucker.graph import KnowledgeGraph
from reltucker.graph.vocabulary import Vocabulary
from reltucker.kernels import Dropout, apply_dropout, draw_candidates
from reltucker.model import CORES, RelationalTucker
from reltucker.training import Recipe, TrainSettings, settled
from reltucker.training.objectives import RowGradient, dense
from reltucker.training.objectives.batches import Batch
from reltucker.training.objectives.objective import Keys, Objective
from reltucker.training.optimizer import Optimizer
from reltucker.training.recipe import RecipeWarning
from tests.conftest import build_core, random_graph

ENTITIES, RELATIONS, SEEN = 20, 4, 18
TRIPLES = np.array(
    [[0, 1, 2], [3, 1, 0], [5, 3, 7], [2, 0, 17], [0, 1, 4], [0, 1, 11], [6, 1, 2], [17, 2, 5]],
    dtype=np.int32,
)


def graph() -> KnowledgeGraph:
    names = Vocabulary([f"e{i}" for i in range(ENTITIES)]), Vocabulary(list("abcd"))
    none = np.empty((0, 3), dtype=np.int32)
    return KnowledgeGraph("test", *names, TRIPLES, none, none, SEEN, RELATIONS)


def make_objective(
    model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
) -> Objective:
    return settings.objective_class.build(model, settings, graph)


def make(name: str, reciprocal: bool, batch_norm: bool = False) -> RelationalTucker:
    core = build_core(name, 6, RELATIONS)
    model = RelationalTucker(
        ENTITIES, RELATIONS, core, reciprocal=reciprocal, batch_norm=batch_norm
    )
    model.reset(torch.Generator().manual_seed(3))
    return model


def settings(**changes: Any) -> TrainSettings:
    return TrainSettings(**{"negatives": 5, "entity_dropout": 0.0, "mixing_dropout": 0.0} | changes)


def step(objective: Objective, chosen: Tensor, seed: int = 9) -> tuple[float, dict[str, Tensor]]:
    """The loss and whole gradients of a step; the parameters themselves are left alone."""
    loss, found = objective.gradients(chosen, torch.Generator().manual_seed(seed))
    parameters = dict(objective.model.named_parameters())
    assert found.keys() == parameters.keys()
    assert all(parameter.grad is None for parameter in parameters.values())
    return loss.item(), {n: dense(g, parameters[n]).clone() for n, g in found.items()}


class Reference:
    """The same batch and the same draws, with a dense matrix for every question."""

    def __init__(self, objective: Objective, chosen: Tensor, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.model, self.settings = objective.model, objective.settings
        self.keys = Keys.draw(generator)
        self.batch: Batch = objective.batches.take(chosen, generator)
        self.masks = self.keys.masks(self.settings)
        mask = apply_dropout(
            torch.ones(ENTITIES, 6), Dropout(self.settings.entity_dropout, self.keys.entities)
        )
        self.entities = self.model.E * mask

    def queries(self) -> Tensor:
        """Autograd over the public pieces; the fused loops are tested against it elsewhere."""
        a = self.batch.arrangement
        given = self.entities[self.batch.given]
        return self.model.ask(a, given, self.model.R[a.relations], self.masks)

    @property
    def rows(self) -> Tensor:
        """The row of R of each question."""
        return self.batch.arrangement.relations[self.batch.arrangement.index]

    def explicit_queries(self) -> Tensor:
        """e_i^T M_k or M_k e_j by explicit matrices (without dropout and normalisation)."""
        batch, model = self.batch, self.model
        rows = []
        for given, row, place in zip(batch.given, self.rows, range(len(batch.given)), strict=True):
            matrix = torch.einsum("ijl,l->ij", model.core.tensor(), model.R[row])
            asks_subject = not model.reciprocal and self.asks_subject[place]
            vector = self.entities[given]
            rows.append(matrix @ vector if asks_subject else vector @ matrix)
        return torch.stack(rows)

    @property
    def asks_subject(self) -> list[bool]:
        """Which questions ask for subjects, found in the triples themselves."""
        known = {tuple(t) for t in TRIPLES.tolist()}
        first = [int(self.batch.answers[s]) for s in self.batch.starts[:-1]]
        return [
            (int(g), int(r), a) not in known
            for g, r, a in zip(self.batch.given, self.rows, first, strict=True)
        ]

    def labels(self) -> Tensor:
        labels = torch.zeros(len(self.batch.given), ENTITIES)
        for b in range(len(labels)):
            labels[b, self.batch.answers[self.batch.starts[b] : self.batch.starts[b + 1]]] = 1
        return labels

    def loss(self, queries: Tensor) -> Tensor:
        s, batch = self.settings, self.batch
        if s.objective == "negative_sampling":
            if s.shared_negatives:
                nobody = torch.tensor([SEEN])
                drawn = draw_candidates(nobody, s.negatives, SEEN, self.keys.candidates)[0, 1:]
                drawn = drawn.expand(len(queries), -1)
            else:
                drawn = draw_candidates(batch.answers, s.negatives, SEEN, self.keys.candidates)[
                    :, 1:
                ]
            candidates = torch.cat([batch.answers.unsqueeze(1), drawn], dim=1)
            scores = torch.einsum("bd,bnd->bn", queries, self.entities[candidates])
            again = candidates == candidates[:, :1]
            again[:, 0] = False
            scores = scores.masked_fill(again, -torch.inf)
            return (-torch.log_softmax(scores, 1)[:, 0] * batch.weights).sum()
        scores, labels = queries @ self.entities.T, self.labels()
        if s.sampled_epochs:
            nobody = torch.tensor([ENTITIES])
            drawn = draw_candidates(nobody, s.negatives, ENTITIES, self.keys.candidates)[0, 1:]
            each = ENTITIES / s.negatives if s.sampled_weights == "all" else 1.0
            wrong = (scores + np.log(each))[:, drawn]
            wrong = wrong.masked_fill(labels[:, drawn] > 0, -torch.inf).logsumexp(1, keepdim=True)
            losses = (torch.logaddexp(scores, wrong) - scores) * labels
            return (losses.sum(1) / labels.sum(1) * batch.weights).sum()
        if s.loss == "softmax":
            target = labels / labels.sum(1, keepdim=True) * (1 - s.label_smoothing)
            target = target + s.label_smoothing / ENTITIES
            losses = -(target * torch.log_softmax(scores, 1)).sum(1)
        else:
            target = labels * (1 - s.label_smoothing) + s.label_smoothing / ENTITIES
            losses = F.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(1)
        return (losses * batch.weights).sum()

    def relation_loss(self, items: int) -> Tensor:
        i, k, j = self.batch.facts.T
        queries = self.model.relation_queries(self.entities[i], self.entities[j])
        loss = F.cross_entropy(queries @ self.model.R.T, k, reduction="sum")
        return self.settings.relation_prediction * loss / items


OBJECTIVES: list[dict[str, Any]] = [
    {},
    {"shared_negatives": True},
    {"shared_negatives": True, "answer_weights": "frequency"},
    {"objective": "one_vs_all"},
    {"objective": "one_vs_all", "sampled_epochs": 1, "answer_weights": "frequency"},
    {"objective": "k_vs_all", "sampled_epochs": 1, "answer_exponent": 0.5},
    {"objective": "k_vs_all", "sampled_epochs": 1, "sampled_weights": "own"},
    {"objective": "k_vs_all", "label_smoothing": 0.1, "answer_exponent": 0.5},
    {"objective": "k_vs_all", "loss": "binary", "label_smoothing": 0.2},
]
RATES = {
    "entity_dropout": 0.4,
    "mixing_dropout": 0.3,
    "relation_dropout": 0.2,
    "given_dropout": 0.1,
    "query_dropout": 0.25,
}


@pytest.mark.parametrize("name", sorted(CORES))
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("rates", [{}, RATES], ids=["plain", "dropout"])
@pytest.mark.parametrize("changes", OBJECTIVES, ids=str)
def test_gradients_equal_those_of_the_written_loss(
    name: str, reciprocal: bool, rates: dict[str, float], changes: dict[str, Any]
) -> None:
    model = make(name, reciprocal)
    objective = make_objective(model, settings(**changes, **rates), graph())
    chosen = torch.arange(len(objective))[: len(objective) - 1]
    loss, found = step(objective, chosen, 9)
    reference = Reference(objective, chosen, 9)
    expected = reference.loss(reference.queries())
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for parameter_name, parameter in model.named_parameters():
        assert torch.allclose(found[parameter_name], parameter.grad, atol=2e-6), parameter_name


@pytest.mark.parametrize("name", sorted(set(CORES) - {"srt"}))
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("objective_name", ["one_vs_all", "k_vs_all"])
def test_queries_are_those_of_explicit_matrices(
    name: str, reciprocal: bool, objective_name: str
) -> None:
    model = make(name, reciprocal)
    objective = make_objective(model, settings(objective=objective_name), graph())
    reference = Reference(objective, torch.arange(len(objective)), 2)
    assert torch.allclose(reference.queries(), reference.explicit_queries(), atol=1e-5)


@pytest.mark.parametrize("name", sorted(CORES))
@pytest.mark.parametrize("chosen", [[0], [1, 2], [12]])
def test_a_batch_may_ask_one_way_only(name: str, chosen: list[int]) -> None:
    """Such as the last one of an epoch, with a single question."""
    objective = make_objective(make(name, False), settings(objective="k_vs_all"), graph())
    loss, _ = step(objective, torch.tensor(chosen))
    assert np.isfinite(loss)


def test_k_vs_all_asks_every_question_once_with_all_of_its_answers() -> None:
    model = make("drt", False)
    objective = make_objective(model, settings(objective="k_vs_all"), graph())
    batch = objective.batches.take(torch.arange(len(objective)), torch.Generator())
    reference = Reference(objective, torch.arange(len(objective)), 2)
    asked = {}
    for b, asks_subject in enumerate(reference.asks_subject):
        answers = batch.answers[batch.starts[b] : batch.starts[b + 1]].tolist()
        asked[int(batch.given[b]), int(reference.rows[b]), asks_subject] = answers
    expected: dict[tuple[int, int, bool], list[int]] = {}
    for i, k, j in sorted(TRIPLES.tolist(), key=lambda t: (t[2], t[0])):
        expected.setdefault((i, k, False), []).append(j)
    for i, k, j in sorted(TRIPLES.tolist()):
        expected.setdefault((j, k, True), []).append(i)
    assert asked == expected
    assert {tuple(fact) for fact in batch.facts.tolist()} <= {tuple(t) for t in TRIPLES.tolist()}
    assert batch.weights.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("at_once", [None, 1, 2])
def test_k_vs_all_with_exponent_one_has_the_gradient_of_one_vs_all(
    reciprocal: bool, at_once: int | None
) -> None:
    """Summed over all questions both are the same loss, up to the scale of the mean."""
    model = make("drt", reciprocal)
    by_question = make_objective(
        model,
        settings(objective="k_vs_all", answer_exponent=1.0, answers_at_once=at_once),
        graph(),
    )
    if at_once is not None:
        assert len(by_question) == {1: 16, 2: 14}[at_once]
    _, first = step(by_question, torch.arange(len(by_question)))
    by_triple = make_objective(model, settings(objective="one_vs_all"), graph())
    _, second = step(by_triple, torch.arange(len(by_triple)))
    for name, gradient in second.items():
        assert torch.allclose(2 * first[name], gradient, atol=1e-6), name


@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_blocks_of_entities_have_the_gradients_of_one_block(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make("drt", True)
    chosen = torch.arange(6)
    wanted = settings(objective="k_vs_all", loss=loss, label_smoothing=0.1, entity_dropout=0.2)
    whole = make_objective(model, wanted, graph())
    value, expected = step(whole, chosen)
    # Five entities at a time; the setting counts in megabytes.
    tiny = wanted.model_copy(update={"score_megabytes": 6 * 5 * 4 / 2**20})
    blocked = make_objective(model, tiny, graph())
    again, found = step(blocked, chosen)
    assert again == pytest.approx(value, rel=1e-6)
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-6), name


@pytest.mark.parametrize("changes", [c for c in OBJECTIVES if c], ids=str)
def test_products_in_bfloat16_are_rounded_and_nothing_else(changes: dict[str, Any]) -> None:
    model, chosen = make("complex", True), torch.arange(6)
    for parameter in model.parameters():
        parameter.data.mul_(2.0)  # scores that are far from equal
    exact = step(make_objective(model, settings(**changes), graph()), chosen)
    wanted = settings(**changes, products="bfloat16")
    rounded = step(make_objective(model, wanted, graph()), chosen)
    assert rounded[0] == pytest.approx(exact[0], rel=0.01)
    for name, gradient in rounded[1].items():
        assert gradient.dtype == torch.float32
        error = (gradient - exact[1][name]).norm() / exact[1][name].norm()
        assert 0.0 < error < 0.02, name


@pytest.mark.parametrize("name", ["drt", "srt", "complex", "rescal"])
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("objective_name", ["negative_sampling", "one_vs_all", "k_vs_all"])
def test_relation_prediction_adds_its_weighted_loss(
    name: str, reciprocal: bool, objective_name: str
) -> None:
    model = make(name, reciprocal)
    wanted = settings(objective=objective_name, relation_prediction=0.7, entity_dropout=0.3)
    objective = make_objective(model, wanted, graph())
    chosen = torch.arange(5)
    loss, found = step(objective, chosen, 4)
    reference = Reference(objective, chosen, 4)
    expected = reference.relation_loss(len(chosen)) + reference.loss(reference.queries())
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for parameter_name, parameter in model.named_parameters():
        assert torch.allclose(found[parameter_name], parameter.grad, atol=2e-6), parameter_name


def test_answer_weights_follow_frequency_and_leave_regularizers_alone() -> None:
    model = make("drt", False)
    objective = make_objective(model, settings(answer_weights="frequency"), graph())
    batch = objective.batches.take(torch.arange(len(TRIPLES)), torch.Generator())
    counts = np.bincount(TRIPLES[:, [0, 2]].flatten(), minlength=ENTITIES)
    expected = (0.9 * counts / counts.max() + 0.1)[batch.answers]
    assert torch.allclose(batch.weights, torch.tensor(expected / expected.sum() * 2).float())
    assert batch.weights.sum().item() == pytest.approx(2.0)
    assert torch.equal(batch.shares, torch.full((16,), 1 / 8))


def test_a_sample_gives_way_to_all_entities() -> None:
    model, chosen = make("complex", True), torch.arange(6)
    sampled = settings(objective="k_vs_all", sampled_epochs=2)
    objective = make_objective(model, sampled, graph())
    whole = step(make_objective(model, settings(objective="k_vs_all"), graph()), chosen)
    for epoch, is_whole in ((1, False), (2, False), (3, True)):
        objective.begin_epoch(epoch)
        loss, found = step(objective, chosen)
        assert (loss == whole[0]) == is_whole
        assert torch.equal(found["E"], whole[1]["E"]) == is_whole


def test_a_sample_of_answers_alone_leaves_nothing_to_push_away() -> None:
    answers = torch.arange(6, 6 + SEEN - 6)
    triples = np.array([[0, 1, a] for a in answers.tolist()], dtype=np.int32)
    whole = graph()
    small = dataclasses.replace(whole, train=triples)
    model = make("drt", True)
    wanted = settings(objective="k_vs_all", sampled_epochs=1, negatives=1)
    objective = make_objective(model, wanted, small)
    for seed in range(20):
        loss, found = step(objective, torch.tensor([0]), seed)
        assert np.isfinite(loss)
        assert all(gradient.isfinite().all() for gradient in found.values())


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["none", "n3"])
def test_compact_steps_equal_dense_ones(
    shared: bool, rate: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps of AdaGrad that touch few rows of E, and ten that update all of it."""
    wanted = settings(shared_negatives=shared, entity_dropout=rate, relation_prediction=0.5)
    if kind != "none":
        wanted = wanted.model_copy(update={"regularizer": kind, "regularizer_weight": 0.1})
    results = []
    for threshold in (-1.0, float("inf")):
        monkeypatch.setattr("reltucker.training.objectives.objective.COMPACT_ABOVE", threshold)
        model = make("drt", False)
        objective = make_objective(model, wanted, graph())
        optimizer = Optimizer(model, wanted)
        generator = torch.Generator().manual_seed(5)
        for _ in range(10):
            _, found = objective.gradients(torch.tensor([0, 3, 5]), generator)
            assert isinstance(found["E"], RowGradient) == (threshold < 0)
            optimizer.step(found, 0.1)
        results.append(
            {n: p.detach() for n, p in model.named_parameters()} | optimizer.state_dict()["E"]
        )
    for name, value in results[0].items():
        assert torch.allclose(value, results[1][name], atol=1e-6), name


def test_compact_steps_are_for_optimisers_that_leave_untouched_rows_alone() -> None:
    large = RelationalTucker(5000, RELATIONS, CORES["drt"].build(4, None, RELATIONS))
    for changes, compact in (
        ({}, True),
        ({"optimizer": "adam"}, False),
        ({"weight_decay": 0.1}, False),
        ({"objective": "one_vs_all"}, False),
        ({"batch_size": 500}, False),
    ):
        wanted = settings(**{"batch_size": 4, **changes})
        assert make_objective(large, wanted, graph()).table.compact is compact, changes


def test_batch_normalisation_is_that_of_torch_in_training_and_affine_after_it() -> None:
    model = make("drt", True, batch_norm=True)
    objective = make_objective(model, settings(objective="one_vs_all"), graph())
    assert model.norm is not None
    model.train()
    batch = objective.batches.take(torch.arange(8), torch.Generator())
    given = model.E[batch.given]
    a = batch.arrangement
    queries = model.ask(a, given, model.R[a.relations])
    assert queries.mean(0).abs().max() < 1e-5
    assert (queries.var(0, correction=0) - 1).abs().max() < 1e-2
    model.eval()
    # e_i^T M_k e_j asked from the object's side is what `score` says.
    scores = model.queries("object", torch.tensor([3]), torch.tensor([1])) @ model.E.T
    assert torch.allclose(scores[0, 7], model.score(torch.tensor([[3, 1, 7]]))[0])
    # Without the shifts, the normalised model has the mixing matrices that it shows.
    with torch.no_grad():
        for norm in (model.norm.before, model.norm.after):
            norm.running_mean.zero_()
            norm.bias.zero_()
    expected = model.E[3] @ model.mixing_matrix(1) @ model.E[7]
    assert torch.allclose(model.score(torch.tensor([[3, 1, 7]]))[0], expected, atol=1e-5)
    by_relation = model.queries("relation", torch.tensor([3]), torch.tensor([7]))
    assert torch.allclose((by_relation @ model.R[1])[0], expected, atol=1e-5)


def test_normalised_state_survives_storage() -> None:
    model, other = make("drt", True, batch_norm=True), make("drt", True, batch_norm=True)
    model.train()
    objective = make_objective(model, settings(objective="one_vs_all"), graph())
    step(objective, torch.arange(8))
    other.load_serving_state(model.serving_state())
    assert model.norm is not None
    assert model.norm.after.running_mean.abs().sum() > 0
    triples = torch.tensor([[3, 1, 7], [0, 2, 5]])
    assert torch.equal(model.eval().score(triples), other.eval().score(triples))


def test_candidates_begin_with_the_true_entity_and_hold_it_once() -> None:
    true = torch.arange(10).repeat(50)
    candidates = draw_candidates(true, 8, 10, key=4)
    assert candidates.shape == (500, 9)
    assert torch.equal(candidates[:, 0], true)
    assert all(len(set(row)) == 9 for row in candidates.tolist())
    assert candidates.max() == 9
    # Each of the nine others is left out as often as any other.
    counts = torch.bincount(candidates[:, 1:].flatten(), minlength=10)
    assert counts.min() > 350


def test_negatives_are_no_more_than_other_entities() -> None:
    graph = random_graph(0)
    others = graph.seen_entities - 1
    with pytest.warns(RecipeWarning, match=rf"negatives = 2000: .* {others} other entities"):
        recipe = settled(Recipe().changed(["train.negatives=2000"]), graph)
    assert recipe.train.negatives == others
    undrawn = Recipe().changed(["train.objective=one_vs_all"])
    assert settled(undrawn, graph).train.negatives == undrawn.train.negatives


def test_a_true_entity_outside_of_the_population_is_kept_apart() -> None:
    candidates = draw_candidates(torch.tensor([15]), 9, 10, key=2)
    assert candidates[0, 0] == 15
    assert candidates[0, 1:].max() < 10
