"""The demonstration, shortened: the same comparison as `compare`, on a page of its own."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from reltucker.errors import RunError
from reltucker.graph.families import families
from reltucker.study import demonstration
from reltucker.study.demonstration import (
    _sparse_lines,
    demonstrate,
    first_of_frequent,
    held_out_predictions,
    questions_to_try,
)


def test_the_demo_compares_its_runs_and_answers_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"model.name": "distmult", "train.epochs": 2}
    sizes = {name: {**quick, "model.entity_dim": size} for name, size in (("a", 4), ("b", 8))}
    monkeypatch.setattr(demonstration, "RUNS", sizes)
    said: list[str] = []
    best, tables = demonstrate(tmp_path / "demo", say=said.append, progress=False)
    assert said == ["families: 442 entities, 20 relations, 7947 training triples"]
    figures, _, differences, predictions = tables
    expected = best.evaluate(progress=False).to_dict()
    row = next(row for row in figures.rows if row["run"] == best.path.name)
    assert row["mrr"] == pytest.approx(expected["seen"]["mrr"])
    assert row["valid_mrr"] == max(row["valid_mrr"] for row in figures.rows)  # type: ignore[type-var]
    assert all(row["seconds"] for row in figures.rows)
    assert len(differences.rows) == 1
    assert [row["truth"] is not None for row in predictions.rows] == [True] * 6
    assert max(row["parameter_share"] for row in figures.rows) == 1.0
    page = (tmp_path / "demo" / "report.html").read_text("utf-8")
    for heading in ("Training", "Predictions", "Mixing matrices", "Relation by relation", "Cost"):
        assert f">{heading}</h2>" in page
    pictures = {path.name for path in (tmp_path / "demo" / "pictures").glob("*.png")}
    assert {"best.png", "training.png", "mixing-a-mother.png", "mixing-b-parent.png"} <= pictures
    document = json.loads((tmp_path / "demo" / "comparison.json").read_text())
    assert set(document["tables"]) >= {"best", "differences", "predictions", "relations", "cost"}

    asked = questions_to_try(best)
    assert [set(question) for question in asked] == [
        {"subject", "relation"},
        {"relation", "object"},
        {"subject", "object"},
    ]
    assert all(len(best.predict(**question, held_out=True)) == 10 for question in asked)

    # A folder that is not of this demo is left alone; one that is, made anew.
    demonstrate(tmp_path / "demo", say=said.append, progress=False)
    monkeypatch.setattr(demonstration, "RUNS", {"a": {**sizes["a"], "train.epochs": 1}})
    with pytest.raises(RunError, match="is not a run of the demo"):
        demonstrate(tmp_path / "demo", say=said.append, progress=False)


class Perfect:
    """A run on the built-in graph that finds every held-out fact but those of `missed`."""

    graph = families()

    def __init__(self, *missed: str) -> None:
        self.missed = missed

    def predict_many(self, questions: list[tuple[str, str, str]], **_: Any) -> pl.DataFrame:
        order = [*first_of_frequent(self.graph), *range(len(self.graph.test))]
        truths = self.graph.named(self.graph.test[order])["object"]
        asked = enumerate(zip(questions, truths, strict=True), start=1)
        rows = [(n, "nobody" if q[1] in self.missed else truth) for n, (q, truth) in asked]
        return pl.DataFrame(rows, ["question", "label"], orient="row")


def test_a_miss_is_among_the_shown_answers() -> None:
    most = held_out_predictions(Perfect("works_as"), "DRT").rows
    assert [row["found"] for row in most] == [True] * 6 + [False]
    assert "works_as" in str(most[-1]["question"])
    assert [row["found"] for row in held_out_predictions(Perfect("child"), "DRT").rows].count(
        False
    ) == 1
    assert all(row["found"] for row in held_out_predictions(Perfect(), "DRT").rows)


def test_what_is_sparse_says_what_it_is_for() -> None:
    dense = {"run": "d", "model": "DRT", "core_density": 1.0, "effective_parameters": 100}
    sparse = {"run": "s", "model": "SRT", "core_density": 0.25, "effective_parameters": 40}
    rows = [{**dense, "mrr": 0.8}, {**sparse, "mrr": 0.6}]
    (line,) = _sparse_lines(rows, {"s"})
    assert "25% of them" in line
    assert "40% of the parameters of DRT for 75% of its MRR" in line
    assert _sparse_lines(rows, set()) == []
