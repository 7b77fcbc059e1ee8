"""Parts add up to the score, and the facts that support it are those that it would miss."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reltucker import Recipe, Run, train
from reltucker.errors import ReltuckerError
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.model import CORES, RelationalTucker, weighted_sum, without_normalisation
from reltucker.serving import ScoreParts, explain, explanation, score_parts
from reltucker.serving.support import influences, slopes
from reltucker.training import RowObjective, TrainSettings, solve
from tests.conftest import build_core, random_graph

TRIPLE = (3, 2, 7)
EVERY = 10_000


def make(name: str, kind: str, seed: int = 0) -> RelationalTucker:
    options = {"blocks": 4} if name == "block" else {}
    core = build_core(name, 8, 5, **options)
    normalised = kind == "normalised"
    model = RelationalTucker(12, 5, core, reciprocal=kind != "plain", batch_norm=normalised)
    model.reset(torch.Generator().manual_seed(seed), 2.0)
    if model.norm is not None:
        generator = torch.Generator().manual_seed(seed + 1)
        for norm in (model.norm.before, model.norm.after):
            for part in (norm.weight, norm.bias, norm.running_mean):
                part.data.copy_(torch.randn(8, generator=generator))
    return model.eval().requires_grad_(False)


def asked_for(model: RelationalTucker, way: str) -> float:
    first, second, answer = (torch.tensor([n]) for n in TRIPLE)
    if way == "subject":
        query = model.queries("subject", answer, second)
        return float((query * model.E[first]).sum())
    return float((model.queries("object", first, second) * model.E[answer]).sum())


def check_sum(model: RelationalTucker, parts: ScoreParts) -> None:
    frame = parts.parts
    assert parts.score == pytest.approx(asked_for(model, parts.way), abs=1e-4)
    assert frame["part"].sum() + parts.rest == pytest.approx(parts.score)
    factors = frame["subject_value"] * frame["core"] * frame["relation_value"]
    assert np.allclose(factors * frame["object_value"], frame["part"])
    assert frame["part"].abs().is_sorted(descending=True)


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("kind", ["plain", "reciprocal", "normalised"])
def test_parts_add_up_to_the_score(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the products with the entries of the core of the model without normalisation."""
    monkeypatch.setattr(explanation, "BLOCK", 50)
    model = make(name, kind)
    plain = without_normalisation(model)
    plain.requires_grad_(False)
    G, (i, k, j) = plain.core.tensor().double(), TRIPLE
    for way in ("object", "subject") if model.reciprocal else ("object",):
        given, other, row = (i, j, k) if way == "object" else (j, i, k + 5)
        vectors = (plain.E[given], plain.E[other], plain.R[row])
        tensor = torch.einsum("abl,a,b,l->abl", G, *(vector.double() for vector in vectors))
        every = score_parts(model, TRIPLE, way, top=EVERY)
        check_sum(model, every)
        assert abs(every.rest) < 1e-9
        expected = tensor[tensor != 0].flatten()
        assert every.interactions == len(every.parts) == len(expected)
        found = np.sort(every.parts["part"].to_numpy())
        assert np.allclose(found, np.sort(expected.numpy()), atol=1e-5)
        few = score_parts(model, TRIPLE, way, top=5)
        check_sum(model, few)
        assert few.parts.equals(every.parts.head(5))
        assert few.interactions == every.interactions


def test_coordinates_are_those_of_the_factors() -> None:
    for kind in ("plain", "reciprocal", "normalised"):
        model = make("drt", kind)
        for way in ("object", "subject"):
            frame = score_parts(model, TRIPLE, way, top=EVERY).parts
            for side, row in (("subject", 3), ("object", 7)):
                place, value = frame[f"{side}_coordinate"], frame[f"{side}_value"]
                rows = model.E[row].numpy()
                for at, number in zip(place, value, strict=True):
                    assert number == pytest.approx(1.0 if at is None else rows[at])
            constants = frame["subject_coordinate"].null_count()
            constants += frame["object_coordinate"].null_count()
            assert (constants > 0) == (kind == "normalised")


def test_merged_and_normalised_models_add_up() -> None:
    models = [make("drt", "normalised"), make("complex", "reciprocal", 3)]
    model = weighted_sum(models, [0.4, 0.6])
    for way in ("object", "subject"):
        check_sum(model, score_parts(model, TRIPLE, way, top=7))


def test_a_wide_model_is_explained_without_its_tensor() -> None:
    """G would have 64 billion entries."""
    core = CORES["complex"].build(4_000, None, 2)
    model = RelationalTucker(3, 2, core, reciprocal=True, batch_norm=True)
    model.reset(torch.Generator().manual_seed(0))
    model.eval().requires_grad_(False)
    found = score_parts(model, (0, 1, 2), "object", top=3)
    assert found.score == pytest.approx(float(model.score(torch.tensor([[0, 1, 2]]))), abs=1e-4)


