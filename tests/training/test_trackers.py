"""Who looks on while a model is trained: told everything, and without any say."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reltucker import Callback, Recipe, open_run, train
from reltucker.errors import RecipeError
from reltucker.training import RunFolder, Training
from reltucker.training.trackers import MLflow, TensorBoard, TrackerWarning, WeightsAndBiases
from tests.conftest import random_graph
from tests.distributed.threads import together
from tests.training.test_training import StopAfter, figures, quick

RECORD = {"epoch": 1, "loss": 2.0, "best": True, "valid": {"seen": {"mrr": 0.5, "hits@10": 0.75}}}
RESULT = {"best_epoch": 3, "epochs": 3, "seen": {"mrr": 0.6}}


def record(epoch: int) -> dict[str, Any]:
    return {**RECORD, "epoch": epoch, "loss": 1.0 / epoch}


def interrupted_and_resumed(kind: type[Callback], folder: Path) -> None:
    """Three epochs, stopped after the second one, of which no checkpoint was left."""
    folder.mkdir()
    first, second = kind(), kind()
    first.begin(folder, Recipe(), 0)
    for epoch in (1, 2):
        first.epoch(record(epoch))
    first.end(None)
    second.begin(folder, Recipe(), 1)
    for epoch in (2, 3):
        second.epoch(record(epoch))
    second.end(RESULT)


class Listener(Callback):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def begin(self, run: Path, recipe: Recipe, epoch: int) -> None:
        self.heard.append(("begin", run.name, recipe.model.entity_dim, epoch))

    def epoch(self, record: dict[str, Any]) -> None:
        self.heard.append(record["epoch"])
        record.clear()  # which must not be felt

    def end(self, result: dict[str, Any] | None) -> None:
        self.heard.append(result and result["epochs"])


class Failing(Callback):
    told = 0

    def epoch(self, record: dict[str, Any]) -> None:
        self.told += 1
        raise OSError("the server\nis gone")


def test_callbacks_hear_of_everything_and_change_nothing(tmp_path: Path) -> None:
    graph, recipe = random_graph(1), quick("train.epochs=3")
    train(graph, recipe, out=tmp_path / "plain", progress=False)
    listener, failing = Listener(), Failing()
    with pytest.warns(TrackerWarning, match="Failing failed .*: the server is gone") as warned:
        train(graph, recipe, out=tmp_path / "told", callbacks=[failing, listener], progress=False)
    assert len(warned) == failing.told == 1
    assert listener.heard == [("begin", "told", 8, 0), 1, 2, 3, 3]
    assert figures(tmp_path / "plain") == figures(tmp_path / "told")


def test_a_resumed_run_is_told_where_it_goes_on(tmp_path: Path) -> None:
    graph, recipe = random_graph(1), quick("train.epochs=3")
    folder, listener = RunFolder.create(tmp_path / "run", recipe, graph), Listener()
    with pytest.raises(KeyboardInterrupt):
        Training(recipe, graph, folder, StopAfter(2), callbacks=[listener]).run()
    open_run(tmp_path / "run").resume(callbacks=[listener], progress=False)
    assert listener.heard == [("begin", "run", 8, 0), 1, None, ("begin", "run", 8, 1), 2, 3, 3]


def test_of_several_processes_the_first_one_tells(tmp_path: Path) -> None:
    recipe, graph = quick(), random_graph(1)

    def told(peers: Any) -> int:
        training = Training(recipe, graph, RunFolder(tmp_path), None, peers, [Listener()])
        return len(training.callbacks._told)

    assert together(2, told) == [1, 0]


def test_trackers_are_named_in_a_recipe_and_decide_nothing() -> None:
    recipe = Recipe().changed(["train.trackers=tensorboard, mlflow,mlflow"])
    assert recipe.train.trackers == ["tensorboard", "mlflow"]
    assert recipe.gives_same(Recipe())
    assert not recipe.gives_same(recipe.with_values({"train.seed": 1}))
    assert recipe == Recipe.of({"train": {"trackers": ["tensorboard", "mlflow"]}})
    with pytest.raises(RecipeError, match="'tensorboard', 'mlflow' or 'wandb'"):
        Recipe().changed(["train.trackers=tensorbord"])


def test_a_missing_package_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    recipe = quick("train.trackers=wandb")
    with pytest.raises(RecipeError, match=r"pip install 'reltucker\[wandb\]'"):
        train(random_graph(1), recipe, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_tensorboard_has_every_epoch_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    interrupted_and_resumed(TensorBoard, tmp_path / "run")
    found = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    losses = [(event.step, event.value) for event in found.Scalars("loss")]
    assert losses == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert [e.value for e in found.Scalars("valid/seen/hits_at_10")] == [0.75] * 3
    assert [e.step for e in found.Scalars("final/seen/mrr")] == [3]
    assert "epoch" not in found.Tags()["scalars"]


def test_mlflow_goes_on_with_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    # A store of files: the tables of a database take seconds to make.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "tried")
    interrupted_and_resumed(MLflow, tmp_path / "run")
    client = mlflow.tracking.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("tried").experiment_id])
    losses = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")]
    assert losses == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert run.data.params["model.name"] == "drt"
    assert run.data.metrics["final/seen/mrr"] == 0.6
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")


def test_weights_and_biases_is_asked_as_it_wants_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is large, so a module with its functions stands in."""
    calls: list[tuple[str, Any]] = []

    class FakeRun:
        summary: dict[str, float] = {}  # noqa: RUF012

        def log(self, values: dict[str, float], step: int) -> None:
            calls.append(("log", (step, values["valid/seen/mrr"])))

        def finish(self, exit_code: int) -> None:
            calls.append(("finish", exit_code))

    def init(**options: Any) -> FakeRun:
        assert (options["resume"], options["name"]) == ("allow", "run")
        assert options["config"]["model.name"] == "drt"
        calls.append(("init", options["id"]))
        return FakeRun()

    fake: Any = ModuleType("wandb")
    fake.__spec__, fake.init = ModuleSpec("wandb", None), init
    monkeypatch.setitem(sys.modules, "wandb", fake)
    interrupted_and_resumed(WeightsAndBiases, tmp_path / "run")
    ids = {value for name, value in calls if name == "init"}
    assert len(ids) == 1
    assert [value for name, value in calls if name == "finish"] == [1, 0]
    assert FakeRun.summary["final/seen/mrr"] == 0.6
