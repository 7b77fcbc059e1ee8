"""Limits on candidates, against brute force."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reltucker.errors import NameNotFoundError, ReltuckerError
from reltucker.graph import NAME_LIST, KnowledgeGraph, Vocabulary, read_names
from reltucker.model import RelationalTucker
from reltucker.serving import Limits, Question, answer, limits_of
from tests.conftest import build_core, random_graph

GRAPH = random_graph(0)
FACTS = [f"r{k}=e{j}" for i, k, j in GRAPH.train.tolist() if i == 7]
EVERYTHING = np.concatenate([GRAPH.train, GRAPH.valid, GRAPH.test])
NOBODYS = min(set(range(33)) - set(EVERYTHING[EVERYTHING[:, 1] == 1, 2].tolist()))


def model_of(graph: KnowledgeGraph) -> RelationalTucker:
    core = build_core("drt", 5, len(graph.relations))
    model = RelationalTucker(len(graph.entities), len(graph.relations), core, reciprocal=True)
    model.reset(torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


def allowed(limits: dict, relation: int, asked: int, held_out: bool) -> set[int]:
    """The candidates by the definition of the limits."""
    train = GRAPH.train.tolist()
    facts = [*train, *GRAPH.valid.tolist(), *([] if held_out else GRAPH.test.tolist())]
    found = set(range(GRAPH.seen_entities))
    if limits.get("in_range"):
        found &= {t[asked] for t in train if t[1] == relation}
    if "among" in limits:
        found &= {int(name[1:]) for name in limits["among"]}
    for condition in limits.get("where", ()):
        k, j = (int(name[1:]) for name in condition.split("="))
        found &= {t[0] for t in facts if (t[1], t[2]) == (k, j)}
    return found


LIMITS = [
    {"in_range": True},
    {"among": ["e3", "e17", "e4", "e3", "e29"]},
    {"where": ["r1=e5"]},
    {"where": FACTS[:2]},
    {"where": FACTS[:1], "in_range": True},
    {"among": [f"e{i}" for i in range(0, 30, 2)], "where": ["r0=e1"]},
    {"among": [f"e{i}" for i in range(20)], "in_range": True},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("held_out", [False, True])
def test_the_best_of_limited_candidates_equal_brute_force(
    limits: dict, known: bool, held_out: bool
) -> None:
    model = model_of(GRAPH)
    try:
        parsed = limits_of(GRAPH, **limits, held_out=held_out)
    except ReltuckerError:
        assert not allowed(limits, 0, 2, held_out)
        return
    questions = [Question("object", i, k) for i in (0, 7, 9) for k in (2, 0)]
    questions += [Question("subject", j, k) for j in (5, 1) for k in (1, 3, 0)]
    answers = answer(model, GRAPH, questions, top=6, known=known, held_out=held_out, limits=parsed)
    facts = {tuple(t) for part in (GRAPH.train, GRAPH.valid) for t in part.tolist()}
    facts |= set() if held_out else {tuple(t) for t in GRAPH.test.tolist()}
    number_of_answers = 0
    for number, question in enumerate(questions, 1):
        asked = 2 if question.direction == "object" else 0
        scores = (
            model.queries(
                question.direction, torch.tensor([question.first]), torch.tensor([question.second])
            )[0]
            @ model.E.t()
        )
        expected = []
        for candidate in allowed(limits, question.second, asked, held_out):
            triple = [question.first, question.second, question.first]
            triple[asked] = candidate
            if known or tuple(triple) not in facts:
                expected.append((-float(scores[candidate]), f"e{candidate}"))
        part = answers.filter(question=number)
        assert part["answer"].to_list() == [name for _, name in sorted(expected)[:6]]
        assert part["rank"].to_list() == list(range(1, len(part) + 1))
        number_of_answers += len(part)
    assert number_of_answers > 0 or not known


def test_limits_that_leave_nobody_give_no_answers() -> None:
    limits = Limits(np.empty(0, dtype=np.int64))
    questions = [Question("object", 0, 0), Question("subject", 1, 0)]
    assert answer(model_of(GRAPH), GRAPH, questions, limits=limits).is_empty()


@pytest.mark.parametrize("limits", [{"in_range": True}, {"among": ["e1"]}, {"where": ["r1=e5"]}])
def test_questions_for_relations_take_no_limits(limits: dict) -> None:
    with pytest.raises(ReltuckerError, match="not for a relation"):
        answer(
            model_of(GRAPH),
            GRAPH,
            [Question("relation", 0, 1)],
            limits=limits_of(GRAPH, **limits),
        )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"among": ["e1", "e1x"]}, "among, name 2: no entity is called 'e1x'; did you mean"),
        ({"among": ["e31"]}, "'e31' stands in valid or test only"),
        ({"among": []}, "the list of candidates is empty"),
        ({"among": "e1"}, "give a list of names"),
        ({"among": [None]}, "give a list of names"),
        ({"where": ["r1"]}, "write it as 'relation=object'"),
        ({"where": ["rr1=e5"]}, "no relation is called 'rr1'"),
        ({"where": ["r1=x5"]}, "where 'r1=x5': no entity is called 'x5'"),
        ({"where": [f"r1=e{NOBODYS}"]}, "no entity has this fact"),
    ],
)
def test_wrong_limits_are_told_in_one_sentence(limits: dict, message: str) -> None:
    with pytest.raises(ReltuckerError, match=message):
        limits_of(GRAPH, **limits)


def test_names_with_an_equals_sign_are_found() -> None:
    names = [f"e{i}" for i in range(len(GRAPH.entities))]
    names[int(GRAPH.train[0, 2])] = "b=c"
    relations = ["a", "a=b", "x", "y"]
    of_relation = GRAPH.train[GRAPH.train[:, 1] == 1]
    names[int(of_relation[0, 2])] = "=c="
    graph = replace(
        GRAPH, entities=Vocabulary(names), relations=Vocabulary(relations, kind="relation")
    )
    found = limits_of(graph, where=["a=b==c="]).entities
    assert found is not None
    assert int(of_relation[0, 0]) in found
    with pytest.raises(NameNotFoundError, match="no entity is called"):
        limits_of(graph, where=["a=b=d"])


def test_a_list_of_names_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("name\ne3\ne 4\n", encoding="utf-8")
    assert read_names(path, NAME_LIST)["name"].to_list() == ["e3", "e 4"]
