"""Training as a whole: it learns, repeats itself, survives interruption, and tells of trouble."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from reltucker.errors import GraphError, RecipeError, ReltuckerError, RunError
from reltucker.graph import KnowledgeGraph
from reltucker.machine import physical_memory
from reltucker.model import CORES
from reltucker.run import open_run, train
from reltucker.training import (
    BEST,
    CHECKPOINT,
    Recipe,
    RunFolder,
    Training,
    build_model,
    check,
)
from reltucker.training.stopping import EarlyStopping
from tests.conftest import core_settings, random_graph

QUICK = [
    "model.entity_dim=8",
    "train.batch_size=64",
    "train.negatives=6",
    "train.epochs=6",
    "train.checkpoint_seconds=0",
]


def quick(*changes: str) -> Recipe:
    # A number of negatives would be refused where none are drawn.
    all_entities = any("objective=" in change for change in changes)
    kept = [s for s in QUICK if not (all_entities and s.startswith("train.negatives"))]
    return Recipe().changed([*kept, *changes])


def figures(folder: Path) -> list[dict[str, Any]]:
    """The lines of epochs.jsonl without their timings."""
    records = RunFolder(folder).epochs()
    return [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in records]


@pytest.mark.parametrize("reciprocal", ["false", "true"])
@pytest.mark.parametrize("model", sorted(CORES))
def test_training_lowers_the_loss_and_lifts_the_ranks(
    model: str, reciprocal: str, tmp_path: Path
) -> None:
    settings = [f"model.reciprocal={reciprocal}"]
    settings += ["train.entity_dropout=0", "train.mixing_dropout=0"]
    # Without valid triples the last weights count: random facts can only be learned by heart.
    graph = random_graph(0, valid=0)
    mrr = []
    for epochs in (1, 40):
        recipe = quick(*settings, f"train.epochs={epochs}")
        recipe = recipe.with_values(core_settings(model, 16))
        run = train(graph, recipe, out=tmp_path / str(epochs), progress=False)
        mrr.append(run.evaluate("train", progress=False).metrics["seen"].mrr)
    losses = [record["loss"] for record in run.epochs()]
    assert losses[-1] < 0.7 * losses[0]
    assert mrr[1] > mrr[0] + 0.2


def test_the_same_recipe_gives_the_same_figures(tmp_path: Path) -> None:
    graph = random_graph(1)
    for name in ("a", "b"):
        train(graph, quick(), out=tmp_path / name, progress=False)
    train(graph, quick("train.seed=1"), out=tmp_path / "c", progress=False)
    assert figures(tmp_path / "a") == figures(tmp_path / "b")
    assert figures(tmp_path / "a") != figures(tmp_path / "c")


class StopAfter:
    """A watcher that interrupts training in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.stop_at = epoch

    def step(self, epoch: int, done: int, total: int) -> None:
        if epoch == self.stop_at and done == 2:
            raise KeyboardInterrupt

    def epoch(self, record: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("stop", [1, 2, 5])
@pytest.mark.parametrize("model", ["drt", "complex"])
def test_a_resumed_run_equals_an_unbroken_one(stop: int, model: str, tmp_path: Path) -> None:
    graph, recipe = random_graph(2), quick(f"model.name={model}", "train.weight_decay=1e-4")
    train(graph, recipe, out=tmp_path / "unbroken", progress=False)
    folder = RunFolder.create(tmp_path / "broken", recipe, graph)
    with pytest.raises(KeyboardInterrupt):
        Training(recipe, graph, folder, StopAfter(stop)).run()
    # A line cut short by a crash must not disturb.
    with open(tmp_path / "broken" / "epochs.jsonl", "a") as file:
        file.write('{"epoch": 9, "lo')
    resumed = open_run(tmp_path / "broken").resume(progress=False)
    assert figures(tmp_path / "broken") == figures(tmp_path / "unbroken")
    for name in (BEST, CHECKPOINT):
        expected, got = (
            load_file(tmp_path / "unbroken" / name),
            load_file(tmp_path / "broken" / name),
        )
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[key], got[key]) for key in expected)
    result = resumed.result
    assert result is not None
    assert result["epochs"] == 6


