"""The measurements still run; what they say is not looked at here."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import benchmarks
from benchmarks import epoch, objectives, own_graphs, sparsity
from benchmarks.steps import StepTimer
from reltucker import Recipe
from tests.conftest import disjoint, random_graph, write_graph

MODULES = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("name", [name for name in MODULES if name != "pykeen_peer"])
def test_every_module_can_be_imported(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", list(objectives.OBJECTIVES))
def test_steps_of_every_objective_are_timed(name: str) -> None:
    changes = {**objectives.COMMON, **objectives.OBJECTIVES[name], "model.entity_dim": 4}
    if "train.negatives" in changes:
        changes["train.negatives"] = 5
    timer = StepTimer(random_graph(1), Recipe().with_values({**changes, "train.batch_size": 20}))
    assert len(timer.steps(2)) == 2
    assert objectives.necessary_operations(timer) > 0


def test_operations_of_an_epoch_are_counted() -> None:
    graph = random_graph(1)
    for name in ("complex", "drt", "rescal"):
        recipe = Recipe().with_values({"model.name": name, "model.entity_dim": 4})
        assert epoch.necessary_operations(recipe, graph) > 0


def test_a_sparse_core_is_made_as_sparse_as_asked() -> None:
    sizes = {"model.entity_dim": 8, "model.relation_dim": 4, "train.batch_size": 20}
    timer = sparsity._srt(random_graph(1), {**sizes, "train.negatives": 5}, 0.01)
    core = timer.training.model.core
    assert core.held.is_sparse
    assert len(core.values) == round(0.01 * 8 * 8 * 4)


def test_presets_are_measured_on_a_folder_of_graphs(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    write_graph(disjoint(random_graph(3)), graphs / "mine")
    ((name, source),) = own_graphs.graphs_of(graphs, built_in=False)
    out = tmp_path / "mine.json"
    out.write_text('{"search": {"seconds": 1}}')
    own_graphs.measure(name, source, ["fast"], None, tmp_path)
    found = json.loads(out.read_text())
    assert found["search"] == {"seconds": 1}
    assert found["fast"]["model"] == "complex"
    assert 0.0 < found["fast"]["test"]["standard"]["mrr"] <= 1.0
    assert found["sizes"]["train_triples"] == found["sizes"]["triples"]


def test_a_subset_is_split_such_that_train_has_every_entity() -> None:
    graph = random_graph(0, entities=40, train=400)
    train, valid, test = own_graphs.subset(graph, 30, 4, 250)
    known = set(train[:, [0, 2]].ravel().tolist())
    held_out = np.concatenate([valid, test])
    assert len(valid) == len(test) > 0
    assert set(held_out[:, [0, 2]].ravel().tolist()) <= known
    assert len(known) <= 30
    together = np.concatenate([train, held_out])
    assert len(np.unique(together, axis=0)) == len(together) <= 250
