"""Graphs from files, folders, frames and triples: ids, splits, counts, labels, errors."""

import csv
import gzip
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import GraphError
from reltucker.graph import SPLITS, GraphWarning, KnowledgeGraph, load_graph
from reltucker.graph.building import keys_of

TRAIN = [("a", "r", "b"), ("b", "r", "c"), ("a", "s", "c")]
VALID = [("c", "r", "a"), ("new", "s", "a")]
TEST = [("a", "t", "newer")]
DATASETS = Path(
    os.environ.get("RELTUCKER_DATASETS", Path(__file__).parents[3] / "shared" / "datasets")
)


def tsv(rows: list[tuple[str, str, str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def write_folder(folder: Path, **splits: list[tuple[str, str, str]]) -> Path:
    for split, rows in splits.items():
        (folder / f"{split}.tsv").write_bytes(tsv(rows))
    return folder


def named(graph: KnowledgeGraph, split: Any) -> list[tuple[str, ...]]:
    return graph.named(graph.split(split)).rows()


def assert_same(one: KnowledgeGraph, two: KnowledgeGraph) -> None:
    assert one.entities.names.to_list() == two.entities.names.to_list()
    assert one.relations.names.to_list() == two.relations.names.to_list()
    assert (one.seen_entities, one.seen_relations) == (two.seen_entities, two.seen_relations)
    assert one.counts == two.counts
    for split in SPLITS:
        np.testing.assert_array_equal(one.split(split), two.split(split))


def message_of(source: Any, **options: Any) -> str:
    with pytest.raises(GraphError) as caught:
        load_graph(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_ids_follow_first_appearance_and_train_comes_first(tmp_path: Path) -> None:
    graph = load_graph(write_folder(tmp_path, train=TRAIN, valid=VALID, test=TEST))
    assert graph.entities.names.to_list() == ["a", "b", "c", "new", "newer"]
    assert graph.relations.names.to_list() == ["r", "s", "t"]
    assert (graph.seen_entities, graph.seen_relations) == (3, 2)
    assert (named(graph, "train"), named(graph, "valid"), named(graph, "test")) == (
        TRAIN,
        VALID,
        TEST,
    )
    assert graph.train.dtype == np.int32
    assert graph.counts == {}
    assert graph.name == tmp_path.name
    assert graph.is_seen(graph.valid).tolist() == [True, False]


names = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]), min_size=1)
small_names = st.one_of(st.sampled_from("abcdefg"), names.filter(lambda name: not name.isspace()))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(small_names, st.sampled_from("rs"), small_names), min_size=1, max_size=40)
    .filter(lambda rows: not rows[0][0].startswith("\ufeff"))
    .filter(lambda rows: all(pl.Series(sum(rows, ())).str.strip_chars() != "")),
    st.integers(0, 5),
)
def test_every_way_in_gives_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("ways")
    frame = pl.DataFrame(rows, schema=["subject", "relation", "object"], orient="row")
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    content = {
        "g.tsv": tsv(rows),
        "g.txt": tsv(rows).replace(b"\n", b"\r\n"),
        "g.csv": text.getvalue().encode(),
        "g.tsv.gz": gzip.compress(tsv(rows)),
        "g.csv.zst": zstandard.compress(text.getvalue().encode()),
    }
    for name, data in content.items():
        (folder / name).write_bytes(data)
    frame.write_parquet(folder / "g.parquet")
    expected = load_graph(rows, seed=seed)
    as_pandas = pd.DataFrame(rows, columns=["subject", "relation", "object"])
    ways: list[Any] = [frame, as_pandas, iter(rows), np.array(rows, dtype=object)]
    for source in [*ways, *(folder / name for name in content), str(folder / "g.parquet")]:
        assert_same(load_graph(source, seed=seed), expected)
    everything = {row for split in SPLITS for row in named(expected, split)}
    assert everything == set(rows)
    assert expected.counts.get("duplicates_train", 0) == len(rows) - len(everything)
    assert expected.seen_entities == len(expected.entities)


