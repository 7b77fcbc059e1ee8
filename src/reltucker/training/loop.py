"""The training loop: plain epochs, validation, early stopping, checkpoints."""

import math
import time
from itertools import pairwise
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor

from reltucker.errors import GraphError, RecipeError, RunError, ScoreError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES, RelationalTucker, sizes_of
from reltucker.training.averaging import WeightAverage
from reltucker.training.memory import (
    keep_freed_memory,
    peak_memory,
    physical_memory,
    use_huge_pages,
)
from reltucker.training.objectives import check_objective, make_objective
from reltucker.training.optimizer import Schedule, make_optimizer, set_learning_rate, step_rows
from reltucker.training.recipe import Recipe
from reltucker.training.run_folder import BEST, CHECKPOINT, RunFolder
from reltucker.training.stopping import EarlyStopping
from reltucker.training.threads import limited_threads, threads_for
from reltucker.training.validation import Validation

BYTES = 4


class Watcher(Protocol):
    """Someone who looks on: a progress bar, a log."""

    def step(self, epoch: int, done: int, total: int) -> None:
        """A training step has ended."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch has ended; `record` is its line of epochs.jsonl."""


def build_model(recipe: Recipe, entities: int, relations: int) -> RelationalTucker:
    """The model of a recipe for a graph of this size, its parameters not yet drawn."""
    settings = recipe.model
    core = CORES[settings.name]
    options = recipe.core.model_dump(exclude_none=True)
    for option in options:
        if option not in core.options:
            raise RecipeError(f"core.{option}: {settings.name} has no such option; leave it out")
    built = core.build(settings.entity_dim, settings.relation_dim, relations, **options)
    return RelationalTucker(
        entities,
        relations,
        built,
        reciprocal=settings.reciprocal,
        batch_norm=settings.batch_norm,
    )


