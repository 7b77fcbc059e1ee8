from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import GraphError, ScoreError
from reltucker.evaluation import (
    PROTOCOLS,
    Metrics,
    break_down,
    evaluate,
    rank_split,
    rank_weighted_sums,
)
from reltucker.evaluation import ranking as ranking_module
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES, RelationalTucker, weighted_sum
from tests.conftest import build_core, random_graph


def make_model(graph: KnowledgeGraph, seed: int, ties: bool) -> RelationalTucker:
    core = CORES["drt"].build(4, 3, len(graph.relations))
    model = RelationalTucker(len(graph.entities), len(graph.relations), core)
    model.reset(torch.Generator().manual_seed(seed))
    if ties:
        # Small whole numbers: products and sums are exact, and many scores are equal.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.round(parameter * 2).clamp(-1, 1))
    return model


def oracle(
    model: RelationalTucker, graph: KnowledgeGraph, split: str, protocol: str
) -> list[list[float]]:
    """Brute force from the definitions: a Python loop over candidates and known triples."""
    filters = {"standard": ("train", "valid", "test"), "seen": ("train", "valid", "test")}
    names = filters.get(protocol, ("train", "valid")) if split == "test" else ("train", "valid")
    known = {tuple(t) for name in names for t in graph.split(name).tolist()}
    candidates = len(graph.entities) if protocol == "standard" else graph.seen_entities
    ranks: list[list[float]] = [[], []]
    for i, k, j in graph.split(split).tolist():
        if protocol != "standard" and (i >= graph.seen_entities or j >= graph.seen_entities):
            continue
        for direction, asked in enumerate((2, 0)):
            rivals = []
            for entity in range(candidates):
                rival = [i, k, j]
                rival[asked] = entity
                if tuple(rival) not in known and entity != (i, k, j)[asked]:
                    rivals.append(rival)
            scores = model.score(torch.tensor([[i, k, j], *rivals]))
            own, others = scores[0], scores[1:]
            greater = int((others > own).sum())
            equal = int((others == own).sum())
            ranks[direction].append(1 + greater + equal / 2)
    return ranks


def test_a_model_in_double_precision_is_ranked() -> None:
    graph = random_graph(3)
    model = make_model(graph, 3, ties=True)
    ranks = rank_split(model, graph).ranks
    assert (rank_split(model.double(), graph).ranks == ranks).all()
    assert rank_split(model, graph) != rank_split(model, graph)  # compared by identity


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["valid", "test"]))
def test_ranks_equal_brute_force_under_every_protocol(seed: int, split: str) -> None:
    graph = random_graph(seed)
    model = make_model(graph, seed, ties=True)
    ranking = rank_split(model, graph, split)
    for protocol in PROTOCOLS:
        objects, subjects = oracle(model, graph, split, protocol)
        assert ranking.of(protocol, "object").tolist() == objects
        assert ranking.of(protocol, "subject").tolist() == subjects


@pytest.mark.parametrize("name", sorted(CORES))
def test_reciprocal_relations_answer_subject_queries_through_the_inverse(name: str) -> None:
    graph = random_graph(9)
    core = build_core(name, 4, 4)
    model = RelationalTucker(len(graph.entities), 4, core, reciprocal=True)
    model.reset(torch.Generator().manual_seed(9))
    # The same rankings from a model that knows the inverse relations as relations of their own.
    twin = RelationalTucker(len(graph.entities), 8, core)
    with torch.no_grad():
        twin.E.copy_(model.E)
        twin.R.copy_(model.R)
    ranks = rank_split(model, graph)
    triples = torch.from_numpy(graph.test).long()
    for number, (i, k, j) in enumerate(triples.tolist()):
        known = {tuple(t) for s in ("train", "valid", "test") for t in graph.split(s).tolist()}
        rivals = [e for e in range(len(graph.entities)) if (e, k, j) not in known]
        inverse = torch.tensor([[j, k + 4, e] for e in [i, *rivals]])
        scores = twin.score(inverse)
        expected = 1 + int((scores[1:] > scores[0]).sum())
        assert abs(ranks.ranks[1, number, 0] - expected) <= 0.5
    objects = rank_split(twin, graph).ranks[0]
    assert np.array_equal(ranks.ranks[0], objects)


def test_blocks_do_not_change_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(5)
    model = make_model(graph, 5, ties=True)
    whole = rank_split(model, graph).ranks
    monkeypatch.setattr(ranking_module, "SCORE_BLOCK_BYTES", 1)
    assert np.array_equal(rank_split(model, graph).ranks, whole)


