"""Named triples in every form to ids, and what is said about names that are not there."""

from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pytest

from reltucker.errors import GraphError, NameNotFoundError
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.serving import parse_triples
from tests.conftest import random_graph

GRAPH = random_graph(0)
ROWS = [("e3", "r1", "e0"), ("e29", "r3", "e7"), ("e3", "r1", "e0")]
IDS = [[3, 1, 0], [29, 3, 7], [3, 1, 0]]


def labelled() -> KnowledgeGraph:
    names = ["Q1", "Q2", "Q3", "Anna", "Q5"]
    entities = Vocabulary(names, ["Anna", "Bert", "Bert", None, "Carl"])
    relations = Vocabulary(["P1"], ["knows"], "relation")
    train = np.array([[0, 0, 1], [2, 0, 3]], dtype=np.int32)
    test = np.array([[0, 0, 4]], dtype=np.int32)
    return KnowledgeGraph("labelled", entities, relations, train, train[:0], test, 4, 1)


def test_rows_frames_and_files_are_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    file = tmp_path / "rows.csv"
    frame.write_csv(file)
    sources = [ROWS, [list(row) for row in ROWS], np.array(ROWS), frame, file, str(file)]
    pandas_frame = pandas.DataFrame(ROWS, columns=["subject", "relation", "object"])
    for source in [*sources, pandas_frame]:
        ids = parse_triples(GRAPH, source)
        assert ids.dtype == np.int64
        assert ids.tolist() == IDS


def test_no_rows_are_no_triples() -> None:
    assert parse_triples(GRAPH, []).shape == (0, 3)


def test_many_rows_come_back_by_their_names() -> None:
    ids = np.random.default_rng(0).integers([30, 4, 30], size=(5000, 3))
    np.testing.assert_array_equal(parse_triples(GRAPH, GRAPH.named(ids)), ids)


def test_a_name_goes_before_a_label() -> None:
    triples = parse_triples(labelled(), [("Anna", "knows", "Q1"), ("Q2", "P1", "Anna")])
    assert triples.tolist() == [[3, 0, 0], [1, 0, 3]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("Anna", "P1", "Bert")], r"row 1: the label 'Bert' belongs to 2 .*'Q2', 'Q3'"),
        ([("Q1", "P1", "Q2"), ("Q1", "know", "Q2")], r"row 2: no relation .*'know'.*'knows'"),
        ([("Q1", "P1", "Ana")] * 3, r"row 1: .*mean 'Anna'\? \(and 2 more rows like it\)"),
        ([("Q1", "P1", "Carl")], r"row 1: .*'Carl' stands in valid or test only"),
        ([("Q1", "P1", "")], "row 1: the object is blank"),
    ],
)
def test_unknown_names_are_told_by_row(rows: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises((NameNotFoundError, GraphError), match=message):
        parse_triples(labelled(), rows)


def test_names_of_other_splits_may_be_allowed() -> None:
    assert parse_triples(labelled(), [("Q1", "P1", "Carl")], unseen=True).tolist() == [[0, 0, 4]]


def test_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("Q1\tP1\tQ2\nQ1\tP1\tnobody\n")
    with pytest.raises(NameNotFoundError, match=r"rows.tsv, row 2: no entity is called 'nobody'"):
        parse_triples(labelled(), file)


@pytest.mark.parametrize("row", [("e1", "r1"), "e1", ("e1", None, "e2"), (1.5, "r1", "e1")])
def test_what_is_no_triple_is_refused(row: object) -> None:
    with pytest.raises(GraphError):
        parse_triples(GRAPH, [row])
