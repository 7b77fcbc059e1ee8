"""What is alike, against the scores themselves."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reltucker.errors import ReltuckerError, ScoreError
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import CORES, RelationalTucker, constrained_core_view
from reltucker.serving import duplicates, relation_links, similar, similarity
from tests.conftest import build_core, random_graph

GRAPH = random_graph(3, relations=3)
N, K = GRAPH.seen_entities, GRAPH.seen_relations
KINDS = ["plain", "reciprocal", "normalised"]


def model_of(name: str = "drt", kind: str = "reciprocal") -> RelationalTucker:
    generator = torch.Generator().manual_seed(1)
    options = {"reciprocal": kind != "plain", "batch_norm": kind == "normalised"}
    model = RelationalTucker(len(GRAPH.entities), K, build_core(name, 4, K), **options)
    model.reset(generator, 2.0)
    for values in model.norm.state_dict().values() if model.norm else ():
        if values.dtype.is_floating_point:
            values.copy_(torch.rand(values.shape, generator=generator) + 0.5)
    return model.eval().requires_grad_(False)


def all_scores(model: RelationalTucker) -> Tensor:
    """For each entity the scores of all answers to all its questions: (N, 2, K, N)."""
    entity, relation = torch.cartesian_prod(torch.arange(N), torch.arange(K)).T
    parts = [
        (model.queries(direction, entity, relation) @ model.E[:N].t()).view(N, K, N)
        for direction in ("object", "subject")
    ]
    return torch.stack(parts, dim=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(CORES))
def test_entities_are_alike_as_their_scores_are_correlated(name: str, kind: str) -> None:
    model = model_of(name, kind)
    frequency = torch.from_numpy(np.bincount(GRAPH.train[:, 1], minlength=K)).float()
    scores = all_scores(model)
    scores = scores - scores.mean(dim=3, keepdim=True)  # what changes no rank
    scores = (scores - scores.mean(dim=0)) * frequency.sqrt()[:, None]
    expected = torch.nn.functional.normalize(scores.flatten(1), dim=1)
    found = similarity.entity_profiles(model, GRAPH, "queries")
    assert torch.allclose(found @ found.t(), expected @ expected.t(), atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(CORES))
def test_relations_are_alike_as_plausibilities_of_pairs_are(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity, "GRAM_BYTES", 8 * K * 4 * 3)  # three rows at once
    model = model_of(name, kind)
    triples = torch.cartesian_prod(torch.arange(K), torch.arange(N), torch.arange(N))
    scores = model.plausibility(triples[:, [1, 0, 2]]).view(K, N, N).double()
    scores = scores - scores.mean(dim=1, keepdim=True)
    scores = scores - scores.mean(dim=2, keepdim=True)
    straight, crossed = similarity.relation_products(model, GRAPH)
    flat, turned = scores.flatten(1), scores.transpose(1, 2).flatten(1)
    scale = float(straight.abs().max())
    assert torch.allclose(straight, flat @ flat.t() / N**2, atol=1e-4 * scale)
    assert torch.allclose(crossed, flat @ turned.t() / N**2, atol=1e-4 * scale)


@pytest.mark.parametrize("by", ["queries", "embeddings"])
def test_the_nearest_entities_come_first(by: Any) -> None:
    model = model_of()
    found = similar(model, GRAPH, "e5", top=4, by=by)
    profiles = similarity.entity_profiles(model, GRAPH, by)
    expected = sorted((-float(v), f"e{i}") for i, v in enumerate(profiles @ profiles[5]))
    assert found["name"].to_list() == [name for _, name in expected if name != "e5"][:4]
    assert found["rank"].to_list() == [1, 2, 3, 4]
    assert found["similarity"].is_between(-1, 1).all()
    everyone = similar(model, GRAPH, "e5", top=10**9, by=by)
    assert len(everyone) == N - 1


def test_raw_relations_are_compared_by_their_rows() -> None:
    model = model_of()
    model.R[2] = 3 * model.R[0]
    found = similar(model, GRAPH, "r0", kind="relation", by="embeddings")
    assert found.row(0)[1:] == ("r2", "r2", pytest.approx(1.0))
    assert len(found) == 2


@pytest.mark.parametrize("top", [1, 4, 10**9])
@pytest.mark.parametrize("by", ["queries", "embeddings"])
def test_duplicates_equal_brute_force(top: int, by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "rows_at_once", lambda columns, dim: 7)
    model = model_of()
    model.E[4] = model.E[11] + 1e-3
    profiles = similarity.entity_profiles(model, GRAPH, by)
    products = profiles @ profiles.t()
    expected = sorted(
        (-float(products[i, j]), f"e{i}", f"e{j}")
        for i in range(N)
        for j in range(i + 1, N)
        if products[i, j] > 0.5
    )
    found = duplicates(model, GRAPH, top=top, least=0.5, by=by, progress=False)
    pairs = [(first, second) for _, first, second in expected]
    assert found.select("first", "second").rows() == pairs[:top]
    assert found.row(0)[1:3] == ("e4", "e11")
    facts = [
        {(0, k, j) for i, k, j in _known() if i == e}
        | {(2, k, i) for i, k, j in _known() if j == e}
        for e in range(N)
    ]
    assert found["shared"][0] == pytest.approx(
        len(facts[4] & facts[11]) / len(facts[4] | facts[11])
    )


def _known() -> set[tuple[int, int, int]]:
    return {tuple(t) for part in (GRAPH.train, GRAPH.valid, GRAPH.test) for t in part.tolist()}


FAMILY = ["mother", "father", "parent", "child", "sibling", "other"]


def family(reciprocal: bool) -> tuple[RelationalTucker, KnowledgeGraph]:
    """parent = 2 mother + father, child is parent turned round, sibling is symmetric."""
    generator = torch.Generator().manual_seed(0)
    core = CORES["drt"].build(6, 6, 6)
    model = RelationalTucker(40, 6, core, reciprocal=reciprocal)
    model.reset(generator)
    model = constrained_core_view(model)  # G_k = M_k
    g = model.core.tensor()
    mother, father, other = torch.randn(3, 6, 6, generator=generator)
    parent = 2 * mother + father
    forms = [mother, father, parent, parent.t(), mother @ mother.t(), other]
    for k, form in enumerate(forms):
        g[:, :, k] = form
        if reciprocal:
            g[:, :, 6 + k] = form.t()
    model.core = type(model.core).of(g)
    rng = np.random.default_rng(0)
    pairs = rng.integers(40, size=(2, 60, 2))
    facts = {(i, 0, j) for i, j in pairs[0].tolist()} | {(i, 1, j) for i, j in pairs[1].tolist()}
    facts |= {(i, 2, j) for i, _, j in facts}
    facts |= {(j, 3, i) for i, k, j in facts if k == 2}
    facts |= {(i, 5, (i + 1) % 40) for i in range(40)} | {(1, 4, 2), (2, 4, 1), (3, 4, 4)}
    triples = np.array(sorted(facts), dtype=np.int32)
    names = Vocabulary([f"e{i}" for i in range(40)]), Vocabulary(FAMILY, kind="relation")
    nothing = np.empty((0, 3), dtype=np.int32)
    graph = KnowledgeGraph("family", *names, triples, nothing, nothing, 40, 6)
    return model.eval().requires_grad_(False), graph


@pytest.mark.parametrize("reciprocal", [False, True])
def test_sums_inverses_and_symmetric_relations_are_found(reciprocal: bool) -> None:
    model, graph = family(reciprocal)
    found = relation_links(model, graph, least=0.5).to_dicts()
    links = {(row["relation"], row["kind"]): row for row in found}
    total = links.pop(("parent", "sum"))
    assert dict(zip(total["others"], total["weights"], strict=True)) == {
        "mother": pytest.approx(2, abs=1e-3),
        "father": pytest.approx(1, abs=1e-3),
    }
    assert (total["explained"], total["facts"], total["facts_back"]) == pytest.approx((1, 1, 1))
    for one, other in (("parent", "child"), ("child", "parent")):
        inverse = links.pop((one, "inverse"))
        assert (inverse["others"], inverse["weights"]) == ([other], [pytest.approx(1, abs=1e-3)])
        assert (inverse["facts"], inverse["facts_back"]) == (1, 1)
    symmetric = links.pop(("sibling", "symmetric"))
    assert symmetric["others"] == ["sibling"]
    assert symmetric["facts"] == pytest.approx(2 / 3)
    # A mother is a parent, which is mostly mother.
    same = links[("mother", "same")]
    assert same["others"] == ["parent"]
    assert same["facts"] == 1
    assert 0 < same["facts_back"] < 1
    assert "other" not in {relation for relation, _ in links}


def test_one_relation_has_no_others() -> None:
    graph = random_graph(0, relations=1)
    model = RelationalTucker(33, 1, build_core("distmult", 4, 1))
    model.reset(torch.Generator().manual_seed(0))
    model.eval().requires_grad_(False)
    links = relation_links(model, graph)
    assert links["kind"].to_list() == ["symmetric"]
    assert similar(model, graph, "r0", kind="relation").is_empty()


def test_a_model_of_zeros_is_like_nothing() -> None:
    model = model_of()
    model.E.zero_()
    assert similar(model, GRAPH, "e1")["similarity"].to_list() == [0.0] * 10
    assert duplicates(model, GRAPH, progress=False).is_empty()
    assert relation_links(model, GRAPH).is_empty()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "e1", "top": 0}, "at least one"),
        ({"name": "e1", "kind": "thing"}, "kind = 'thing': choose"),
        ({"name": "e1", "by": "looks"}, "by = 'looks': choose"),
        ({"name": "e31"}, "stands in valid or test only"),
        ({"name": "e1", "kind": "relation"}, "no relation is called 'e1'"),
    ],
)
def test_wrong_wishes_are_told_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReltuckerError, match=message):
        similar(model_of(), GRAPH, **options)


def test_numbers_that_are_not_finite_are_told() -> None:
    model = model_of()
    model.E[5] = torch.nan
    for by in ("queries", "embeddings"):
        with pytest.raises(ScoreError, match="not finite"):
            similar(model, GRAPH, "e1", by=by)
    with pytest.raises(ScoreError, match="not finite"):
        relation_links(model, GRAPH)
    with pytest.raises(ReltuckerError, match="from 0 to 1"):
        relation_links(model, GRAPH, least=2.0)
