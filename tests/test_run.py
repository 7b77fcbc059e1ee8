"""The Python interface: what it takes, and what it says of what it does not take."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import reltucker
from reltucker import KnowledgeGraph, Recipe, ReltuckerError, Run, load_graph, open_run, train
from tests.conftest import random_graph


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    recipe = Recipe().with_values(
        {"model.name": "distmult", "model.entity_dim": 4, "train.epochs": 1, "train.negatives": 4}
    )
    out = tmp_path_factory.mktemp("runs") / "run"
    return train(random_graph(0), recipe, out=out, progress=False)


WRONG: list[tuple[str, Callable[[Run, KnowledgeGraph], Any]]] = [
    ("split = 'tset': choose .* did you mean 'test'", lambda r, g: r.evaluate("tset")),
    ("split = None is of type NoneType", lambda r, g: r.evaluate(None)),
    ("by = 'relations': choose .* mean 'relation'", lambda r, g: r.evaluate(by="relations")),
    ("sample = 0: ask for at least one", lambda r, g: r.evaluate(sample=0)),
    ("sample = '9' is of type str; give a whole", lambda r, g: r.evaluate(sample="9")),
    ("progress = 'no' is of type str", lambda r, g: r.evaluate(progress="no")),
    ("split = 'vald': .* mean 'valid'", lambda r, g: r.calibrate("vald")),
    ("split = 'dev': choose", lambda r, g: g.split("dev")),
    (
        "subject = .'e1', 'e2'. is of type list; .*predict_many",
        lambda r, g: r.predict(["e1", "e2"]),
    ),
    ("relation = 3 is of type int; give a string", lambda r, g: r.predict("e1", 3)),
    ("ask for exactly one", lambda r, g: r.predict("e1")),
    ("top = 0: ask for at least one answer", lambda r, g: r.predict("e1", "r1", top=0)),
    ("top = 1.5 is of type float", lambda r, g: r.predict("e1", "r1", top=1.5)),
    ("among = 'e1' is of type str; give a list", lambda r, g: r.predict("e1", "r1", among="e1")),
    (r"among\[0\] = 5 is of type int", lambda r, g: r.predict("e1", "r1", among=[5])),
    ("where = 'r1=e1' is of type str", lambda r, g: r.predict("e1", "r1", where="r1=e1")),
    ("question 2: give .subject", lambda r, g: r.predict_many([("e1", "r1", "?"), "e1"])),
    ("question 1: give .subject", lambda r, g: r.predict_many([("e1", "r1")])),
    ("question 1: the subject '7' is of type int", lambda r, g: r.predict_many([(7, "r1", "?")])),
    ("question 1: no entity is called", lambda r, g: r.predict_many([("x", "r1", None)])),
    ("questions = 5 is of type int", lambda r, g: r.predict_many(5)),
    ("columns", lambda r, g: r.predict_many(pl.DataFrame({"a": ["e1"], "b": ["e2"]}))),
    ("nothing.tsv does not exist", lambda r, g: r.predict_many("nothing.tsv")),
    ("triples = None is of type NoneType", lambda r, g: r.score(None)),
    ("row 1: no entity", lambda r, g: r.score([("x", "r1", "e1")])),
    ("relations = 'r1' is of type str", lambda r, g: r.discover(relations="r1")),
    ("min_probability = 2: give", lambda r, g: r.discover(min_probability=2)),
    ("name = .'e1'. is of type list", lambda r, g: r.similar(["e1"])),
    ("kind = 'entities': .* mean 'entity'", lambda r, g: r.similar("e1", "entities")),
    ("by = 'rows': choose 'queries' or", lambda r, g: r.duplicates(by="rows")),
    ("least = 'most' is of type str", lambda r, g: r.duplicates(least="most")),
    ("least 3: give a share", lambda r, g: r.relation_links(least=3)),
    ("subject = 1 is of type int", lambda r, g: r.why(1, "r1", "e1")),
    ("top = 0: ask for at least one part", lambda r, g: r.why("e1", "r1", "e2", top=0)),
    ("out = None is of type NoneType", lambda r, g: r.add([("n", "r1", "e1")], out=None)),
    (r"formats\[0\] = 'csv': choose", lambda r, g: r.export("x", ["csv"])),
    ("formats = 'parquet' is of type str", lambda r, g: r.export("x", "parquet")),
    ("of = 'entity': .*mean 'entities'", lambda r, g: r.embeddings().frame("entity")),
    ("recipe = {.* is of type dict; .*Recipe.of", lambda r, g: train(g, {"train": {"epochs": 2}})),
    ("settings: there is no setting", lambda r, g: train(g, settings={"train.epoch": 3})),
    ("settings: train.epochs = 'x'", lambda r, g: train(g, settings={"train.epochs": "x"})),
    ("settings = .'train.epochs=3'", lambda r, g: train(g, settings=["train.epochs=3"])),
    ("preset = 'godo': .* mean 'good'", lambda r, g: train(g, preset="godo")),
    ("start = 5 is of type int", lambda r, g: train(g, start=5)),
    ("holds a run already.*another folder", lambda r, g: train(g, r.recipe, out=r.path)),
    ("source = 5 is of type int", lambda r, g: load_graph(5)),
    ("seed = 'a' is of type str", lambda r, g: load_graph("families", seed="a")),
    ("runs = 'a' is of type str; give a list", lambda r, g: reltucker.merge("a", "b")),
    ("path = 5 is of type int", lambda r, g: open_run(5)),
    ("is not a run folder", lambda r, g: open_run("nowhere")),
    ("there is no model 'x'", lambda r, g: Recipe(model={"name": "x"})),
    ("recipe: a list is no recipe", lambda r, g: Recipe.of([])),
    ("preset = 'godo'", lambda r, g: Recipe.preset("godo")),
    (
        "settings train.epochs: write it as KEY=VALUE",
        lambda r, g: Recipe().changed(["train.epochs"]),
    ),
    ("changes = 'train.epochs=3'", lambda r, g: Recipe().with_values("train.epochs=3")),
    ("mean 'train'", lambda r, g: Recipe().with_values({"trian.epochs": 3})),
]


@pytest.mark.parametrize(("said", "call"), WRONG, ids=[said for said, _ in WRONG])
def test_a_wrong_argument_is_one_sentence_in_the_words_of_python(
    said: str, call: Callable[[Run, KnowledgeGraph], Any], run: Run
) -> None:
    with pytest.raises(ReltuckerError, match=said) as caught:
        call(run, run.graph)
    text = str(caught.value)
    assert "\n" not in text
    assert "--" not in text
    assert len(text) < 400


def test_arguments_of_numpy_and_frames_are_taken(run: Run) -> None:
    names = pl.Series(["e1", "e2"])
    assert len(run.predict("e0", "r1", top=np.int64(1), among=names)) == 1
    assert len(run.discover(3, relations=pl.Series(["r1"]), progress=False)) <= 3
    assert run.evaluate(sample=np.int32(5), progress=False).metrics["seen"].queries <= 10


def test_questions_come_as_rows_frames_or_a_file(run: Run, tmp_path: Path) -> None:
    rows = [("e1", "r1", "?"), ("?", "r2", "e3")]
    expected = run.predict_many(rows, top=3, progress=False)
    columns = {"subject": ["e1", None], "relation": ["r1", "r2"], "object": [None, "e3"]}
    polars, pandas = pl.DataFrame(columns), pd.DataFrame(columns)
    file = tmp_path / "questions.tsv"
    pl.DataFrame(rows, orient="row").write_csv(file, separator="\t", include_header=False)
    for questions in (iter(rows), np.array(rows), polars, pandas, file, str(file)):
        assert run.predict_many(questions, top=3, progress=False).equals(expected)
    asked = run.predict_many(polars[:1].drop("object").with_columns(note=1.5), top=3)
    assert asked.equals(expected.filter(pl.col("question") == 1))


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("name", ["distmult", "drt", "srt"])
def test_embeddings_give_the_scores(name: str, batch_norm: bool, tmp_path: Path) -> None:
    settings = {"model.name": name, "model.entity_dim": 4, "train.epochs": 1, "train.negatives": 4}
    settings |= {"model.reciprocal": batch_norm, "model.batch_norm": batch_norm}
    made = train(
        random_graph(0),
        Recipe().with_values(settings),
        out=tmp_path / "run",
        progress=False,
    )
    found = made.embeddings()
    G = found.core.get("G")
    if G is None:
        G = np.zeros((*[found.entities.shape[1]] * 2, found.relations.shape[1]))
        G[tuple(found.core[place] for place in "ijl")] = found.core["value"]
    i, k, j = made.graph.train[:20].T
    factors = found.entities[i], found.entities[j], found.relations[k]
    scores = np.einsum("abl,na,nb,nl->n", G, *factors)
    expected = made.model.score(torch.from_numpy(made.graph.train[:20]).long()).numpy()
    assert np.allclose(scores, expected, atol=1e-5)
    frame = found.frame("relations")
    assert frame["name"].to_list() == ["r0", "r1", "r2", "r3"]
    assert np.array_equal(frame["embedding"].to_numpy(), found.relations)
    assert (found.inverse_relations is not None) == batch_norm
    with pytest.raises(ValueError, match="read-only"):
        found.entities[0] = 0.0


def test_the_example_with_torch_does_what_it_says(run: Run) -> None:
    page = Path(__file__).parents[1] / "docs" / "python.md"
    (example,) = re.findall(
        r"```python\n(import copy\n.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    before = run.model.E.clone()
    names: dict[str, Any] = {"run": run}
    exec(example, names)
    assert names["scores"].shape == (100,)
    assert not torch.equal(names["model"].E, before)
    assert torch.equal(run.model.E, before)