COMMAND = [sys.executable, "-c", "from reltucker.cli import main; main()"]
TRAIN = [*COMMAND, "train", "families", "--json", "--epochs", "12"]
for setting in ("train.batch_size=250", "model.entity_dim=10", "train.checkpoint_seconds=0.1"):
    TRAIN += ["--set", setting]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run of its own process that nobody disturbed: its folder and what it printed."""
    path = tmp_path_factory.mktemp("unbroken") / "run"
    done = subprocess.run([*TRAIN, "--out", str(path)], capture_output=True, check=True)
    return path, json.loads(done.stdout)


@pytest.mark.xdist_group("killed")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)],
)
def test_a_killed_process_is_resumed_exactly(
    number: signal.Signals, code: int, tmp_path: Path, unbroken: tuple[Path, dict[str, Any]]
) -> None:
    path = tmp_path / "killed"
    process = subprocess.Popen([*TRAIN, "--out", str(path)], stderr=subprocess.PIPE, text=True)
    epochs = path / "epochs.jsonl"
    deadline = time.monotonic() + 240
    while not (epochs.is_file() and epochs.read_bytes().count(b"\n") >= 3):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in error
    assert (f"stopped; the run is {path}, and `reltucker resume {path}`" in error) == (code > 0)
    assert not (path / "result.json").exists()
    done = subprocess.run(
        [*COMMAND, "resume", str(path), "--json"], capture_output=True, check=True
    )
    # The best epoch so far is known from the first line on.
    assert all(b"  best " in line for line in done.stderr.splitlines() if b"valid MRR" in line)
    resumed = json.loads(done.stdout)
    folder, whole = unbroken
    for key in ("epochs", "best_epoch", "standard", "seen", "paper"):
        assert resumed[key] == whole[key]
    assert figures(path) == figures(folder)
    for name in (BEST, CHECKPOINT):
        expected, got = load_file(folder / name), load_file(path / name)
        assert all(torch.equal(expected[key], got[key]) for key in expected)
    leftovers = [p.name for p in path.iterdir() if p.name.endswith(".tmp")]
    assert len(leftovers) <= 1  # kill -9 in the middle of a write leaves its temporary file only


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    run = train(random_graph(3), quick(), out=tmp_path / "run", progress=False)
    before = {p.name: p.read_bytes() for p in run.path.iterdir()}
    run.resume(progress=False)
    assert {p.name: p.read_bytes() for p in run.path.iterdir()} == before


def test_early_stopping_waits_for_its_patience() -> None:
    stopping = EarlyStopping(patience=3)
    history = [0.1, 0.3, 0.2, 0.3, 0.1]
    stopped = []
    for epoch, mrr in enumerate(history, start=1):
        stopping.improved(epoch, mrr, density=1.0)
        stopped.append(stopping.should_stop())
    assert stopping.best_epoch == 2
    assert stopped == [False, False, False, False, True]


def test_early_stopping_ends_training_and_keeps_the_best_weights(tmp_path: Path) -> None:
    recipe = quick("train.epochs=200", "train.patience=2", "train.learning_rate=0.5")
    run = train(random_graph(4), recipe, out=tmp_path / "run", progress=False)
    result = run.result
    assert result is not None
    assert result["epochs"] == result["best_epoch"] + 2 < 200
    best = run.epochs()[result["best_epoch"] - 1]
    assert best["best"]
    assert run.evaluate("valid", progress=False).to_dict()["seen"] == best["valid"]["seen"]


def test_without_valid_triples_all_epochs_are_run(tmp_path: Path) -> None:
    run = train(random_graph(5, valid=0), quick(), out=tmp_path / "run", progress=False)
    result = run.result
    assert result is not None
    assert (result["epochs"], result["best_epoch"]) == (6, 6)
    if sys.platform in ("linux", "darwin"):
        # Python with torch, and not more than there is.
        assert 50 << 20 < result["peak_memory_bytes"] <= physical_memory()
    assert run.evaluate(progress=False).metrics["standard"].queries > 0


def test_no_training_triples_are_refused(tmp_path: Path) -> None:
    graph = random_graph(6)
    empty = KnowledgeGraph(
        "empty",
        graph.entities,
        graph.relations,
        np.empty((0, 3), dtype=np.int32),
        graph.valid,
        graph.test,
        0,
        0,
    )
    with pytest.raises(GraphError, match="no training triples"):
        train(empty, quick(), out=tmp_path / "run", progress=False)


def test_divergence_is_told_in_one_sentence(tmp_path: Path) -> None:
    recipe = quick("train.learning_rate=1e30")
    with pytest.raises(RunError, match=r"diverged in epoch 1:.*lower train\.learning_rate"):
        train(random_graph(7), recipe, out=tmp_path / "run", progress=False)


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    graph = random_graph(8)
    train(graph, quick("train.epochs=1"), out=tmp_path / "run", progress=False)
    with pytest.raises(RunError, match=r"holds a run already; resume it"):
        train(graph, quick(), out=tmp_path / "run", progress=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="is a file"):
        train(graph, quick(), out=tmp_path / "file", progress=False)


def test_impossible_sizes_leave_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ReltuckerError, match="even"):
        train(
            random_graph(9),
            quick("model.name=complex", "model.entity_dim=7"),
            out=tmp_path / "run",
            progress=False,
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["best.safetensors", "triples.safetensors", "entities.parquet"])
@pytest.mark.parametrize("damage", ["cut", "noise", "missing"])
def test_a_damaged_file_is_named(name: str, damage: str, tmp_path: Path) -> None:
    run = train(random_graph(10), quick("train.epochs=1"), out=tmp_path / "run", progress=False)
    path = run.path / name
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "noise":
        path.write_bytes(os.urandom(len(content)))
    else:
        path.unlink()
    with pytest.raises(ReltuckerError, match=name):
        open_run(run.path).evaluate(progress=False)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    graph = random_graph(11)
    small = train(graph, quick("train.epochs=1"), out=tmp_path / "a", progress=False)
    large = train(
        graph, quick("train.epochs=1", "model.entity_dim=10"), out=tmp_path / "b", progress=False
    )
    (small.path / BEST).write_bytes((large.path / BEST).read_bytes())
    with pytest.raises(RunError, match=r"best\.safetensors does not fit"):
        open_run(small.path).evaluate(progress=False)
    (small.path / "result.json").unlink()
    (small.path / CHECKPOINT).write_bytes((large.path / CHECKPOINT).read_bytes())
    with pytest.raises(RunError, match=r"checkpoint\.safetensors does not fit"):
        open_run(small.path).resume(progress=False)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        open_run(tmp_path)


def test_a_run_is_used_on_the_device_of_its_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(random_graph(1), quick("train.device=cpu"), out=tmp_path / "run", progress=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # auto would take it
    assert open_run(tmp_path / "run").model.E.device.type == "cpu"


def test_the_memory_check_counts_the_copy_of_entities_after_dropout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_graph(1)
    plain = quick("train.objective=k_vs_all", "train.entity_dropout=0", "model.name=distmult")
    with torch.device("meta"):
        model = build_model(plain, len(graph.entities), len(graph.relations))
    limit = 4 * 4 * sum(p.numel() for p in model.parameters())
    monkeypatch.setattr("reltucker.training.setup.physical_memory", lambda: limit)
    check(plain, graph)
    with pytest.raises(RecipeError, match="training would need about"):
        check(plain.changed(["train.entity_dropout=0.3"]), graph)
