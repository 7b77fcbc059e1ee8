"""A graph on disk: what comes back, and which damage is noticed."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file

from reltucker.errors import GraphError
from reltucker.graph import SPLITS, KnowledgeGraph, Vocabulary

FILES = ["entities.parquet", "relations.parquet", "triples.safetensors"]


@pytest.fixture
def graph() -> KnowledgeGraph:
    def rows(*triples: tuple[int, int, int]) -> np.ndarray:
        return np.array(triples, dtype=np.int32).reshape(-1, 3)

    return KnowledgeGraph(
        "städte",
        Vocabulary(["a", "b\tc", "é", "new"], ["A", None, None, "New"], "entity"),
        Vocabulary(["r", "s"], kind="relation"),
        rows((0, 0, 1), (1, 0, 2)),
        rows((0, 0, 2), (3, 0, 0), (0, 1, 1)),
        rows(),
        seen_entities=3,
        seen_relations=1,
        counts={"duplicates_train": 4},
    )


def test_saving_and_loading_gives_the_same_graph(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "new" / "folder")
    again = KnowledgeGraph.load(tmp_path / "new" / "folder")
    assert sorted(file.name for file in (tmp_path / "new" / "folder").iterdir()) == FILES
    assert again.name == "städte"
    assert again.entities.names.equals(graph.entities.names)
    assert again.entities.shown.equals(graph.entities.shown)
    assert again.relations.names.equals(graph.relations.names)
    assert again.relations.labels is None
    assert (again.entities.kind, again.relations.kind) == ("entity", "relation")
    assert (again.seen_entities, again.seen_relations) == (3, 1)
    assert again.counts == {"duplicates_train": 4}
    for split in SPLITS:
        np.testing.assert_array_equal(again.split(split), graph.split(split))
        assert again.split(split).dtype == np.int32


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbage", "start"])
def test_a_damaged_file_is_named(
    graph: KnowledgeGraph, tmp_path: Path, name: str, damage: str
) -> None:
    graph.save(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    path.unlink()
    contents = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "garbage": b"garbage" * 40,
        "start": b"\xff" * 16 + whole[16:],
    }
    if damage in contents:
        path.write_bytes(contents[damage])
    if damage == "start" and name.endswith("parquet"):
        # Polars reads from the end, so it may not look at the first bytes of a whole file.
        path.write_bytes(whole[:-8] + b"\xff" * 8)
    with pytest.raises(GraphError, match=name) as caught:
        KnowledgeGraph.load(tmp_path)
    assert "\n" not in str(caught.value)


def rewrite(folder: Path, metadata: dict[str, str] | None, **changed: np.ndarray) -> None:
    path = folder / "triples.safetensors"
    tensors = load_file(path) | changed
    save_file(tensors, path, metadata=metadata)


METADATA = {"name": "x", "seen_entities": "3", "seen_relations": "1"}


@pytest.mark.parametrize(
    "triples", [[[0, 0, 4]], [[0, 2, 0]], [[-1, 0, 0]], [[0, 0]], [0, 0, 0]], ids=str
)
def test_ids_outside_of_the_vocabulary_are_refused(
    graph: KnowledgeGraph, tmp_path: Path, triples: list[object]
) -> None:
    graph.save(tmp_path)
    rewrite(tmp_path, METADATA, valid=np.array(triples, dtype=np.int32))
    with pytest.raises(GraphError, match=r"triples\.safetensors.*valid"):
        KnowledgeGraph.load(tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {key: value for key, value in METADATA.items() if key != "name"},
        {key: value for key, value in METADATA.items() if key != "seen_entities"},
        METADATA | {"seen_relations": "many"},
        METADATA | {"seen_entities": "5"},
        METADATA | {"seen_entities": "-1"},
        METADATA | {"seen_entities": "1"},
        METADATA | {"count.duplicates_train": "few"},
    ],
    ids=str,
)
def test_wrong_metadata_is_refused(
    graph: KnowledgeGraph, tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    graph.save(tmp_path)
    rewrite(tmp_path, metadata)
    with pytest.raises(GraphError, match=r"triples\.safetensors") as caught:
        KnowledgeGraph.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_ids_beyond_32_bits_are_not_folded(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path)
    rewrite(tmp_path, METADATA, valid=np.array([[2**32, 0, 0]], dtype=np.int64))
    with pytest.raises(GraphError, match="valid"):
        KnowledgeGraph.load(tmp_path)


@pytest.mark.parametrize(
    "columns",
    [{"other": ["a", "b", "c", "d"]}, {"name": [1, 2, 3, 4]}, {"name": ["a", None, "c", "d"]}],
    ids=str,
)
def test_names_that_are_not_strings_are_refused(
    graph: KnowledgeGraph, tmp_path: Path, columns: dict[str, list[object]]
) -> None:
    graph.save(tmp_path)
    pl.DataFrame(columns).write_parquet(tmp_path / "entities.parquet")
    with pytest.raises(GraphError, match=r"entities\.parquet"):
        KnowledgeGraph.load(tmp_path)


def test_a_graph_equals_itself_alone(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path)
    again = KnowledgeGraph.load(tmp_path)
    assert graph == graph
    assert graph != again
    assert len({graph, again, graph}) == 2
    assert graph.entities != again.entities
    assert len({graph.entities, again.entities}) == 2


def test_seen_triples_have_all_their_names_in_train(graph: KnowledgeGraph) -> None:
    assert graph.is_seen(graph.valid).tolist() == [True, False, False]
    assert graph.is_seen(graph.test).shape == (0,)


def test_named_gives_the_exact_names(graph: KnowledgeGraph) -> None:
    assert graph.named(graph.train).rows() == [("a", "r", "b\tc"), ("b\tc", "r", "é")]
    assert graph.named(graph.test).columns == ["subject", "relation", "object"]


def test_an_answer_index_is_built_once_over_all_splits(graph: KnowledgeGraph) -> None:
    index = graph.answers("object")
    assert graph.answers("object") is index
    assert index.rows(index.key(np.array([0]), np.array([0]))).answers.tolist() == [1, 2]


def test_entities_of_a_relation_are_those_of_train(graph: KnowledgeGraph) -> None:
    assert graph.occurring(0, "subject").tolist() == [0, 1]
    assert graph.occurring(0, "object").tolist() == [1, 2]
    assert graph.occurring(1, "object").tolist() == []


def test_names_are_shown_as_labels(graph: KnowledgeGraph) -> None:
    shown = graph.shown(graph.named(graph.valid).with_columns(score=1.0))
    assert shown.rows() == [("A", "r", "é", 1.0), ("New", "r", "A", 1.0), ("A", "s", "b\tc", 1.0)]
