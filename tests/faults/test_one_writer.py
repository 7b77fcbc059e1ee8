"""A folder has one writer at a time, and what is not ours is left alone."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reltucker import ReltuckerError, Run, open_run
from reltucker.errors import FolderInUseError, StudyError
from reltucker.folders import LOCK, sole_writer
from reltucker.search.folder import SearchFolder
from reltucker.training import RunFolder
from tests.faults.conftest import OPTIONS, refused, run_command


def unfinished(run: Path) -> Path:
    """As if it had been killed before its last epoch."""
    (run / "result.json").unlink()
    return run


def test_a_running_training_keeps_others_out_until_it_is_killed(
    graph_folder: Path, tmp_path: Path, background: Callable[..., subprocess.Popen[str]]
) -> None:
    out = tmp_path / "run"
    process = background("train", graph_folder, *OPTIONS, "--epochs=100000", f"--out={out}")
    until = time.monotonic() + 60
    while not (out / "checkpoint.safetensors").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "is in use" in refused(run_command("resume", out))
    again = run_command("train", graph_folder, *OPTIONS, f"--out={out}")
    assert "holds a run already" in refused(again)
    assert run_command("evaluate", out, "--json")[0] == 0, "reading is free"
    process.kill()
    process.wait()
    (out / ".best.safetensors.0123abcd.tmp").touch()
    with RunFolder(out).writing():  # a lock does not outlive its holder
        assert not list(out.glob(".*.tmp")), "what the dead had half written is gone"
    assert open_run(out).epochs()


def test_every_writer_of_a_run_asks(run: Path, tmp_path: Path) -> None:
    held = tmp_path / "held"
    with sole_writer(held):
        for arguments in (
            ["add", run, _new_triples(tmp_path), f"--out={held}"],
            ["export", run, f"--out={held}"],
        ):
            assert "is in use" in refused(run_command(*arguments))
    with sole_writer(run):
        assert "is in use" in refused(run_command("calibrate", run))
        unfinished(run)
        assert "is in use" in refused(run_command("resume", run))
    assert run_command("resume", run, "--json")[0] == 0


def test_two_searches_and_two_studies_do_not_share_a_folder(
    graph_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with sole_writer(out):
        for command in ("search", "study"):
            arguments = [command, graph_folder, "--trials=1", "--epochs=1", f"--out={out}"]
            assert "is in use" in refused(run_command(*arguments))
    with SearchFolder(out).held(join=True), SearchFolder(out).held(join=False):
        pass  # those who join share it
    (out / "letter.txt").touch()
    with pytest.raises(StudyError, match="holds no search"):
        SearchFolder(out).held(join=True)


def test_a_foreign_folder_is_refused_and_stays_as_it_is(
    graph_folder: Path, run: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "epochs.jsonl").write_text("{}\n")
    (foreign / "result.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in foreign.iterdir()}
    for arguments in (
        ["train", graph_folder, *OPTIONS, "--epochs=1", f"--out={foreign}"],
        ["merge", run, run, f"--out={foreign}"],
        ["add", run, _new_triples(tmp_path), f"--out={foreign}"],
    ):
        assert "is not empty" in refused(run_command(*arguments))
    assert {path.name: path.read_bytes() for path in foreign.iterdir()} == before


def test_a_folder_that_was_never_whole_can_be_taken(
    graph_folder: Path, whole_run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    out.mkdir()
    for name in (LOCK, "best.safetensors", "result.json", "entities.parquet"):
        shutil.copy(whole_run.path / name, out)
    code, text, err = run_command(
        "train", graph_folder, *OPTIONS, "--epochs=1", f"--out={out}", "--json"
    )
    assert code == 0, err
    assert json.loads(text)["epochs"] == 1
    assert len(open_run(out).epochs()) == 1


def test_numbered_folders_are_never_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunFolder.free("g", "srt") != RunFolder.free("g", "srt")


def test_in_python_it_is_an_error_of_its_own(run: Path) -> None:
    with sole_writer(run), pytest.raises(FolderInUseError, match="in use") as caught:
        open_run(unfinished(run)).resume(progress=False)
    assert isinstance(caught.value, ReltuckerError)


def _new_triples(folder: Path) -> Path:
    path = folder / "new.tsv"
    path.write_text("new\tr0\te1\n")
    return path
