"""New facts, block by block, against all scores at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy.special import expit

from reltucker.errors import ReltuckerError, ScoreError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES, RelationalTucker
from reltucker.serving import best, discover
from tests.conftest import build_core, random_graph

GRAPH = random_graph(3, relations=4)
# Relations 0 and 1 lead from some entity to itself, 2 from none, and 3 does nothing else.
OBJECTS = np.where(GRAPH.train[:, 1] == 3, GRAPH.train[:, 0], GRAPH.train[:, 2])
TRAIN = np.unique(np.column_stack([GRAPH.train[:, :2], OBJECTS]), axis=0)
TRAIN = TRAIN[(TRAIN[:, 1] != 2) | (TRAIN[:, 0] != TRAIN[:, 2])]
GRAPH = replace(GRAPH, train=np.concatenate([TRAIN, [[5, 0, 5], [6, 1, 6]]]).astype(np.int32))
N, K = GRAPH.seen_entities, GRAPH.seen_relations


class Steps:
    """Probabilities with plateaus, in another order of relations than that of plausibilities."""

    def probabilities(self, plausibilities: Any, relations: Any) -> Any:
        slopes = np.array([3.0, 0.5, 1.0, 2.0])[relations]
        return np.floor(20 * expit(slopes * plausibilities)) / 20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reltucker.serving.discovery.rows_at_once", lambda columns, dim: 7)


def model_of(name: str = "drt", kind: str = "reciprocal") -> RelationalTucker:
    generator = torch.Generator().manual_seed(1)
    options = {"reciprocal": kind != "plain", "batch_norm": kind == "normalised"}
    model = RelationalTucker(len(GRAPH.entities), K, build_core(name, 4, K), **options)
    model.reset(generator, 2.0)
    for values in model.norm.state_dict().values() if model.norm else ():
        if values.dtype.is_floating_point:
            values.copy_(torch.rand(values.shape, generator=generator) + 0.5)
    return model.eval().requires_grad_(False)


def brute_force(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    *,
    top: int = 100,
    relations: list[str] | None = None,
    entities: list[str] | None = None,
    per_relation: bool = False,
    min_probability: float = 0.0,
    anywhere: bool = False,
    held_out: bool = False,
    calibration: Any = None,
) -> list[tuple[str, str, str]]:
    """All triples of train's entities and relations, judged one by one and sorted."""
    triples = torch.cartesian_prod(torch.arange(N), torch.arange(K), torch.arange(N))
    scores = model.plausibility(triples).double().numpy()
    ids = triples.numpy()
    chances = np.zeros(len(ids))
    if calibration is not None:
        chances = calibration.probabilities(scores, ids[:, 1])
    train = {tuple(t) for t in graph.train.tolist()}
    facts = train | {tuple(t) for t in graph.valid.tolist()}
    facts |= set() if held_out else {tuple(t) for t in graph.test.tolist()}
    subjects, objects = {(i, k) for i, k, _ in train}, {(k, j) for _, k, j in train}
    kinds = {(k, i == j) for i, k, j in train}
    found = []
    for (i, k, j), score, chance in zip(ids.tolist(), scores, chances, strict=True):
        fits = anywhere or ((i, k) in subjects and (k, j) in objects and (k, i == j) in kinds)
        names = {f"e{i}", f"e{j}"}
        if (
            fits
            and (i, k, j) not in facts
            and (relations is None or f"r{k}" in relations)
            and (entities is None or names & set(entities))
            and chance >= min_probability
        ):
            found.append((-chance, -score, f"e{i}", f"r{k}", f"e{j}"))
    found.sort()
    if per_relation:
        found = [f for k in range(K) for f in [f for f in found if f[3] == f"r{k}"][:top]]
    return [fact[2:] for fact in (found if per_relation else found[:top])]


def named(facts: pl.DataFrame) -> list[tuple[str, str, str]]:
    return facts.select("subject", "relation", "object").rows()


def plausibilities(model: RelationalTucker, facts: list[tuple[str, str, str]]) -> Any:
    triples = torch.tensor([[int(name[1:]) for name in fact] for fact in facts])
    return model.plausibility(triples).numpy()


MODES: list[dict[str, Any]] = [
    {},
    {"top": 5},
    {"top": 10**12},
    {"anywhere": True, "top": 40},
    {"held_out": True, "top": 40},
    {"relations": ["r2", "r0", "r2"], "top": 30},
    {"entities": ["e4"], "top": 30},
    {"entities": ["e4", "e9", "e4"], "relations": ["r1"], "anywhere": True},
    {"per_relation": True, "top": 3},
    {"per_relation": True, "entities": ["e4"], "anywhere": True, "top": 2},
]


