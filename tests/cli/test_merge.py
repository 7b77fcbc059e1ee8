"""`reltucker merge` as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import SETTINGS, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs in it."""
    path = tmp_path_factory.mktemp("merge")
    for name in ("drt", "complex"):
        run("train", "families", *SETTINGS, "--model", name, "--out", name, cwd=path)
    return path


def test_merge_prints_weights_and_what_comes_next(folder: Path) -> None:
    done = run("merge", "drt", "complex", "--out", "both", cwd=folder)
    assert "weight" in done.stdout
    assert "a merge of 2 runs" in done.stdout
    assert "next: reltucker evaluate both" in done.stdout
    figures = json.loads(run("evaluate", "both", "--json", cwd=folder).stdout)
    assert (figures["model"], figures["entity_dim"]) == ("merged", 16)
    described = run("describe-model", "both", cwd=folder).stdout
    assert "model merged" in described
    assert "which has ended" in run("resume", "both", cwd=folder).stdout
    assert json.loads(run("resume", "both", "--json", cwd=folder).stdout)["run"] == "both"


def test_weights_can_be_given_and_json_is_one_document(folder: Path) -> None:
    options = ["--weights", "0.6,0.4", "--out", "weighted", "--json"]
    document = json.loads(run("merge", "drt", "complex", *options, cwd=folder).stdout)
    assert [(part["run"], part["weight"]) for part in document["parts"]] == [
        ("drt", 0.6),
        ("complex", 0.4),
    ]
    assert document["seen"]["queries"] > 0


def test_mistakes_are_one_sentence(folder: Path) -> None:
    for words, message in (
        (["drt", "--out", "x"], "at least two run folders"),
        (["drt", "complex"], "--out"),
        (["drt", "complex", "--out", "drt"], "holds a run already"),
        (["drt", "complex", "--weights", "a,b", "--out", "x"], "'a,b' is not a list of numbers"),
        (["drt", "complex", "--weights", "1", "--out", "x"], "one for each of the 2 runs"),
    ):
        error = run("merge", *words, cwd=folder, code=2).stderr
        assert message in error
        assert len(error.splitlines()) == 1
    done = run("train", "families", "--model", "merged", cwd=folder, code=2)
    assert "core.parts is missing" in done.stderr
    assert not (folder / "x").exists()