def test_progress_counts_every_query_once() -> None:
    graph = random_graph(6)
    done: list[int] = []
    rank_split(make_model(graph, 6, ties=False), graph, advance=done.append)
    assert sum(done) == 2 * len(graph.test)


def test_a_model_that_scores_all_alike_has_the_mean_rank() -> None:
    graph = random_graph(1)
    model = make_model(graph, 1, ties=False)
    with torch.no_grad():
        model.E.fill_(0.5)
    ranks = rank_split(model, graph).of("standard")
    assert ranks.min() > len(graph.entities) / 4
    assert Metrics.of(ranks).hits[10] == 0.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_an_error(value: float) -> None:
    graph = random_graph(2)
    model = make_model(graph, 2, ties=False)
    with torch.no_grad():
        model.E[7, 0] = value
    with pytest.raises(ScoreError, match="not finite"):
        rank_split(model, graph)


def test_overflowing_scores_are_an_error() -> None:
    graph = random_graph(2)
    model = make_model(graph, 2, ties=False)
    with torch.no_grad():
        model.E.fill_(1e25)
    with pytest.raises(ScoreError):
        rank_split(model, graph)


def test_metrics_are_the_textbook_ones() -> None:
    metrics = Metrics.of(np.array([1.0, 2.0, 4.0, 10.5]))
    assert metrics.to_dict() == {
        "mrr": pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 10.5) / 4),
        "hits@1": 0.25,
        "hits@3": 0.5,
        "hits@10": 0.75,
        "mean_rank": pytest.approx(17.5 / 4),
        "queries": 4,
    }
    assert Metrics.of(np.array([])).to_dict()["queries"] == 0


@pytest.mark.parametrize("by", ["relation", "kind", "direction"])
@pytest.mark.parametrize("unseen", [False, True])
def test_break_downs_add_up_to_the_whole(by: str, unseen: bool) -> None:
    graph = random_graph(3)
    if unseen:  # the last relation has no triples in train
        graph = replace(graph, train=graph.train[graph.train[:, 1] < 3], seen_relations=3)
    ranking = rank_split(make_model(graph, 3, ties=False), graph)
    groups = break_down(ranking, graph, by)
    for protocol, metrics in ranking.metrics().items():
        queries = [group[protocol]["queries"] for group in groups]
        reciprocal = [group[protocol]["mrr"] * group[protocol]["queries"] for group in groups]
        assert sum(queries) == metrics.queries
        assert sum(reciprocal) / metrics.queries == pytest.approx(metrics.mrr)
    if by == "kind":
        assert ("unseen" in {group["kind"] for group in groups}) == unseen
    if by == "relation":
        sizes = [group["standard"]["queries"] for group in groups]
        assert sizes == sorted(sizes, reverse=True)
        assert {group["relation"] for group in groups} <= {"r0", "r1", "r2", "r3"}


def test_an_empty_split_has_no_ranks() -> None:
    graph = random_graph(4, valid=0)
    ranking = rank_split(make_model(graph, 4, ties=False), graph, "valid")
    assert ranking.metrics()["standard"].queries == 0


def test_weighted_sums_are_ranked_as_the_model_that_is_their_sum() -> None:
    graph = random_graph(4)
    models = []
    for seed, name in enumerate(("complex", "drt", "hole")):
        core = build_core(name, 6, len(graph.relations))
        model = RelationalTucker(len(graph.entities), len(graph.relations), core)
        model.reset(torch.Generator().manual_seed(seed))
        models.append(model.eval().requires_grad_(False))
    weights = np.array([[1.0, 0.0, 0.0], [0.2, 0.5, 3.0], [0.0, 1.0, 1.0]])
    done: list[int] = []
    triples = graph.valid[::2]
    rankings = rank_weighted_sums(
        models, weights, graph, "valid", triples=triples, advance=done.append
    )
    assert sum(done) == 2 * len(triples)
    for row, ranking in zip(weights, rankings, strict=True):
        whole = weighted_sum(models, row.tolist())
        expected = rank_split(whole, graph, "valid", triples=triples)
        assert np.array_equal(ranking.ranks, expected.ranks)
    assert not np.array_equal(rankings[0].ranks, rankings[1].ranks)


def test_a_split_without_triples_is_told_instead_of_judged() -> None:
    graph = random_graph(0)
    graph = replace(graph, test=graph.test[:0])
    model = make_model(graph, 0, ties=False)
    with pytest.raises(GraphError, match=r"no test triples to judge by, only .* train and valid"):
        evaluate("drt", model, graph, "test", progress=False)