def test_one_file_is_split_by_the_seed(tmp_path: Path) -> None:
    rows = [(f"e{i % 23}", f"r{i % 3}", f"e{i * 7 % 31}") for i in range(400)]
    path = tmp_path / "graph.tsv.gz"
    path.write_bytes(gzip.compress(tsv(rows)))
    graph, other = load_graph(path, seed=1), load_graph(path, seed=2)
    assert graph.name == "graph"
    assert len(graph.valid) == len(graph.test) == (len(set(rows)) + 5) // 10
    assert named(graph, "valid") != named(other, "valid")
    assert_same(graph, load_graph(path, seed=1))
    assert graph.is_seen(graph.valid).all()
    assert graph.is_seen(graph.test).all()


def test_ids_do_not_depend_on_what_the_process_did_before() -> None:
    first = load_graph({"train": TRAIN})
    alive = pl.Series(["c", "zz", "b", "r"], dtype=pl.Categorical)
    assert_same(load_graph({"train": TRAIN}), first)
    assert len(alive) == 4


def test_a_dict_of_splits_keeps_them(tmp_path: Path) -> None:
    as_pandas = pd.DataFrame(VALID, columns=["head", "relation", "tail"])
    graph = load_graph({"test": TEST, "valid": as_pandas, "train": TRAIN})
    assert_same(graph, load_graph(write_folder(tmp_path, train=TRAIN, valid=VALID, test=TEST)))
    assert graph.name == "graph"
    only = load_graph({"train": TRAIN, "valid": []})
    assert only.valid.shape == only.test.shape == (0, 3)


@pytest.mark.parametrize(
    ("valid", "test"),
    [("dev.csv", "test.txt.gz"), ("validation.parquet", "test.nt.zst"), ("valid.pq", "test.ttl")],
)
def test_a_folder_may_mix_formats(tmp_path: Path, valid: str, test: str) -> None:
    (tmp_path / "train.tsv").write_bytes(tsv(TRAIN))
    if valid.endswith("csv"):
        (tmp_path / valid).write_bytes(b"c,r,a\n")
    else:
        pl.DataFrame([("c", "r", "a")], schema=list("spo"), orient="row").write_parquet(
            tmp_path / valid
        )
    rdf = b'<http://a> <http://r> <http://b> .\n<http://a> <http://r> "5" .\n'
    data = {"test.txt.gz": gzip.compress(b"a\tr\tx\n"), "test.ttl": rdf}
    (tmp_path / test).write_bytes(data.get(test) or zstandard.compress(rdf))
    (tmp_path / "readme.md").write_text("not triples")
    (tmp_path / "nested").mkdir()
    graph = load_graph(tmp_path)
    assert named(graph, "valid") == [("c", "r", "a")]
    assert len(graph.test) == 1
    assert graph.counts == ({} if test == "test.txt.gz" else {"literals_skipped": 1})


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, train=[*TRAIN, TRAIN[1], TRAIN[0]], valid=VALID * 2)
    graph = load_graph(folder)
    assert named(graph, "train") == TRAIN
    assert named(graph, "valid") == VALID
    assert graph.counts == {"duplicates_train": 2, "duplicates_valid": 2}


def test_overlap_is_kept_counted_and_warned_of(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path, train=TRAIN, valid=[*VALID, TRAIN[2]], test=[TRAIN[0], VALID[0], *TEST]
    )
    with pytest.warns(GraphWarning) as caught:
        graph = load_graph(folder)
    assert graph.counts == {"overlap_valid": 1, "overlap_test": 2}
    assert [len(graph.split(split)) for split in SPLITS] == [3, 3, 3]
    assert len(caught) == 2
    assert "1 triples of valid" in str(caught[0].message)
    assert caught[0].filename == __file__


def testkeys_of_tell_triples_apart_even_in_huge_vocabularies() -> None:
    triples = np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3], [2**30, 2, 3]], dtype=np.int32)
    keys = keys_of(triples, 2**31 - 1, 2**20)
    assert keys[0] == keys[2]
    assert len(set(keys.tolist())) == 3


