"""Damage is found when a file is read, whichever bit it is."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from reltucker import ReltuckerError, Run, open_run
from reltucker.checksums import signed, signed_text, unsigned, verify_text
from reltucker.peers import Peers
from reltucker.training.shards import load_tensors, verify_tensors
from tests.faults.conftest import refused, run_command
from tests.training.test_shards import save

FILES = [
    "recipe.toml",
    "entities.parquet",
    "relations.parquet",
    "triples.safetensors",
    "best.safetensors",
    "checkpoint.safetensors",
    "epochs.jsonl",
    "result.json",
    "calibration.json",
]


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def everything(path: Path) -> list[Any]:
    """What the files of a run say, all of it."""
    run = open_run(path)
    found = [run.recipe.model_dump(), run.graph.named(run.graph.train).rows(), run.epochs()]
    found += [{k: v.tolist() for k, v in run.model.serving_state().items()}, run.result]
    calibration = run.calibration
    return [*found, calibration and calibration.to_dict(), run.graph.name]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_or_changes_nothing(run: Path, name: str) -> None:
    expected = everything(run)
    content = (run / name).read_bytes()
    draw = random.Random(name)
    refusals = []
    for bit in draw.sample(range(8 * len(content)), 15):
        (run / name).write_bytes(flipped(content, bit))
        try:
            if name == "checkpoint.safetensors":
                verify_tensors(run / name)
                pytest.fail(f"bit {bit} was not noticed")
            assert everything(run) == expected, f"bit {bit}"
        except ReltuckerError as error:
            refusals.append(str(error))
    assert len(refusals) >= 12
    assert all(name in refusal for refusal in refusals)


def test_verify_tells_what_is_whole_and_what_is_not(run: Path) -> None:
    code, out, err = run_command("verify", run, "--json")
    assert (code, err) == (0, "")
    files = json.loads(out)["files"]
    assert ", ".join(row["file"] for row in files) == ", ".join(FILES)
    assert all(row["checksum"] and row["problem"] is None for row in files)
    epochs = run / "epochs.jsonl"
    lines = epochs.read_bytes()
    epochs.write_bytes(lines[:-5])
    assert f"{epochs} is damaged: it has 2 of 3 epochs" in refused(run_command("verify", run))
    epochs.write_bytes(lines)
    path = run / "best.safetensors"
    path.write_bytes(flipped(path.read_bytes(), 8 * path.stat().st_size - 9))
    code, out, err = outcome = run_command("verify", run, "--json")
    assert str(path) in refused(outcome)
    states = {row["file"]: row["state"] for row in json.loads(out)["files"]}
    assert [name for name, state in states.items() if state == "damaged"] == ["best.safetensors"]
    for command in ("evaluate", "export", "inspect", "compare"):
        assert str(path) in refused(run_command(command, run))


def test_a_run_of_earlier_times_is_read_without(run: Path, whole_run: Run) -> None:
    """Its files as they were written before there were checksums."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    for name in ("best.safetensors", "checkpoint.safetensors", "triples.safetensors"):
        with safe_open(run / name, framework="pt") as file:
            metadata = dict(file.metadata())
        kept = {k: v for k, v in metadata.items() if k != "tensors" and "checksum" not in k}
        save_file(load_file(run / name), run / name, kept)
    for name in ("result.json", "calibration.json"):
        (run / name).write_text(json.dumps(unsigned(json.loads((run / name).read_text()))))
    lines = [unsigned(json.loads(line)) for line in (run / "epochs.jsonl").read_text().splitlines()]
    (run / "epochs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = (run / "recipe.toml").read_text().splitlines(keepends=True)
    (run / "recipe.toml").write_text("".join(recipe[1:]))
    assert everything(run) == everything(whole_run.path)
    rows = open_run(run).verify()
    assert not any(row["checksum"] or row["problem"] for row in rows)
    (run / "result.json").unlink()
    assert open_run(run).resume(progress=False).result is not None


def test_a_recipe_that_was_edited_says_how_to_keep_the_change(run: Path) -> None:
    text = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(text.replace("epochs = 3", "epochs = 4"))
    assert "remove its first line" in refused(run_command("evaluate", run))
    lines = (run / "recipe.toml").read_text().splitlines(keepends=True)
    (run / "recipe.toml").write_text("".join(lines[1:]))
    assert run_command("evaluate", run)[0] == 0


@pytest.mark.parametrize("size", [2, 3])
def test_files_of_several_processes_are_compared_too(tmp_path: Path, size: int) -> None:
    path = tmp_path / "best.safetensors"
    save(path, size)
    assert verify_tensors(path)
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        file.write_bytes(flipped(content, 8 * (len(content) // 2) + 2))
        with pytest.raises(ReltuckerError, match="damaged"):
            verify_tensors(path)
        with pytest.raises(ReltuckerError, match="damaged"):
            load_tensors(path)
        file.write_bytes(content)

    class Second(Peers):
        rank, size = 1, 2

    last = sorted(tmp_path.glob("*.safetensors"))[-1]
    last.write_bytes(flipped(last.read_bytes(), 8 * last.stat().st_size - 9))
    with pytest.raises(ReltuckerError, match=last.name):
        load_tensors(path, Second(), 11)


def test_documents_and_texts_with_their_checksums() -> None:
    document = {"b": [1, 2.5, None], "a": {"x": "é"}, "7": True}
    assert unsigned(json.loads(json.dumps(signed(document)))) == document
    assert unsigned(document) == document
    text = signed_text('a = "1"\n')
    verify_text(text)
    verify_text('a = "1"\n')
    for bit in range(8 * len(text)):
        try:
            changed = flipped(text.encode(), bit).decode()
        except UnicodeDecodeError:
            continue
        is_comment = changed.startswith("#") and changed.index("\n") == text.index("\n")
        if is_comment:  # or it cannot be read at all
            with pytest.raises(ValueError, match=r"checksum|empty"):
                verify_text(changed)
    for length in range(len(text)):
        with pytest.raises(ValueError, match=r"checksum|empty"):
            verify_text(text[:length])


def test_files_of_a_run_follow_the_umask(run: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        shutil.rmtree(run / "export", ignore_errors=True)
        (run / "result.json").unlink()
        for arguments in (["resume", run], ["export", run], ["calibrate", run]):
            assert run_command(*arguments)[0] == 0
    finally:
        os.umask(before)
    written = ["best", "checkpoint"]
    files = [run / f"{name}.safetensors" for name in written]
    files += [run / "result.json", run / "epochs.jsonl", run / "calibration.json"]
    files += [path for path in (run / "export").iterdir() if not path.name.startswith(".")]
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o640"}