# -- facts ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return load_graph("families")


@pytest.fixture(scope="module")
def run(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = {
        "model.name": "complex",
        "model.entity_dim": 24,
        "model.reciprocal": True,
        "train.objective": "one_vs_all",
        "train.regularizer": "n3",
        "train.regularizer_weight": 0.01,
        "train.epochs": 10,
    }
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train(graph, Recipe().with_values(settings), out=folder, progress=False)


def refitted(run: Run, entity: int, left_out: tuple[int, ...] | None = None) -> torch.Tensor:
    """The row of an entity that is least, with a fact left out."""
    triples, settings = run.graph.train, run.recipe.train
    if left_out is not None:
        triples = triples[(triples != np.array(left_out)).any(axis=1)]
    graph = replace(run.graph, train=triples)
    objective = settings.objective_class.build(run.model, settings, graph)
    row = RowObjective(objective, torch.tensor([entity]), graph.seen_entities)
    return solve(row, run.model.E[entity][None])


def test_support_is_what_the_score_would_miss(run: Run) -> None:
    """One Newton step against the row that is solved anew without the fact."""
    model, graph, recipe = run.model, run.graph, run.recipe
    i, k, j = map(int, graph.train[17])
    slope = slopes(model, (i, k, j))[i]
    objective = recipe.train.objective_class.build(model, recipe.train, graph)
    row = RowObjective(objective, torch.tensor([i]), graph.seen_entities)
    whole = refitted(run, i)
    facts, support = influences(row, whole, slope[None])
    assert len(facts) == int((graph.train[:, [0, 2]] == i).any(axis=1).sum())
    own = facts.tolist().index([i, k, j])
    order = [own, *support.abs().argsort(descending=True)[:5].tolist()]
    missed = [float((whole - refitted(run, i, tuple(facts[n].tolist())))[0] @ slope) for n in order]
    expected = support[order].tolist()
    assert np.corrcoef(missed, expected)[0, 1] > 0.9
    assert np.sign(missed).tolist() == np.sign(expected).tolist()
    assert missed[0] > 0.05


def test_slopes_are_derivatives_of_the_plausibility() -> None:
    for kind in ("plain", "reciprocal", "normalised"):
        for triple in (TRIPLE, (4, 1, 4)):
            model = make("drt", kind)
            before, ids = float(model.plausibility(torch.tensor([triple]))), triple[::2]
            for entity, slope in slopes(model, triple).items():
                moved = model.with_entities(model.E.clone())
                moved.E[entity] += 1e-3 * slope
                change = float(moved.plausibility(torch.tensor([triple]))) - before
                assert change == pytest.approx(1e-3 * float(slope @ slope), rel=0.05)
            assert set(slopes(model, triple)) == set(ids)


def test_an_explanation_by_names(run: Run) -> None:
    subject, relation, object_ = run.graph.named(run.graph.train[17:18]).row(0)
    found = run.why(subject, relation, object_, top=4)
    assert found.known
    assert [way.way for way in found.asked] == ["object", "subject"]
    assert found.score == pytest.approx(found.asked[0].score, abs=1e-4)
    assert found.plausibility == pytest.approx(
        np.mean([way.score for way in found.asked]), abs=1e-4
    )
    assert found.probability == run.score([(subject, relation, object_)])["probability"][0]
    facts = found.facts
    assert facts.columns == ["subject", "relation", "object", "of", "support"]
    every = run.why(subject, relation, object_, top=500).facts
    (own,) = [row for row in every.iter_rows() if row[:3] == (subject, relation, object_)]
    assert own[3] == "both"
    assert own[4] > 0.05
    assert facts["support"].abs().is_sorted(descending=True)
    assert all({row["subject"], row["object"]} & {subject, object_} for row in facts.to_dicts())
    told = found.to_dict()
    assert len(told["asked"][0]["parts"]) == len(told["facts"]) == 4


def test_what_cannot_be_explained_is_refused(run: Run) -> None:
    with pytest.raises(ReltuckerError, match="no entity is called"):
        run.why("Nobody at all", "mother", "Alma Berger")
    with pytest.raises(ReltuckerError, match="at least one"):
        explain(run.model, run.graph, run.recipe, (0, 0, 1), top=0)


def test_facts_of_a_loop_and_of_an_entity_with_one_fact() -> None:
    graph = random_graph(0)
    model = RelationalTucker(33, 4, build_core("drt", 8, 4))
    model.reset(torch.Generator().manual_seed(1), 2.0)
    model.eval().requires_grad_(False)
    recipe = Recipe(train=TrainSettings(negatives=5))
    found = explain(model, graph, recipe, (3, 1, 3), top=3)
    assert set(found.facts["of"]) == {"both"}
    assert not found.known
