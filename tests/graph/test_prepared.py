"""The folder of a prepared graph: what it holds, how it is opened, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from reltucker import Recipe, load_graph, open_run, train
from reltucker.errors import GraphError
from reltucker.graph import describe_graph, prepare_graph, verify_prepared
from reltucker.graph.arrays import blocks, growing, mapped
from reltucker.graph.prepared import FILES, MANIFEST, SCRATCH, StoredVocabulary, filling
from tests.conftest import random_graph, write_graph
from tests.graph.test_loading import TRAIN


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(random_graph(0), tmp_path_factory.mktemp("source") / "graph")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    with pytest.warns(UserWarning, match="also stand in"):
        prepare_graph(source, tmp_path / "out")
    return tmp_path / "out"


def test_the_folder_holds_plain_files_and_nothing_else(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted([MANIFEST, *FILES])
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["version"], manifest["name"]) == (1, "graph")
    assert manifest["bytes"] == {file: (folder / file).stat().st_size for file in FILES}
    for file in FILES:
        if file.endswith(".npy"):
            np.load(folder / file, allow_pickle=False)
        else:
            assert pl.read_ipc(folder / file).columns == ["name"]


def test_names_stay_on_disk_until_they_are_asked_for(folder: Path) -> None:
    graph = load_graph(folder)
    assert isinstance(graph.entities, StoredVocabulary)
    assert len(graph.entities) == 33
    assert graph.is_seen(graph.test).sum() > 0
    assert graph.answers("object").holds(graph.test).all()
    assert "_columns" not in vars(graph.entities)
    assert graph.entities.find(graph.entities.name(5)) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of shared pages")
def test_pages_are_those_of_the_file(tmp_path: Path) -> None:
    ends = np.random.default_rng(0).integers(100, size=(50_000, 2)).astype(str)
    rows = [(f"s{n}", "r", o) for n, (_, o) in enumerate(ends.tolist())]
    prepare_graph({"train": rows}, tmp_path / "out")
    graph = load_graph(tmp_path / "out")
    assert graph.train.sum() > 0
    text = Path("/proc/self/smaps").read_text()
    part = text.partition(str(tmp_path / "out" / "train.npy"))[2]
    sizes = dict(line.split(":") for line in part.splitlines()[1:20] if ":" in line)
    assert int(sizes["Rss"].split()[0]) >= 500
    assert (sizes["Private_Dirty"].split()[0], sizes["Anonymous"].split()[0]) == ("0", "0")
    before = (tmp_path / "out" / "train.npy").read_bytes()
    graph.train[0] = 7  # a copy of the page, for this process alone
    assert (tmp_path / "out" / "train.npy").read_bytes() == before


def test_a_graph_is_trained_evaluated_and_described_as_from_its_source(
    source: Path, folder: Path, tmp_path: Path
) -> None:
    results = []
    recipe = Recipe().changed(["model.entity_dim=4", "train.epochs=2", "train.batch_size=50"])
    for number, graph in enumerate((source, folder)):
        out = tmp_path / f"run{number}"
        if graph == source:
            with pytest.warns(UserWarning, match="also stand in"):
                run = train(str(graph), recipe, out=out, progress=False)
        else:
            run = train(str(graph), recipe, out=out, progress=False)
        opened = open_run(out)
        assert opened.recipe.graph.source == str(graph)
        metrics = opened.evaluate(progress=False).metrics["seen"]
        results.append((run.epochs()[-1]["loss"], metrics, opened.predict("e0", "r0").rows()))
    assert results[0] == results[1]
    with pytest.warns(UserWarning, match="also stand in"):
        assert describe_graph(load_graph(source)) == describe_graph(load_graph(folder))


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_missing_or_cut_is_named(folder: Path, file: str) -> None:
    path = folder / file
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    sizes = f"{len(content) - 1:,} bytes instead of {len(content):,}"
    assert_refused(folder, f"{path} is damaged: it has {sizes}; run `reltucker data prepare`")
    path.unlink()
    assert_refused(folder, f"{path} is missing")


def test_other_content_of_the_same_size_is_named(folder: Path) -> None:
    for file in ("train.npy", "object-keys.npy"):
        path = folder / file
        content = path.read_bytes()
        path.write_bytes(bytes(len(content)))
        assert_refused(folder, f"{path} is damaged")
        path.write_bytes(content.replace(b"<i", b"<f", 1))
        assert_refused(folder, f"{path} is damaged: it holds another kind of numbers")
        path.write_bytes(content)
    names = folder / "entities.arrow"
    names.write_bytes(bytes(names.stat().st_size))
    graph = load_graph(folder)
    with pytest.raises(GraphError, match=f"{names} is damaged"):
        graph.entities.find("e0")


@pytest.mark.parametrize("file", FILES)
def test_a_changed_byte_is_found_where_all_is_looked_at(folder: Path, file: str) -> None:
    verify_prepared(folder)
    content = bytearray((folder / file).read_bytes())
    content[-9] ^= 1
    (folder / file).write_bytes(content)
    with pytest.raises(GraphError, match=f"{folder / file} is damaged: its content has changed"):
        verify_prepared(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "was prepared in version 2 of the format, and this reltucker reads"),
        ({"format": "other"}, "is not of a prepared graph"),
        ({"entities": "many"}, "is damaged: something is missing in it"),
        ({"bytes": {}}, "is damaged: something is missing in it"),
        ({"crc32": 5}, "is damaged: something is missing in it"),
        ({"name": None}, "is damaged: something is missing in it"),
    ],
)
def test_another_manifest_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert_refused(folder, message)


def test_a_broken_manifest_is_refused(folder: Path) -> None:
    for text in ("", "{", "[]", "\0"):
        (folder / MANIFEST).write_text(text)
        assert_refused(folder, f"{folder / MANIFEST} is")


def assert_refused(folder: Path, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        load_graph(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_may_be_moved_and_be_read_only(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    for path in (*moved.iterdir(), moved):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        code = f"from reltucker import load_graph; print(len(load_graph({str(moved)!r}).train))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert int(done.stdout) == len(load_graph(moved).train)
    finally:
        moved.chmod(0o755)


def test_arrays_grow_and_come_back_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    whole = np.arange(30, dtype=np.int32).reshape(10, 3)
    with growing(path, np.int32, 3) as append:
        append(whole[:0])
        append(whole[:4])
        assert not path.exists()
        append(whole[4:].astype(np.int64))
    np.testing.assert_array_equal(mapped(path), whole)
    assert np.load(path).dtype == np.int32
    found = list(blocks(path, 4))
    assert [begin for begin, _ in found] == [0, 4, 8]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), whole)
    with growing(tmp_path / "empty.npy", np.uint8):
        pass
    assert mapped(tmp_path / "empty.npy").shape == (0,)
    with pytest.raises(ZeroDivisionError), growing(tmp_path / "no.npy", np.uint8):
        raise ZeroDivisionError
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "empty.npy"]


def test_a_taken_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    prepare_graph(TRAIN, taken)
    before = {path.name: path.read_bytes() for path in taken.iterdir()}
    file = tmp_path / "file"
    file.write_text("mine")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "train.npy").write_text("mine")
    for out in (taken, file, mine):
        with pytest.raises(GraphError, match="holds something already; choose another folder"):
            prepare_graph(TRAIN, out)
    assert before == {path.name: path.read_bytes() for path in taken.iterdir()}
    assert [path.name for path in mine.iterdir()] == ["train.npy"]
    empty = tmp_path / "empty"
    empty.mkdir()
    prepare_graph(TRAIN, empty)


def test_two_processes_do_not_fill_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with filling(out):
        code = f"""
from reltucker.graph import prepare_graph
prepare_graph([("a", "r", "b")], {str(out)!r})
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "another process prepares a graph in" in done.stderr
        assert (out / SCRATCH).is_dir()
