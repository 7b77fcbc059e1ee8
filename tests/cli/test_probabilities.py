"""`score`, `calibrate`, `evaluate --classify`, and what `predict` says about a whole triple."""

import json
from pathlib import Path

import polars as pl
import pytest

from reltucker.run import train
from reltucker.training import Recipe
from tests.cli.test_commands import run
from tests.conftest import random_graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    recipe = Recipe().changed(["model.entity_dim=6", "train.epochs=1", "train.batch_size=50"])
    train(random_graph(0), recipe, out=path / "run", progress=False)
    (path / "triples.tsv").write_text("e1\tr0\te2\ne31\tr0\te2\n")
    return path


def test_score_shows_or_writes_a_row_for_each_triple(folder: Path) -> None:
    rows = json.loads(run("score", "run", "triples.tsv", "--json", cwd=folder).stdout)
    assert list(rows[0]) == [
        "subject",
        "relation",
        "object",
        "score",
        "probability",
        "object_rank",
        "subject_rank",
        "known",
    ]
    assert rows[1]["score"] is None
    shown = run("score", "run", "triples.tsv", cwd=folder).stdout
    assert "rank as object" in shown
    assert "among 30 entities" in shown
    written = run("score", "run", "triples.tsv", "--out", "out.csv", cwd=folder).stdout
    assert written == "wrote 2 triples with scores to out.csv\n"
    assert pl.read_csv(folder / "out.csv").to_dicts() == rows


def test_a_question_with_nothing_open_scores_the_triple(folder: Path) -> None:
    (row,) = json.loads(run("predict", "run", "e1", "r0", "e2", "--json", cwd=folder).stdout)
    assert row == json.loads(run("score", "run", "triples.tsv", "--json", cwd=folder).stdout)[0]
    assert "rank as subject" in run("predict", "run", "e1", "r0", "e2", cwd=folder).stdout


def test_mistakes_are_told_in_one_sentence(folder: Path) -> None:
    done = run("predict", "run", "e1", "r0", "e2x", cwd=folder, code=2)
    assert "no entity is called 'e2x'; did you mean 'e2'" in done.stderr
    done = run("score", "run", "none.tsv", cwd=folder, code=2)
    assert "none.tsv does not exist" in done.stderr
    done = run("score", "run", "triples.tsv", "--out", "x.xls", cwd=folder, code=2)
    assert "must end with" in done.stderr


def test_probabilities_are_shown_where_there_are_any(folder: Path) -> None:
    words = ("predict", "run", "e1", "r0", "?")
    assert "probability" in run(*words, cwd=folder).stdout
    (folder / "run" / "calibration.json").rename(folder / "kept.json")
    assert "probability" not in run(*words, cwd=folder).stdout
    done = run("evaluate", "run", "--classify", cwd=folder, code=2)
    assert "`reltucker calibrate run` makes them" in done.stderr

    figures = json.loads(run("calibrate", "run", "--json", cwd=folder).stdout)
    assert figures["reliability"]["brier"] > 0
    assert [Path(name).suffix for name in figures["pictures"]] == [".png", ".svg"]
    assert all((folder / name).is_file() for name in figures["pictures"])
    assert json.loads((folder / "kept.json").read_text()) == json.loads(
        (folder / "run" / "calibration.json").read_text()
    )
    assert "expected calibration error" in run("calibrate", "run", cwd=folder).stdout


def test_evaluate_classifies(folder: Path) -> None:
    figures = json.loads(run("evaluate", "run", "--classify", "--json", cwd=folder).stdout)
    assert figures["classification"]["decisions"] > 50
    assert "recall" in run("evaluate", "run", "--classify", cwd=folder).stdout
    assert "recall" not in run("evaluate", "run", cwd=folder).stdout
