"""A full disk, by a limit on the size of files: one sentence that names the file, and no harm."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reltucker import open_run
from tests.faults.conftest import OPTIONS, refused, run_command


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 300, 3000, 6000])
def test_training(graph_folder: Path, tmp_path: Path, size: int) -> None:
    out = tmp_path / "run"
    arguments = ["train", graph_folder, *OPTIONS, "--epochs=2", f"--out={out}"]
    with room_for(size):
        sentence = refused(run_command(*arguments))
    assert str(out) in sentence
    assert "File too large" in sentence
    assert not list(out.glob(".*.tmp"))
    again = ["resume", out] if (out / "recipe.toml").exists() else arguments
    assert run_command(*again)[0] == 0


@pytest.mark.parametrize("size", [10, 800])
def test_export_and_others_harm_nothing(run: Path, tmp_path: Path, size: int) -> None:
    assert run_command("export", run)[0] == 0
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    for arguments in (
        ["export", run],
        ["calibrate", run],
        ["compare", run, f"--out={tmp_path / 'compared'}"],
        ["inspect", run, f"--out={tmp_path / 'inspected'}"],
        ["predict", run, "e1", "r1", "?", f"--out={tmp_path / 'answers.csv'}"],
    ):
        with room_for(size if arguments[0] != "predict" else 10):
            sentence = refused(run_command(*arguments))
        assert str(tmp_path) in sentence
        assert "File too large" in sentence
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
    assert all(row["problem"] is None for row in open_run(run).verify())