@pytest.mark.parametrize("calibration", [None, Steps()], ids=["scores", "probabilities"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_what_is_found_equals_brute_force(mode: dict[str, Any], calibration: Any) -> None:
    model = model_of()
    facts = discover(model, GRAPH, **mode, calibration=calibration, progress=False)
    assert named(facts) == brute_force(model, GRAPH, **mode, calibration=calibration)
    assert len(facts) > 0
    assert facts["probability"].is_null().all() == (calibration is None)
    if not mode.get("per_relation"):
        assert facts["rank"].to_list() == list(range(1, len(facts) + 1))


@pytest.mark.parametrize("mode", [{}, {"per_relation": True}, {"top": 20}], ids=str)
@pytest.mark.parametrize("least", [0.9, 1.0])
def test_a_least_probability_leaves_the_others_out(mode: dict[str, Any], least: float) -> None:
    model, options = model_of(), {**mode, "min_probability": least, "calibration": Steps()}
    facts = discover(model, GRAPH, **options, progress=False)
    assert named(facts) == brute_force(model, GRAPH, **options)
    assert (facts["probability"] >= least).all()


@pytest.mark.parametrize("kind", ["plain", "reciprocal", "normalised"])
@pytest.mark.parametrize("name", sorted(CORES))
def test_every_model_discovers(name: str, kind: str) -> None:
    model = model_of(name, kind)
    facts = discover(model, GRAPH, top=20, anywhere=True, progress=False)
    everything = brute_force(model, GRAPH, top=10**6, anywhere=True)
    # In symmetric models facts have equal scores, so that names may be in another order.
    assert set(named(facts)) <= set(everything)
    assert plausibilities(model, named(facts)) == pytest.approx(
        plausibilities(model, everything[:20]), abs=1e-5
    )
    assert facts["score"].to_numpy() == pytest.approx(plausibilities(model, named(facts)), abs=1e-5)
    assert len(set(named(facts))) == 20


def test_equal_scores_are_counted_once_each() -> None:
    model = model_of()
    model.E.copy_(model.E[:2].repeat(17, 1)[: len(model.E)])  # two kinds of entities
    facts = discover(model, GRAPH, top=50, progress=False)
    expected = plausibilities(model, brute_force(model, GRAPH, top=50))
    assert facts["score"].to_numpy() == pytest.approx(expected, abs=1e-5)
    assert len(set(named(facts))) == 50
    model.E.zero_()
    assert len(set(named(discover(model, GRAPH, top=50, progress=False)))) == 50


def test_a_relation_of_loops_alone_has_nothing_new() -> None:
    assert discover(model_of(), GRAPH, relations=["r3"], progress=False).is_empty()
    assert len(discover(model_of(), GRAPH, relations=["r3"], anywhere=True, progress=False)) == 100


def test_rows_that_cannot_reach_the_floor_are_not_multiplied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of("drt", "plain")
    model.E[3:] *= 1e-3
    looked = []
    look = best.Best.look

    def counted(self: best.Best, block: torch.Tensor, *keys: torch.Tensor) -> None:
        looked.append(len(block))
        look(self, block, *keys)

    monkeypatch.setattr(best.Best, "look", counted)
    facts = discover(model, GRAPH, top=2, anywhere=True, progress=False)
    assert named(facts) == brute_force(model, GRAPH, top=2, anywhere=True)
    assert sum(looked) < N * K / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "at least one fact"),
        ({"relations": ["r9"]}, "no relation is called 'r9'"),
        ({"entities": ["e31"]}, "stands in valid or test only"),
        ({"min_probability": 0.5}, "needs a calibration"),
        ({"min_probability": 1.5, "calibration": Steps()}, "from 0 to 1"),
        ({"min_probability": float("nan"), "calibration": Steps()}, "from 0 to 1"),
    ],
)
def test_wrong_wishes_are_told_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReltuckerError, match=message):
        discover(model_of(), GRAPH, **options, progress=False)


def test_scores_that_are_no_numbers_are_told() -> None:
    model = model_of()
    model.E[5] = torch.nan
    with pytest.raises(ScoreError, match="not finite"):
        discover(model, GRAPH, progress=False)