def test_labels_apply_to_entities_and_relations(tmp_path: Path) -> None:
    write_folder(tmp_path, train=TRAIN)
    text = "id\tname\na\tFirst\na\tAgain\nr\tlikes\nother\tNobody\n"
    (tmp_path / "labels.tsv").write_text(text)
    graph = load_graph(tmp_path)
    assert [graph.entities.label(i) for i in range(3)] == ["First", "b", "c"]
    assert [graph.relations.label(i) for i in range(2)] == ["likes", "s"]
    assert graph.counts == {"labels_unused": 1}
    elsewhere = tmp_path / "mine.csv.gz"
    elsewhere.write_bytes(gzip.compress(b'b,"B, the second"\n'))
    graph = load_graph(tmp_path, labels=elsewhere)
    assert graph.entities.label(1) == "B, the second"
    assert graph.relations.labels is None
    assert graph.counts == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\tA\nb\n", "line 2: 1 columns"),
        ("a\tA\n\tB\n", "line 2: the id is blank"),
        ("a\t \n", "line 1: the name is blank"),
        ("", "is empty"),
    ],
)
def test_bad_labels_name_file_and_line(tmp_path: Path, text: str, found: str) -> None:
    write_folder(tmp_path, train=TRAIN)
    (tmp_path / "labels.tsv").write_text(text)
    message = message_of(tmp_path)
    assert "labels.tsv" in message
    assert found in message


def test_two_files_of_labels_are_an_error(tmp_path: Path) -> None:
    write_folder(tmp_path, train=TRAIN, labels=[])
    (tmp_path / "labels.csv").write_text("a,b\n")
    message = message_of(tmp_path)
    assert "labels.csv and labels.tsv" in message


RDF = """@prefix x: <http://x/> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
x:a x:r x:b . x:b x:r x:c . x:c x:r x:a . x:a x:age 5 .
x:a rdfs:label "A" , "Ein A"@de , " " ; skos:prefLabel "An A"@en .
x:b rdfs:label "Ein B"@de-AT ; skos:prefLabel "Un B"@fr .
x:r rdfs:label "goes to"@en .
"""


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", ["An A", "Un B", "http://x/c"]),
        ("DE", ["Ein A", "Ein B", "http://x/c"]),
        ("it", ["A", "Un B", "http://x/c"]),
    ],
)
def test_labels_stand_among_the_triples_of_rdf(
    tmp_path: Path, language: str, shown: list[str]
) -> None:
    path = tmp_path / "graph.ttl"
    path.write_text(RDF)
    graph = load_graph({"train": path}, language=language)
    assert graph.entities.shown.to_list() == shown
    assert graph.relations.shown.to_list() == ["goes to"]
    assert graph.counts == {"literals_skipped": 1}
    assert len(graph.train) == 3


def test_labels_come_from_an_rdf_file_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "names.ttl"
    path.write_text(RDF)
    graph = load_graph([("http://x/a", "r", "b")], labels=path)
    assert graph.entities.shown.to_list() == ["An A", "b"]
    path.write_text("<http://x/a> <http://x/r> <http://x/b> .")
    assert "has no rdfs:label" in message_of(TRAIN, labels=path)
    again = graph.labelled(pl.DataFrame({"id": ["b"], "name": ["B"]}))
    assert again.entities.shown.to_list() == ["An A", "B"]
    assert again.relations.labels is None


def test_labels_of_another_format_are_refused(tmp_path: Path) -> None:
    assert "labels.json" in message_of(TRAIN, labels=tmp_path / "labels.json")
    assert "none.tsv" in message_of(TRAIN, labels=tmp_path / "none.tsv")


@pytest.mark.datasets
@pytest.mark.parametrize("name", ["FB15k-237", "WN18RR"])
def test_labels_of_the_data_sets_load(name: str) -> None:
    path = DATASETS / f"{name}.labels.tsv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {DATASETS}; RELTUCKER_DATASETS names a folder")
    first = path.read_text(encoding="utf-8").split("\t", 1)[0]
    graph = load_graph([(first, "r", "b")], labels=path)
    assert graph.entities.label(0) != first
    assert graph.counts["labels_unused"] > 10_000


