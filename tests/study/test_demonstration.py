"""The demonstration, shortened: the same comparison as `compare`, on a page of its own."""

import json
from pathlib import Path

import pytest

from reltucker.errors import RunError
from reltucker.study import demonstration
from reltucker.study.demonstration import demonstrate, questions_to_try


def test_the_demo_compares_its_runs_and_answers_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"model.name": "distmult", "train.epochs": 2}
    sizes = {name: {**quick, "model.entity_dim": size} for name, size in (("a", 4), ("b", 8))}
    monkeypatch.setattr(demonstration, "RUNS", sizes)
    said: list[str] = []
    best, tables = demonstrate(tmp_path / "demo", say=said.append, progress=False)
    assert said == ["families: 442 entities, 20 relations, 7947 training triples"]
    figures, differences, predictions = tables
    expected = best.evaluate(progress=False).to_dict()
    row = next(row for row in figures.rows if row["run"] == best.path.name)
    assert row["mrr"] == pytest.approx(expected["seen"]["mrr"])
    assert row["valid_mrr"] == max(row["valid_mrr"] for row in figures.rows)  # type: ignore[type-var]
    assert all(row["seconds"] for row in figures.rows)
    assert len(differences.rows) == 1
    assert [row["truth"] is not None for row in predictions.rows] == [True] * 6
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