def choose_device(wanted: str) -> torch.device:
    """The device of a recipe: `auto` takes CUDA where there is one."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise RunError("train.device = 'cuda', but torch sees no CUDA device; use 'cpu' or 'auto'")
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def check(recipe: Recipe, graph: KnowledgeGraph) -> None:
    """Refuse what cannot be trained, before any file is written."""
    if not len(graph.train):
        raise GraphError(f"{graph.name}: there are no training triples")
    check_objective(recipe.train, graph.seen_entities)
    with torch.device("meta"):
        model = build_model(recipe, len(graph.entities), len(graph.relations))
    # A parameter, its gradient, one or two numbers of the optimiser, the best value so far, a mean.
    copies = 4 + (recipe.train.optimizer == "adam") + bool(recipe.train.averaged_epochs)
    needed = copies * BYTES * sum(parameter.numel() for parameter in model.parameters())
    if needed > physical_memory():
        raise RecipeError(
            f"model.entity_dim and model.relation_dim: training would need about "
            f"{needed / 2**30:,.0f} GiB of memory, and the machine has "
            f"{physical_memory() / 2**30:,.0f}; choose smaller ones"
        )
    choose_device(recipe.train.device)


class Training:
    """A training run in progress. Its whole state is in the checkpoint that it writes."""

    def __init__(
        self, recipe: Recipe, graph: KnowledgeGraph, folder: RunFolder, watcher: Watcher | None
    ) -> None:
        check(recipe, graph)
        self.recipe = recipe
        self.graph = graph
        self.folder = folder
        self.watcher = watcher
        settings = recipe.train
        device = choose_device(settings.device)
        keep_freed_memory()
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.model = build_model(recipe, len(graph.entities), len(graph.relations))
        self.model.reset(self.generator, recipe.model.init_scale, recipe.model.init)
        self.model.to(device)
        # Before any entry is retired or restored, so that a resumed run has as many.
        self.threads = threads_for(self.model, settings)
        use_huge_pages(self.model.E.detach())
        self.optimizer = self._make_optimizer()
        self.average = WeightAverage(self.model, settings.averaged_epochs)
        self.schedule = Schedule(settings)
        self.objective = make_objective(self.model, settings, graph)
        self.validation = Validation(settings, graph)
        self.stopping = EarlyStopping(settings.patience, settings.max_density)
        self.best: dict[str, Tensor] = {}
        self.epoch = 0
        self.seconds = 0.0
        self.training_seconds = 0.0
        self._typical_seconds = 0.0

    # -- the loop -----------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Train to the end; returns what result.json holds."""
        with limited_threads(self.threads):
            self._run_epochs()
            return self._finish()

    def _run_epochs(self) -> None:
        settings = self.recipe.train
        saved = time.monotonic()
        while self.epoch < settings.epochs and not self._patience_used_up():
            self._run_epoch()
            if time.monotonic() - saved >= settings.checkpoint_seconds:
                self.save()
                saved = time.monotonic()
        self.save()

    def _patience_used_up(self) -> bool:
        return self.validation.possible and self.stopping.should_stop()

    def _run_epoch(self) -> None:
        began = time.monotonic()
        self._begin_epoch()
        loss = self._train_epoch()
        trained = time.monotonic() - began
        self.epoch += 1
        self.model.eval()
        with self.average.in_place_of_weights(self.model):
            record = {"epoch": self.epoch, "loss": loss} | self._judge()
        self.training_seconds += trained
        self.seconds += time.monotonic() - began
        record |= {
            "train_seconds": trained,
            "epoch_seconds": time.monotonic() - began,
            "seconds": self.seconds,
        }
        self.folder.append_epoch(record)
        if self.watcher is not None:
            self.watcher.epoch(record)

    def _judge(self) -> dict[str, Any]:
        """What the epoch has made of the model, for its record; the best so far is kept."""
        density = self.model.core.density()
        record: dict[str, Any] = {"core_density": density}
        if self.validation.possible:
            record |= self._validate(density)
        else:
            # Without valid triples the last epoch that is sparse enough counts.
            record["best"] = self.stopping.is_sparse_enough(density)
            if record["best"]:
                self.stopping.best_epoch = self.epoch
        if record["best"]:
            state = self.model.serving_state()
            self.best = {name: value.cpu().clone() for name, value in state.items()}
        return record

    def _validate(self, density: float) -> dict[str, Any]:
        """What validation, if it is due, adds to the epoch's record."""
        validation = self.validation
        try:
            if validation.every is None:
                validation.decide(self.model, self._typical_seconds)
            if not validation.is_due(self.epoch):
                return {"best": False}
            epochs = self.epoch - validation.last
            metrics = validation.metrics(self.model, self.epoch)
        except ScoreError:
            raise self._diverged(self.epoch) from None
        best = self.stopping.improved(self.epoch, metrics["seen"].mrr, density, epochs)
        if self.stopping.is_sparse_enough(density):
            self.schedule.validated(best, epochs)
        return {"valid": {name: m.to_dict() for name, m in metrics.items()}, "best": best}

    def _begin_epoch(self) -> None:
        """Let the core prepare; where it holds fewer entries now, so does the optimiser."""
        self.model.train()
        before = dict(self.model.named_parameters())
        steps = math.ceil(len(self.objective) / self.recipe.train.batch_size)
        kept = self.model.core.begin_epoch(self.epoch + 1, steps)
        if kept is None:
            return
        states = {name: self.optimizer.state[parameter] for name, parameter in before.items()}
        self.optimizer = self._make_optimizer()
        for name, parameter in self._parameters().items():
            for key, value in states[name].items():
                changed = value.dim() > 0 and value.shape != parameter.shape
                self.optimizer.state[parameter][key].copy_(value[kept] if changed else value)
        self.average.select(self.model, kept)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        optimizer = make_optimizer(self.model, self.recipe.train)
        use_huge_pages(*optimizer.state[self.model.E].values())
        return optimizer

    def _train_epoch(self) -> float:
        """One pass over the shuffled items; returns the mean loss."""
        batch_size = self.recipe.train.batch_size
        device = self.model.E.device
        order = torch.randperm(len(self.objective), generator=self.generator).to(device)
        steps = math.ceil(len(order) / batch_size)
        total = torch.zeros((), dtype=torch.float64, device=device)
        ends = [time.monotonic()]
        for step in range(steps):
            chosen = order[step * batch_size : (step + 1) * batch_size]
            rate = self.schedule.rate(self.epoch + (step + 1) / steps)
            total += self.step(chosen, rate) * len(chosen)
            if self.average.is_due(step, steps):
                self.average.update(self.model, steps)
            ends.append(time.monotonic())
            if self.watcher is not None:
                self.watcher.step(self.epoch + 1, step + 1, steps)
        # The first step of a process also compiles loops.
        self._typical_seconds = steps * median(b - a for a, b in pairwise(ends))
        loss = float(total) / len(order)
        if not math.isfinite(loss):
            raise self._diverged(self.epoch + 1)
        return loss

    def step(self, chosen: Tensor, rate: float) -> Tensor:
        """One training step with the items of these numbers; returns their mean loss."""
        loss = self.objective.backward(chosen, self.generator)
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        if self.objective.touched is not None:
            step_rows(self.optimizer, self.model.E, *self.objective.touched)
        return loss

    def _diverged(self, epoch: int) -> RunError:
        return RunError(
            f"training diverged in epoch {epoch}: loss or scores are no longer finite "
            f"numbers; lower train.learning_rate (now {self.recipe.train.learning_rate})"
        )

    def _finish(self) -> dict[str, Any]:
        """Judge the best weights on the validation triples and write result.json."""
        if not self.best:
            raise RunError(
                f"no epoch had a core density of at most train.max_density = "
                f"{self.recipe.train.max_density}; train longer or raise core.l0_weight"
            )
        self.model.eval()
        self.model.load_serving_state(self.best)
        result: dict[str, Any] = {
            "epochs": self.epoch,
            "best_epoch": self.stopping.best_epoch,
            "seconds": self.seconds,
            "seconds_per_epoch": self.training_seconds / self.epoch,
            "validated_every": self.validation.every,
            "validated_triples": self.validation.sample or len(self.graph.valid),
            "peak_memory_bytes": peak_memory(),
            **sizes_of(self.model).to_dict(),
        }
        metrics = self.validation.final(self.model, self.training_seconds).metrics()
        result |= {name: m.to_dict() for name, m in metrics.items()}
        self.folder.save_result(result)
        return result

    # -- state --------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Tensor]:
        return dict(self.model.named_parameters())

    def save(self) -> None:
        """Write the best weights and the state from which training can go on."""
        if self.best:
            self.folder.save_tensors(BEST, self.best, {"epoch": self.stopping.best_epoch})
        tensors = {"generator": self.generator.get_state()}
        for name, parameter in self._parameters().items():
            tensors[f"model.{name}"] = parameter
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{name}.{key}"] = value
        for name, value in self.model.state_dict().items():
            tensors.setdefault(f"model.{name}", value)  # what is no parameter, such as indexes
        for name, value in self.best.items():
            tensors[f"best.{name}"] = value
        for name, value in self.average.means.items():
            tensors[f"mean.{name}"] = value
        state = {
            "epoch": self.epoch,
            "best_epoch": self.stopping.best_epoch,
            "best_mrr": self.stopping.best_mrr,
            "waited": self.stopping.waited,
            "validation": self.validation.state(),
            "schedule": {"factor": self.schedule.factor, "waited": self.schedule.waited},
            "averaged": self.average.updates,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
        }
        self.folder.save_tensors(CHECKPOINT, tensors, state)

    def restore(self) -> None:
        """Go back to the state of the last checkpoint, or to the start where there is none."""
        if not self.folder.has(CHECKPOINT):
            self.folder.keep_epochs(0)
            return
        tensors, state = self.folder.load_tensors(CHECKPOINT)
        path = self.folder.path / CHECKPOINT
        try:
            self.generator.set_state(tensors["generator"])
            prefix = "model.core."
            core = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            self.model.core.adopt(core)
            self.optimizer = self._make_optimizer()
            with torch.no_grad():
                for name, value in self.model.state_dict().items():
                    value.copy_(tensors[f"model.{name}"])
                for name, parameter in self._parameters().items():
                    for key, value in self.optimizer.state[parameter].items():
                        value.copy_(tensors[f"optimizer.{name}.{key}"])
            self.best = {
                k.removeprefix("best."): v for k, v in tensors.items() if k.startswith("best.")
            }
            self.average.restore(
                self.model,
                {k.removeprefix("mean."): v for k, v in tensors.items() if k.startswith("mean.")},
                int(state.get("averaged", 0)),
            )
            self.epoch = int(state["epoch"])
            self.stopping.best_epoch = int(state["best_epoch"])
            self.stopping.best_mrr = float(state["best_mrr"])
            self.stopping.waited = int(state["waited"])
            self.validation.restore(state["validation"])
            self.schedule.factor = float(state["schedule"]["factor"])
            self.schedule.waited = int(state["schedule"]["waited"])
            self.seconds = float(state["seconds"])
            self.training_seconds = float(state["training_seconds"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"{path} does not fit the run's recipe ({error})") from error
        self.folder.keep_epochs(self.epoch)
