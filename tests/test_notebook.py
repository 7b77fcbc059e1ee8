"""What a notebook shows: cheap, escaped, and never a training or a ranking."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reltucker
from reltucker import Recipe, Run, open_run, train
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import CORES, RelationalTucker
from reltucker.report.notebook import bars, card, curve, matrix_picture
from tests.conftest import build_core, random_graph

HOSTILE = "<script>alert(1)</script>\x1b[31m&\"'"


class Tags(HTMLParser):
    """Every tag must be closed, and none be a script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag != "script"
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    graph = random_graph(0)
    names = [HOSTILE, *graph.relations.names[1:]]
    graph = replace(graph, name=HOSTILE, relations=Vocabulary(names, kind="relation"))
    settings = {"model.entity_dim": 4, "train.epochs": 3, "train.negatives": 4}
    out = tmp_path_factory.mktemp("runs") / "<b>run"
    return train(graph, Recipe().with_values(settings), out=out, progress=False)


def shown(thing: Any) -> str:
    assert "\x1b" not in repr(thing)
    html = thing._repr_html_()
    assert "\x1b" not in html
    return Tags(html).text


def test_graph(run: Run) -> None:
    graph = run.graph
    text = shown(graph)
    assert "<script>" in text  # as text
    assert f"{len(graph.train):,}" in text
    assert repr(graph).endswith(
        f"entities=33, relations=4, train={len(graph.train)}, valid={len(graph.valid)}, "
        f"test={len(graph.test)})"
    )
    assert repr(graph.entities) == "Vocabulary(33 of kind entity: 'e0', 'e1', 'e2', ...)"


def test_a_large_graph_is_shown_without_a_look_at_its_triples() -> None:
    class Untouched(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            raise AssertionError("a triple was read")

    large = np.broadcast_to(np.zeros(3, dtype=np.int32), (10**9, 3)).view(Untouched)
    names = Vocabulary(["a", "b"])
    graph = KnowledgeGraph("large", names, names, large, large, large, 2, 2)
    assert "1,000,000,000" in shown(graph)


def test_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_run(run.path)
    text = shown(opened)
    assert "validation MRR by epoch" in text
    assert "of 3, validation MRR" in repr(opened)
    assert not {"graph", "model"} & opened.__dict__.keys()  # nothing large was read


def test_a_run_that_is_damaged_or_has_not_ended_is_shown(run: Run, tmp_path: Path) -> None:
    graph = random_graph(0)
    folder = reltucker.run.RunFolder.create(tmp_path / "run", Recipe(), graph)
    opened = open_run(folder.path)
    assert "not ended, 0 of 200 epochs" in repr(opened)
    shown(opened)
    for content in ("[]", "{", "{}", '{"seen": 1}'):
        (folder.path / "result.json").write_text(content)
        assert "cannot be read" in repr(opened)
        shown(opened)


def test_recipe() -> None:
    recipe = Recipe().with_values({"train.epochs": 7, "graph.source": HOSTILE})
    text = shown(recipe)
    assert "train.epochs" in text.partition("[recipe]")[0]
    assert "learning_rate" not in text.partition("[recipe]")[0]
    assert repr(Recipe().with_values({"train.epochs": 7})) == "Recipe(train.epochs=7)"


def test_evaluation(run: Run) -> None:
    found = run.evaluate("valid", by="relation", progress=False)
    text = shown(found)
    assert f"{found.metrics['paper'].mrr:.4f}" in text
    assert "4 of 4" in text
    assert repr(found).startswith("Evaluation(drt on valid, protocol seen: MRR 0.")


@pytest.mark.parametrize("name", sorted(CORES))
def test_model(name: str) -> None:
    model = RelationalTucker(6, 3, build_core(name, 4, 3), reciprocal=True, batch_norm=True)
    model.reset(torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    text = shown(model)
    assert torch.equal(before, torch.random.get_rng_state())
    assert f"{sum(p.numel() for p in model.parameters()):,}" in text
    assert "<img" in model._repr_html_()
    assert "entities=6, relations=3, reciprocal=True" in repr(model)
    assert model.training


def test_a_large_model_is_shown_without_a_picture() -> None:
    with torch.device("meta"):
        model = RelationalTucker(10**8, 3, build_core("drt", 1_000, 1_000))
    assert "<img" not in model._repr_html_()


def test_pictures_of_nothing() -> None:
    assert curve([0.5]) is None
    assert curve([0.5, float("nan")]) is None
    assert bars({}) is None
    assert matrix_picture(np.array([[np.nan]])) is None
    assert "None" not in card("t", {"a": 1}, curve([]))
    assert matrix_picture(np.eye(200)) is not None


def test_the_module_lists_its_public_names() -> None:
    assert set(dir(reltucker)) == {*reltucker.__all__, "__version__"}
    for name in dir(reltucker):
        assert getattr(reltucker, name) is not None
    assert (Path(reltucker.__file__).parent / "py.typed").is_file()
