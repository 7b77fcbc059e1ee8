"""More triples: ids, splits, labels, and what is refused."""

import numpy as np
import polars as pl
import pytest

from reltucker.errors import ReltuckerError
from reltucker.graph import KnowledgeGraph, extend, keep_splits, load_graph
from tests.conftest import random_graph


def names_of(graph: KnowledgeGraph, split: str) -> set[tuple[str, ...]]:
    return set(graph.named(graph.split(split)).iter_rows())  # type: ignore[arg-type]


def test_new_names_come_after_those_of_train_and_before_the_unseen() -> None:
    graph = random_graph(0)  # e30, e31 and e32 occur in valid and test only
    extension = extend(graph, [("e1", "r2", "new"), ("other", "r0", "e31"), ("new", "r1", "other")])
    extended = extension.graph
    assert extended.seen_entities == 33
    assert extended.entities.names[30:].to_list() == ["e31", "new", "other", "e30", "e32"]
    assert extension.fresh.tolist() == [30, 31, 32]
    assert extension.added == 3
    names = graph.entities.names.to_list()
    assert [extended.entities.name(place) for place in extension.places] == names
    assert names_of(extended, "train") == names_of(graph, "train") | {
        ("e1", "r2", "new"),
        ("other", "r0", "e31"),
        ("new", "r1", "other"),
    }
    for split in ("valid", "test"):
        assert names_of(extended, split) == names_of(graph, split)
    assert extended.train[:, [0, 2]].max() < extended.seen_entities


def test_a_triple_is_known_once_and_leaves_valid_and_test() -> None:
    graph = random_graph(0)
    known = graph.named(graph.train[:2])
    moved = graph.named(np.concatenate([graph.valid[:1], graph.test[:1]]))
    extension = extend(graph, pl.concat([known, moved, moved]))
    before = names_of(graph, "train")
    assert extension.added == len(set(moved.iter_rows()) - before)
    assert names_of(extension.graph, "train") == before | set(moved.iter_rows())
    fresh = set(moved.iter_rows()) - before
    assert not fresh & (names_of(extension.graph, "valid") | names_of(extension.graph, "test"))


def test_labels_mean_what_they_mean_in_the_graph() -> None:
    graph = random_graph(0).labelled(pl.DataFrame({"id": ["e1", "e2"], "name": ["One", "Two"]}))
    extension = extend(graph, [("One", "r0", "new")])
    assert names_of(extension.graph, "train") - names_of(graph, "train") == {("e1", "r0", "new")}
    assert extension.graph.entities.label(1) == "One"
    assert extension.graph.entities.label(int(extension.fresh[0])) == "new"
    twice = pl.DataFrame({"id": ["e1", "e2"], "name": ["Same", "Same"]})
    with pytest.raises(ReltuckerError, match="belongs to 2 entities"):
        extend(random_graph(0).labelled(twice), [("new", "r0", "Same")])


def test_new_relations_are_refused() -> None:
    with pytest.raises(ReltuckerError, match=r"row 2: nothing was learned about the relation 'z'"):
        extend(random_graph(0), [("a", "r0", "e1"), ("a", "z", "e1")])


def test_triples_keep_the_split_that_they_had() -> None:
    rows = [(f"e{i}", f"r{k}", f"e{(i * 7 + k) % 50}") for i in range(50) for k in range(4)]
    before = load_graph(rows, seed=1)
    more = [(f"e{i}", "r0", f"x{i % 5}") for i in range(40)]
    after = keep_splits(load_graph(rows[3:] + more, seed=2), before)
    for split in ("train", "valid", "test"):
        stays = names_of(before, split) - set(rows[:3])
        assert stays <= names_of(after, split)
        assert len(names_of(after, split) - stays) > 0
    assert set().union(*(names_of(after, s) for s in ("train", "valid", "test"))) == {
        *rows[3:],
        *more,
    }
    assert after.train[:, [0, 2]].max() + 1 == after.seen_entities
