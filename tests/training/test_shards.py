"""Tensors of several processes: written as a set, read by any number of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reltucker.errors import RunError
from reltucker.peers import ALONE, Peers
from reltucker.training import RunFolder
from reltucker.training.joining import join
from reltucker.training.shards import exists, load_tensors, remove, save_tensors
from tests.distributed.threads import together

COUNT = 11


def tensors(peers: Peers, factor: float = 1.0) -> dict[str, Tensor]:
    """E and what an optimiser keeps of it by rows; all else alike for all."""
    E = torch.arange(COUNT * 3.0).view(COUNT, 3) * factor
    return {
        "model.E": E[peers.span(COUNT)],
        "optimizer.E.sum": E[peers.span(COUNT)] + 0.5,
        "optimizer.E.step": torch.tensor(7.0),
        "R": torch.ones(2, 2) * factor,
    }


def save(path: Path, size: int, epoch: int = 1) -> None:
    def work(peers: Peers) -> None:
        save_tensors(path, tensors(peers, epoch), {"epoch": epoch}, peers, COUNT)

    together(size, work) if size > 1 else work(ALONE)


def load(path: Path, size: int) -> list[tuple[Peers, dict[str, Tensor], dict[str, Any]]]:
    def work(peers: Peers) -> tuple[Peers, dict[str, Tensor], dict[str, Any]]:
        return peers, *load_tensors(path, peers, COUNT)

    return together(size, work) if size > 1 else [work(ALONE)]


def check(path: Path, size: int, epoch: int) -> None:
    for peers, found, state in load(path, size):
        expected = tensors(peers, epoch)
        assert state == {"epoch": epoch}
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], value) for name, value in expected.items())


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_any_number_of_processes_reads_what_any_number_wrote(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int, readers: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    save(path, first, epoch=1)
    check(path, readers, epoch=1)
    save(path, second, epoch=2)
    check(path, readers, epoch=2)
    expected = 1 if second == 1 else second + 1  # of the first set nothing is left
    assert len(list(path.parent.iterdir())) == expected
    remove(path)
    assert not exists(path)
    assert not list(path.parent.iterdir())


def test_the_index_is_that_of_the_hub(tmp_path: Path) -> None:
    save(tmp_path / "best.safetensors", 2)
    index = json.loads((tmp_path / "best.safetensors.index.json").read_text())
    assert index["weight_map"]["R"] == "best-epoch-1-00001-of-00002.safetensors"
    assert index["weight_map"]["model.E.rows.5-11"] == "best-epoch-1-00002-of-00002.safetensors"
    sizes = [path.stat().st_size for path in tmp_path.glob("*.safetensors")]
    assert index["metadata"]["total_size"] == sum(sizes)


def test_a_set_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    """As after a kill before the index was written, or between it and what it replaces."""
    path = tmp_path / "checkpoint.safetensors"
    save(path, 2, epoch=1)
    index = (tmp_path / "checkpoint.safetensors.index.json").read_bytes()
    former = {file.name: file.read_bytes() for file in tmp_path.glob("*epoch-1*")}
    save(path, 3, epoch=2)
    for name, content in former.items():
        (tmp_path / name).write_bytes(content)
    check(path, 2, epoch=2)
    (tmp_path / "checkpoint.safetensors.index.json").write_bytes(index)
    check(path, 2, epoch=1)
    # One process has written since, and was killed before it removed the set.
    save(tmp_path / "other" / "checkpoint.safetensors", 1, epoch=3)
    (tmp_path / "other" / "checkpoint.safetensors").rename(path)
    check(path, 1, epoch=3)
    check(path, 2, epoch=3)
    save(tmp_path / "other" / "checkpoint.safetensors", 1, epoch=0)
    (tmp_path / "other" / "checkpoint.safetensors").rename(path)
    check(path, 2, epoch=1)


@pytest.mark.parametrize("damage", ["missing", "cut", "rows", "index", "text", "nan"])
def test_what_is_damaged_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "best.safetensors"
    save(path, 3)
    second = tmp_path / "best-epoch-1-00002-of-00003.safetensors"
    index = tmp_path / "best.safetensors.index.json"
    if damage == "missing":
        second.unlink()
    elif damage == "cut":
        second.write_bytes(second.read_bytes()[:-4])
    elif damage == "nan":
        second.write_bytes(second.read_bytes()[:-4] + b"\0\0\xc0\x7f")
    elif damage == "text":
        index.write_text("[")
    else:
        found = json.loads(index.read_text())
        if damage == "rows":
            del found["weight_map"]["model.E.rows.3-7"]
        else:
            found = {"weight_map": found["weight_map"]}
        index.write_text(json.dumps(found))
    with pytest.raises(RunError, match=r"best\.safetensors(\.index\.json)? is damaged"):
        load(path, 1)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is missing; the run has no saved weights yet"):
        load(tmp_path / "best.safetensors", 1)


@pytest.mark.parametrize("size", [2, 5])
def test_a_set_becomes_one_file(size: int, tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    save(path, size, epoch=3)
    join(path)
    assert [each.name for each in tmp_path.iterdir()] == ["best.safetensors"]
    for readers in (1, 3):
        check(path, readers, epoch=3)
    found, state = load_tensors(path, in_place=True)
    assert state == {"epoch": 3}
    assert torch.equal(found["model.E"], tensors(ALONE, 3)["model.E"])
    assert found["model.E"].data_ptr() % 64 == 0
    join(path)  # which has nothing to do
    check(path, 1, epoch=3)


def test_a_set_stays_where_one_file_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    save(tmp_path / "best.safetensors", 2)
    monkeypatch.setattr("reltucker.training.joining._write", full)
    RunFolder(tmp_path).join_best()
    check(tmp_path / "best.safetensors", 1, epoch=1)
