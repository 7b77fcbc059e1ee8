"""Figures of graphs: hand-made examples, and brute force over random ones."""

import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.graph import KnowledgeGraph, Vocabulary, describe_graph, relation_kinds
from reltucker.graph.families import families

Triple = tuple[int, int, int]


def graph_of(
    train: list[Triple],
    valid: list[Triple] = [],  # noqa: B006
    test: list[Triple] = [],  # noqa: B006
    *,
    entities: int = 40,
    relations: int = 4,
    seen_entities: int | None = None,
    seen_relations: int | None = None,
    counts: dict[str, int] | None = None,
) -> KnowledgeGraph:
    def array(triples: list[Triple]) -> np.ndarray:
        return np.array(triples, dtype=np.int32).reshape(-1, 3)

    return KnowledgeGraph(
        "made",
        Vocabulary([f"e{i}" for i in range(entities)], [f"E {i}" for i in range(entities)]),
        Vocabulary([f"r{k}" for k in range(relations)], kind="relation"),
        array(train),
        array(valid),
        array(test),
        entities if seen_entities is None else seen_entities,
        relations if seen_relations is None else seen_relations,
        counts or {},
    )


def test_kinds() -> None:
    one_one = [(i, 0, i + 10) for i in range(6)]
    one_n = [(i // 2, 1, i + 10) for i in range(6)]
    n_one = [(i, 2, 10 + i // 2) for i in range(6)]
    n_n = [(i, 3, 10 + j) for i in range(3) for j in range(3)]
    graph = graph_of(one_one + one_n + n_one + n_n, relations=5)
    assert relation_kinds(graph) == ["1-1", "1-N", "N-1", "N-N", "unseen"]
    assert describe_graph(graph)["relation_kinds"] == {
        "1-1": 1,
        "1-N": 1,
        "N-1": 1,
        "N-N": 1,
        "unseen": 1,
    }


@pytest.mark.parametrize(("more", "kind"), [(0, "1-N"), (1, "1-1")])
def test_threshold_of_kinds(more: int, kind: str) -> None:
    """Three objects for two subjects average exactly 1.5; one more subject brings it below."""
    triples = [(0, 0, 10), (0, 0, 11), (1, 0, 12)] + [(2 + n, 0, 13 + n) for n in range(more)]
    assert relation_kinds(graph_of(triples))[0] == kind


def test_kinds_come_from_train_alone() -> None:
    graph = graph_of([(0, 0, 1)], valid=[(0, 0, 2), (0, 0, 3)], test=[(0, 0, 4), (0, 1, 4)])
    assert relation_kinds(graph) == ["1-1", "unseen", "unseen", "unseen"]


def test_counts_and_unseen() -> None:
    described = describe_graph(
        graph_of(
            [(0, 0, 1), (1, 0, 2)],
            valid=[(0, 0, 2), (0, 0, 3)],
            test=[(3, 0, 4), (0, 1, 1), (1, 0, 0)],
            entities=5,
            relations=2,
            seen_entities=3,
            seen_relations=1,
            counts={"duplicates": 7},
        )
    )
    assert (described["entities"], described["seen_entities"], described["unseen_entities"]) == (
        5,
        3,
        2,
    )
    assert (described["relations"], described["seen_relations"], described["unseen_relations"]) == (
        2,
        1,
        1,
    )
    assert described["triples"] == {"train": 2, "valid": 2, "test": 3}
    assert described["seen_triples"] == {"train": 2, "valid": 1, "test": 1}
    assert described["unseen_triples"] == {"train": 0, "valid": 1, "test": 2}
    assert described["counts"] == {"duplicates": 7}


def test_degrees_are_over_the_entities_of_train() -> None:
    train = [(0, 0, 1), (0, 0, 2), (0, 0, 3)]
    described = describe_graph(graph_of(train, test=[(4, 0, 4)], entities=5, seen_entities=4))
    assert (described["degree"]["min"], described["degree"]["max"]) == (1, 3)
    assert (described["degree"]["median"], described["degree"]["mean"]) == (1.0, 1.5)
    assert 2.9 < described["degree"]["percentile_99"] < 3
    connected = [
        (e["entity"], e["label"], e["degree"]) for e in described["most_connected_entities"]
    ]
    assert connected == [("e0", "E 0", 3), ("e1", "E 1", 1), ("e2", "E 2", 1), ("e3", "E 3", 1)]


def test_most_frequent_relations() -> None:
    graph = graph_of([(0, 2, 1), (0, 2, 3), (4, 2, 5), (0, 1, 1)])
    frequent = describe_graph(graph)["most_frequent_relations"]
    assert [(r["relation"], r["triples"], r["kind"]) for r in frequent] == [
        ("r2", 3, "1-N"),
        ("r1", 1, "1-1"),
    ]
    assert (frequent[0]["objects_per_subject"], frequent[0]["subjects_per_object"]) == (1.5, 1.0)


def test_symmetric_inverse_and_contained() -> None:
    mother = [(i, 0, i + 20) for i in range(10)]
    child = [(j, 1, i) for i, _, j in mother]
    parent = [(i, 2, j) for i, _, j in mother] + [(i, 2, i + 10) for i in range(10)]
    spouse = [(i, 3, i + 5) for i in range(5)] + [(i + 5, 3, i) for i in range(5)]
    described = describe_graph(graph_of(mother + child + parent + spouse))
    assert [(h["relation"], h["share"], h["triples"]) for h in described["symmetric"]] == [
        ("r3", 1.0, 10)
    ]
    assert {(h["relation"], h["other"]) for h in described["inverse"]} == {
        ("r0", "r1"),
        ("r1", "r0"),
        ("r1", "r2"),
    }
    assert [(h["relation"], h["other"], h["share"]) for h in described["contained"]] == [
        ("r0", "r2", 1.0)
    ]


def test_counterparts_are_searched_in_all_splits() -> None:
    train = [(i, 0, i + 10) for i in range(6)]
    reverse = [(i + 10, 0, i) for i in range(6)]
    assert not describe_graph(graph_of(train))["symmetric"]
    described = describe_graph(graph_of(train, valid=reverse[:3], test=reverse[3:]))
    assert [(h["relation"], h["share"], h["triples"]) for h in described["symmetric"]] == [
        ("r0", 1.0, 6)
    ]


def test_loops_and_repeated_triples_give_no_hints() -> None:
    loops = [(i, 0, i) for i in range(10)]
    plain = [(i, 1, i + 10) for i in range(10)]
    described = describe_graph(graph_of(loops + plain, valid=plain[:9], test=plain))
    assert not described["symmetric"] + described["inverse"] + described["contained"]


def test_few_triples_give_no_hints() -> None:
    few = [(i, 0, i + 10) for i in range(2)] + [(i + 10, 0, i) for i in range(2)]
    assert not describe_graph(graph_of(few))["symmetric"]


def hints_by_brute_force(graph: KnowledgeGraph) -> dict[str, dict[tuple[str, str], float]]:
    train = [tuple(t) for t in graph.train.tolist() if t[0] != t[2]]
    known = {tuple(t) for t in np.concatenate([graph.train, graph.valid, graph.test]).tolist()}
    hints: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for k in range(len(graph.relations)):
        mine = [t for t in train if t[1] == k]
        for other in range(len(graph.relations)):
            for kind in ("same", "reverse"):
                if len(mine) < 5 or (kind == "same" and k == other):
                    continue
                counterparts = [(i, other, j) if kind == "same" else (j, other, i)
                                for i, _, j in mine]  # fmt: skip
                share = sum(c in known for c in counterparts) / len(mine)
                if share >= 0.8:
                    hints[kind][f"r{k}", f"r{other}"] = share
    return hints


triples = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=48, unique=True
)


@settings(max_examples=150, deadline=None)
@given(train=triples, valid=triples, test=triples)
def test_hints_equal_brute_force(
    train: list[Triple], valid: list[Triple], test: list[Triple]
) -> None:
    graph = graph_of(train, valid, test, entities=4, relations=3)
    described = describe_graph(graph)
    reverse = {(h["relation"], h["relation"]): h["share"] for h in described["symmetric"]}
    reverse |= {(h["relation"], h["other"]): h["share"] for h in described["inverse"]}
    same = {(h["relation"], h["other"]): h["share"] for h in described["contained"]}
    expected = hints_by_brute_force(graph)
    assert reverse == expected["reverse"]
    assert same == expected["same"]


def test_brute_force_examples_do_have_hints() -> None:
    """Guards the property above against an oracle that never finds anything."""
    everything = [(i, k, j) for i in range(4) for k in range(3) for j in range(4)]
    hints = hints_by_brute_force(graph_of(everything, entities=4, relations=3))
    assert len(hints["reverse"]) == 9
    assert len(hints["same"]) == 6


@pytest.mark.parametrize("relations", [0, 3])
def test_empty_graph(relations: int) -> None:
    graph = graph_of([], entities=0, relations=relations, seen_relations=0)
    described = describe_graph(graph)
    assert described["degree"]["max"] == 0
    assert described["most_frequent_relations"] == []
    assert relation_kinds(graph) == ["unseen"] * relations


def test_families() -> None:
    described = describe_graph(families())
    assert {h["relation"] for h in described["symmetric"]} == {
        "spouse",
        "sibling",
        "cousin",
        "borders",
    }
    assert {(h["relation"], h["other"], h["share"]) for h in described["contained"]} == {
        ("mother", "parent", 1.0),
        ("father", "parent", 1.0),
    }
    assert ("grandparent", "grandchild") in {
        (h["relation"], h["other"]) for h in described["inverse"]
    }
    kinds = dict(zip(families().relations.names, relation_kinds(families()), strict=True))
    assert kinds["spouse"] == "1-1"
    assert kinds["mother"] == "N-1"
    assert kinds["cousin"] == "N-N"


def test_to_dict_is_json() -> None:
    described = describe_graph(families())
    written = json.loads(json.dumps(described, allow_nan=False))
    assert written == described
    assert written["triples"]["train"] == len(families().train)
