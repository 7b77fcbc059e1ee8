"""Corrupted triples against brute force."""

import numpy as np
import pytest
import torch

from reltucker.errors import ScoreError
from reltucker.evaluation import plausibilities
from reltucker.evaluation.corruption import ANY, IN_RANGE, RIVAL, TRUE, corrupt
from reltucker.evaluation.ranking import ENTITY_DIRECTIONS
from reltucker.graph import COLUMNS, KnowledgeGraph
from reltucker.model import CORES, RelationalTucker
from tests.conftest import random_graph


def make_model(graph: KnowledgeGraph, reciprocal: bool = False) -> RelationalTucker:
    core = CORES["drt"].build(4, 3, len(graph.relations))
    model = RelationalTucker(len(graph.entities), len(graph.relations), core, reciprocal=reciprocal)
    model.reset(torch.Generator().manual_seed(0))
    return model


def known_of(graph: KnowledgeGraph) -> set[tuple[int, ...]]:
    return {tuple(row) for part in (graph.train, graph.valid, graph.test) for row in part.tolist()}


@pytest.mark.parametrize("reciprocal", [False, True])
def test_a_rival_is_the_best_wrong_answer(reciprocal: bool) -> None:
    graph = random_graph(0)
    model = make_model(graph, reciprocal)
    triples = graph.valid[graph.is_seen(graph.valid)]
    judged = corrupt(model, graph, triples)
    found = judged.triples[judged.kinds == RIVAL]
    sources = judged.sources[judged.kinds == RIVAL]
    known = known_of(graph)
    expected = []
    for direction in ENTITY_DIRECTIONS:
        given, _, asked = COLUMNS[direction]
        for number, row in enumerate(triples.tolist()):
            first, relation = torch.tensor([row[given]]), torch.tensor([row[1]])
            scores = (model.queries(direction, first, relation) @ model.E.detach().t())[0]
            wrong = []
            for entity in range(graph.seen_entities):
                other = list(row)
                other[asked] = entity
                if tuple(other) not in known:
                    wrong.append((-float(scores[entity]), number, tuple(other)))
            expected += [each[1:] for each in sorted(wrong)[:1]]
    assert sorted(zip(sources.tolist(), map(tuple, found.tolist()), strict=True)) == sorted(
        expected
    )


def test_drawn_triples_are_unknown_and_from_where_they_should_be() -> None:
    graph = random_graph(1, entities=40, relations=3, train=60)
    triples = graph.valid[graph.is_seen(graph.valid)]
    judged = corrupt(make_model(graph), graph, triples)
    known = known_of(graph)
    ranges = {
        (column, relation): set(graph.train[graph.train[:, 1] == relation, column].tolist())
        for column in (0, 2)
        for relation in range(3)
    }
    outside = 0
    for row, kind, source in zip(
        judged.triples.tolist(), judged.kinds, judged.sources, strict=True
    ):
        changed = [c for c in range(3) if row[c] != triples[source, c]]
        assert changed == [] if kind == TRUE else changed in ([0], [2])
        assert (tuple(row) in known) == (kind == TRUE)
        assert max(row[0], row[2]) < graph.seen_entities
        if kind == IN_RANGE:
            assert row[changed[0]] in ranges[changed[0], row[1]]
        outside += kind == ANY and row[changed[0]] not in ranges[changed[0], row[1]]
    assert outside > 0
    assert np.bincount(judged.kinds).tolist() == [2 * len(triples)] * 4
    again = corrupt(make_model(graph), graph, triples)
    np.testing.assert_array_equal(again.triples, judged.triples)
    other = corrupt(make_model(graph), graph, triples, seed=1)
    assert not np.array_equal(other.triples, judged.triples)


def test_what_cannot_be_corrupted_is_left_out() -> None:
    """Two entities and all facts about them."""
    whole = np.array([[i, 0, j] for i in range(2) for j in range(2)], dtype=np.int32)
    graph = random_graph(0, entities=2, unseen=0, relations=1)
    graph = KnowledgeGraph("whole", graph.entities, graph.relations, whole, whole, whole[:0], 2, 1)
    judged = corrupt(make_model(graph), graph, whole)
    assert judged.is_true.all()
    assert len(judged.triples) == 8


def test_scores_that_are_no_numbers_are_refused() -> None:
    graph = random_graph(0)
    model = make_model(graph)
    with torch.no_grad():
        model.E[3] = torch.nan
    triples = graph.valid[graph.is_seen(graph.valid)]
    with pytest.raises(ScoreError):
        corrupt(model, graph, triples)
    with pytest.raises(ScoreError):
        plausibilities(model, np.array([[3, 0, 1]]))


@pytest.mark.parametrize("reciprocal", [False, True])
def test_plausibilities_in_blocks_are_those_of_the_model(
    reciprocal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(0)
    model = make_model(graph, reciprocal)
    monkeypatch.setattr("reltucker.evaluation.plausibility.QUERY_BLOCK_BYTES", 7 * 4 * 4)
    expected = model.plausibility(torch.from_numpy(graph.train.astype(np.int64)))
    np.testing.assert_allclose(plausibilities(model, graph.train), expected, atol=1e-6)