@pytest.mark.parametrize(
    ("name", "fault"), [(" \u2003", "blank"), ("x\0", "NUL"), ("y" * 100_001, "100001")]
)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_bad_names_are_found_in_every_split(
    tmp_path: Path, name: str, fault: str, column: int
) -> None:
    row = ["a", "r", "b"]
    row[column] = name
    folder = write_folder(tmp_path, train=TRAIN, test=[*TEST, (row[0], row[1], row[2])])
    message = message_of(folder)
    assert f"test.tsv, line 2: the {('subject', 'relation', 'object')[column]}" in message
    assert fault in message
    assert "row 2" in message_of({"train": TRAIN, "test": [*TEST, tuple(row)]})


def test_a_folder_without_train_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text("{}")
    (tmp_path / "train.tsv").mkdir()
    write_folder(tmp_path, valid=VALID)
    message = message_of(tmp_path)
    assert str(tmp_path) in message
    assert "no train.* file" in message
    assert ".parquet" in message


@pytest.mark.parametrize(
    ("one", "two"), [("train.tsv", "train.txt"), ("dev.tsv", "valid.tsv"), ("test.nt", "test.tsv")]
)
def test_two_files_for_a_split_are_both_named(tmp_path: Path, one: str, two: str) -> None:
    write_folder(tmp_path, train=TRAIN)
    for name in (one, two):
        (tmp_path / name).write_bytes(tsv(TRAIN))
    message = message_of(tmp_path)
    assert f"{one} and {two}" in message


def test_missing_and_unknown_files_are_named(tmp_path: Path) -> None:
    assert "none.tsv' is neither a file or folder" in message_of(tmp_path / "none.tsv")
    assert "none.tsv does not exist" in message_of({"train": tmp_path / "none.tsv"})
    (tmp_path / "graph.json").write_text("[]")
    assert "graph.json has no known format" in message_of(str(tmp_path / "graph.json"))


def test_no_training_triples() -> None:
    for source in ([], pl.DataFrame(schema=list("spo")), {"train": [], "valid": VALID}):
        assert "no training triples" in message_of(source)


@pytest.mark.parametrize(
    "source", [{}, {"valid": VALID}, {"train": TRAIN, "dev": VALID}], ids=["none", "valid", "dev"]
)
def test_a_dict_needs_the_names_of_splits(source: Any) -> None:
    assert "'train'" in message_of(source)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ([("a", "r", "b"), ("a", "r")], "row 2"),
        (["abc"], "row 1: str"),
        ([("a", "r", "b"), ("a", 5, "b")], "column 'relation' mixes"),
        ([("a", "r", 1.5)], "column 'object' holds Float64"),
        ([("a", "r", "b"), ("a", None, "b")], "row 2: the relation is blank"),
        ([("a", "r", "\ud800")], "column 'object'"),
    ],
)
def test_bad_triples_name_the_row_or_column(source: Any, found: str) -> None:
    assert found in message_of(source)


def test_pandas_frames_with_gaps_and_numbers() -> None:
    frame = pd.DataFrame({"s": [1, 2], "p": ["r", "r"], "o": [2, 3]})
    assert load_graph(frame).entities.names.to_list() == ["1", "2", "3"]
    gap = pd.DataFrame({"s": ["a", "b"], "p": ["r", float("nan")], "o": ["b", "c"]})
    assert "row 2: the relation is blank" in message_of(gap)
    twice = pd.DataFrame([["a", "r", "b"]], columns=["s", "p", "p"])
    assert "two columns" in message_of(twice)


def test_nothing_is_warned_of_in_a_clean_graph(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_graph(write_folder(tmp_path, train=TRAIN, valid=VALID, test=TEST))


def test_relations_that_seem_to_stand_elsewhere_are_warned_of() -> None:
    rows = [(f"likes{i % 3}", f"a{i % 40}", f"a{i * 7 % 30}") for i in range(400)]
    with pytest.warns(GraphWarning, match="40 relations and only 33 entities.*columns"):
        load_graph(rows)
    right = load_graph(pl.DataFrame(rows, orient="row"), columns="relation,subject,object")
    assert (len(right.entities), len(right.relations)) == (40, 3)
    # As in the graph Nations: few entities, and many triples for each of many relations.
    load_graph([(f"a{i % 5}", f"r{i % 20}", f"a{i * 7 % 6}") for i in range(400)])
