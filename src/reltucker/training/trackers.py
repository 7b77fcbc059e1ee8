"""Who is told how training goes: one small interface, and TensorBoard, MLflow and Weights & Biases
behind it. They look on: what they do or fail to do changes no figure."""

import copy
import importlib.util
import json
import os
import secrets
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json
from reltucker.choices import TrackerName
from reltucker.errors import RecipeError
from reltucker.training.recipe import Recipe

TRACKED = "trackers.json"
"""In a run folder: under which ids trackers know the run, so that it goes on there."""


class TrackerWarning(UserWarning):
    """A tracker or callback that failed and is left out."""


class Callback:
    """Looks on while a model is trained; a subclass has what it needs of these. Whatever is raised
    is reported once, and training goes on without the callback. Of several processes the first one
    tells."""

    def begin(self, run: Path, recipe: Recipe, epoch: int) -> None:
        """Training begins in a run folder, or goes on there after so many epochs."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch has ended; `record` is its line of epochs.jsonl."""

    def end(self, result: dict[str, Any] | None) -> None:
        """Training has ended with what result.json holds; None where it was stopped."""


class Callbacks:
    """All who are told."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._told = list(callbacks)

    def tell(self, what: str, *facts: Any) -> None:
        """Tell each of them; one that fails is told no more."""
        for callback in list(self._told):
            try:
                getattr(callback, what)(*copy.deepcopy(facts))
            except Exception as error:
                self._told.remove(callback)
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                with warnings.catch_warnings():
                    warnings.simplefilter("always")  # an error here would end the training
                    warnings.warn(
                        f"{type(callback).__name__} failed and is told no more, training goes on: "
                        f"{reason}",
                        TrackerWarning,
                        stacklevel=2,
                    )


class TensorBoard(Callback):
    """Figures by epoch in RUN/tensorboard, for `tensorboard --logdir RUN`."""

    def begin(self, run: Path, recipe: Recipe, epoch: int) -> None:
        """Open the folder; what stands there of epochs that are trained again is passed over."""
        check_installed("tensorboard")
        open_folder: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._writer = open_folder(str(run / "tensorboard"), purge_step=epoch + 1)
        self._writer.add_text("recipe", f"```toml\n{recipe.to_toml()}```", 0)

    def epoch(self, record: dict[str, Any]) -> None:
        """A scalar for each figure."""
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()

    def end(self, result: dict[str, Any] | None) -> None:
        """Close the file; the figures of the best epoch stand at that epoch."""
        for name, value in figures(result or {}, "final/").items():
            self._writer.add_scalar(name, value, (result or {})["best_epoch"])
        self._writer.close()


class MLflow(Callback):
    """A run of MLflow in the store of MLFLOW_TRACKING_URI, in the experiment
    MLFLOW_EXPERIMENT_NAME or `reltucker`."""

    def begin(self, run: Path, recipe: Recipe, epoch: int) -> None:
        """Create the run with the recipe as its parameters, or go on with it."""
        check_installed("mlflow")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient()
        known = _known(run, "mlflow")
        self._last = 0
        if known is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "reltucker")
            found = self._client.get_experiment_by_name(name)
            home = found.experiment_id if found else self._client.create_experiment(name)
            self._id = self._client.create_run(home, run_name=run.name).info.run_id
            settings = [Param(key, value[:500]) for key, value in _settings(recipe).items()]
            self._client.log_batch(self._id, params=settings)
            _remember(run, "mlflow", self._id)
        else:
            self._id = known
            self._client.update_run(self._id, status="RUNNING")
            told = self._client.get_metric_history(self._id, "loss")
            self._last = max((metric.step for metric in told), default=0)

    def epoch(self, record: dict[str, Any]) -> None:
        """A metric for each figure, of epochs that it does not have yet."""
        if record["epoch"] > self._last:
            self._log(figures(record), record["epoch"])

    def end(self, result: dict[str, Any] | None) -> None:
        """Figures of the best epoch; a run that was stopped is called killed until it goes on."""
        if result is not None:
            self._log(figures(result, "final/"), result["best_epoch"])
        self._client.set_terminated(self._id, "KILLED" if result is None else "FINISHED")

    def _log(self, values: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)


class WeightsAndBiases(Callback):
    """A run of Weights & Biases in the project WANDB_PROJECT or `reltucker`; WANDB_MODE=offline
    writes into the run folder alone."""

    def begin(self, run: Path, recipe: Recipe, epoch: int) -> None:
        """Create the run with the recipe as its configuration, or go on with it."""
        check_installed("wandb")
        import wandb

        known = _known(run, "wandb") or secrets.token_hex(4)
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "reltucker"),
            name=run.name,
            id=known,
            resume="allow",
            dir=str(run),
            config=_settings(recipe),
        )
        _remember(run, "wandb", known)

    def epoch(self, record: dict[str, Any]) -> None:
        """A row of the history; epochs that it has are passed over there."""
        self._run.log(figures(record), step=record["epoch"])

    def end(self, result: dict[str, Any] | None) -> None:
        """Figures of the best epoch in the summary."""
        if result is not None:
            self._run.summary.update(figures(result, "final/"))
        self._run.finish(exit_code=0 if result is not None else 1)


TRACKERS: dict[TrackerName, type[Callback]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def check_installed(*names: TrackerName) -> None:
    """Refuse trackers whose package is not there; extra and package have their name."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise RecipeError(
                f"train.trackers: {name!r} needs a package that is not installed; run: "
                f"pip install 'reltucker[{name}]'"
            )


def figures(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a record by names with `/`, such as valid/seen/mrr. MLflow takes no `@`."""
    found: dict[str, float] = {}
    for key, value in record.items():
        name = prefix + key.replace("@", "_at_")
        if isinstance(value, dict):
            found |= figures(value, f"{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and key != "epoch":
            found[name] = float(value)
    return found


def _settings(recipe: Recipe) -> dict[str, str]:
    """Every setting by dotted key."""
    sections = recipe.model_dump(exclude_none=True).items()
    return {f"{name}.{key}": str(value) for name, part in sections for key, value in part.items()}


def _known(run: Path, name: TrackerName) -> str | None:
    """Under which id a tracker knows the run."""
    return _ids(run).get(name)


def _remember(run: Path, name: TrackerName, number: str) -> None:
    write_json(run / TRACKED, _ids(run) | {name: number})


def _ids(run: Path) -> dict[str, str]:
    path = run / TRACKED
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError(f"{path} does not hold ids of runs; remove it")
    return found
