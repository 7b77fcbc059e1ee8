"""The training loop: plain epochs, validation, early stopping, checkpoints."""

import math
import time
import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from reltucker.errors import EndedTooEarlyError, RunError, ScoreError
from reltucker.evaluation import fully_filtered
from reltucker.graph import KnowledgeGraph
from reltucker.machine import peak_memory
from reltucker.model import sizes_of
from reltucker.peers import ALONE, Peers
from reltucker.training.averaging import WeightAverage
from reltucker.training.checkpoint import pack, unpack
from reltucker.training.memory import keep_freed_memory
from reltucker.training.objectives import add_up
from reltucker.training.optimizer import Optimizer, Schedule
from reltucker.training.recipe import Recipe, RecipeWarning
from reltucker.training.records import CheckpointState
from reltucker.training.run_folder import BEST, CHECKPOINT, RunFolder
from reltucker.training.setup import (
    build_model,
    check,
    choose_device,
    settled,
    warms_up_to_the_end,
)
from reltucker.training.starting import start
from reltucker.training.stopping import EarlyStopping
from reltucker.training.threads import limited_threads, threads_for
from reltucker.training.trackers import TRACKERS, Callback, Callbacks
from reltucker.training.validation import Validation


class Enough(Exception):
    """Raised by a watcher: training ends here, in order, with the best epoch so far."""


class Watcher(Protocol):
    """Someone who looks on: a progress bar, a log. It may raise `Enough`."""

    def step(self, epoch: int, done: int, total: int) -> None:
        """A training step has ended."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch has ended; `record` is its line of epochs.jsonl."""


class Training:
    """A training run in progress. Its whole state is in the checkpoint that it writes."""

    def __init__(
        self,
        recipe: Recipe,
        graph: KnowledgeGraph,
        folder: RunFolder,
        watcher: Watcher | None,
        peers: Peers = ALONE,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        check(recipe, graph, peers.size, peers.here)
        self.recipe = recipe = settled(recipe, graph)
        self.graph = graph
        self.folder = folder
        self.watcher = watcher
        self.peers = peers
        settings = recipe.train
        told = [*(TRACKERS[name]() for name in settings.trackers), *callbacks]
        self.callbacks = Callbacks(told if peers.rank == 0 else ())
        device = choose_device(settings.device)
        keep_freed_memory()
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.model = build_model(recipe, len(graph.entities), len(graph.relations), peers)
        self.model.reset(self.generator, recipe.model.init_scale, recipe.model.init)
        self.origin = start(self.model, folder)
        self.model.to(device)
        # Before any entry is retired or restored, so that a resumed run has as many.
        self.threads = threads_for(self.model, settings)
        self.optimizer = Optimizer(self.model, settings)
        self.average = WeightAverage(self.model, settings.averaged_epochs)
        self.schedule = Schedule(settings)
        self.objective = settings.objective_class.build(self.model, settings, graph)
        self.validation = Validation(settings, graph)
        gets_sparse = self.model.core.learns == "pattern"
        self.stopping = EarlyStopping(settings.patience, settings.max_density, gets_sparse)
        self.best: dict[str, Tensor] = {}
        self.epoch = 0
        self.seconds = 0.0
        self.training_seconds = 0.0

    # -- the loop -----------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Train to the end; returns what result.json holds."""
        result = None
        self.callbacks.tell("begin", self.folder.path, self.recipe, self.epoch)
        try:
            with limited_threads(self.threads):
                try:
                    self._run_epochs()
                except Enough:
                    result = self._end_early()
                else:
                    result = self._finish()
            return result
        finally:
            self.callbacks.tell("end", result)

    def _run_epochs(self) -> None:
        settings = self.recipe.train
        saved = time.monotonic()
        while self.epoch < settings.epochs and not self._patience_used_up():
            self._run_epoch()
            if self.peers.agreed(time.monotonic() - saved >= settings.checkpoint_seconds):
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
        if self.peers.rank == 0:
            self.folder.append_epoch(record)
        self.callbacks.tell("epoch", record)
        if self.watcher is not None:
            self.watcher.epoch(record)

    def _judge(self) -> dict[str, Any]:
        """What the epoch has made of the model, for its record; the best so far is kept."""
        density = self.model.core.density()
        record: dict[str, Any] = {"core_density": density}
        if self.validation.possible:
            record |= self._validate(density)
        else:
            record["best"] = self.stopping.ended(self.epoch, density)
        if record["best"]:
            state = self.model.serving_state()
            self.best = {name: value.cpu().clone() for name, value in state.items()}
        return record

    def _validate(self, density: float) -> dict[str, Any]:
        """What validation, if it is due, adds to the epoch's record."""
        validation = self.validation
        if not validation.is_due(self.epoch):
            return {"best": False}
        epochs = validation.epochs_since(self.epoch)
        try:
            metrics = validation.metrics(self.model)
        except ScoreError:
            raise self._diverged(self.epoch) from None
        best = self.stopping.improved(self.epoch, metrics["seen"].mrr, density, epochs)
        if self.stopping.counts(density):
            self.schedule.validated(best, epochs)
        return {"valid": {name: m.to_dict() for name, m in metrics.items()}, "best": best}

    def _begin_epoch(self) -> None:
        """Let the core prepare; where it holds fewer entries now, so does the optimiser."""
        self.model.train()
        before: dict[str, Tensor] = dict(self.model.named_parameters())
        steps = math.ceil(len(self.objective) / self.recipe.train.batch_size)
        self.objective.begin_epoch(self.epoch + 1)
        kept = self.model.core.begin_epoch(self.epoch + 1, steps)
        if kept is not None:
            self.optimizer.select(before, kept)
            self.average.select(self.model, kept)

    def _train_epoch(self) -> float:
        """One pass over the shuffled items; returns the mean loss."""
        batch_size = self.recipe.train.batch_size
        device = self.model.E.device
        order = torch.randperm(len(self.objective), generator=self.generator).to(device)
        steps = math.ceil(len(order) / batch_size)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for step in range(steps):
            chosen = order[step * batch_size : (step + 1) * batch_size]
            rate = self.schedule.rate(self.epoch + (step + 1) / steps)
            total += self.step(chosen, rate) * len(chosen)
            if self.average.is_due(step, steps):
                self.average.update(self.model, steps)
            if self.watcher is not None:
                self.watcher.step(self.epoch + 1, step + 1, steps)
        loss = float(self.peers.total(total)) / len(order)
        if not math.isfinite(loss):
            raise self._diverged(self.epoch + 1)
        return loss

    def step(self, chosen: Tensor, rate: float) -> Tensor:
        """One training step with the items of these numbers; returns their mean loss, of which
        each process has a part. Here every gradient is seen before the optimiser sees it."""
        loss, gradients = self.objective.gradients(chosen, self.generator)
        add_up(gradients, dict(self.model.named_parameters()), self.peers)
        self.optimizer.step(gradients, rate)
        return loss

    def _diverged(self, epoch: int) -> RunError:
        return RunError(
            f"training diverged in epoch {epoch}: loss or scores are no longer finite "
            f"numbers; lower train.learning_rate (now {self.recipe.train.learning_rate})"
        )

    def _end_early(self) -> dict[str, Any]:
        """Finish as a run that was meant to end with its last validated epoch: the recipe of the
        run says so from now on, and gives the same result again.

        The checkpoint is that of the last whole epoch, so that the run may go on one day.
        """
        if not self.best:
            raise EndedTooEarlyError("training was ended before its first validation")
        if not self.model.training:  # between two epochs
            self.save()
        best = {"epoch": self.stopping.best_epoch}
        self.folder.save_tensors(BEST, self.best, best, self.peers, self.model.entities)
        if self.validation.possible and self.epoch < self.recipe.train.epochs:
            self.epoch -= self.epoch % self.validation.every
        self.folder.save_recipe(self.recipe.with_values({"train.epochs": self.epoch}))
        return self._finish(ended_early=True)

    def _finish(self, **remarks: bool) -> dict[str, Any]:
        """Judge the best weights on the validation triples and write result.json."""
        if not self.best:
            raise RunError(
                f"no epoch had a core density of at most train.max_density = "
                f"{self.recipe.train.max_density}; train longer or raise core.l0_weight"
            )
        if self.stopping.is_still_dense and not warms_up_to_the_end(self.recipe):
            warnings.warn(
                f"the core is not sparse: after {self.epoch} epochs it has "
                f"{self.model.core.density():.0%} of its entries; train longer, lower "
                "core.warm_up_epochs or raise core.l0_weight",
                RecipeWarning,
                stacklevel=2,
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
            "peak_memory_bytes": self._peak_memory(),
            **sizes_of(self.model).to_dict(),
            **self.origin,
            **remarks,
        }
        ranking = self.validation.final(self.model, self.epoch)
        result |= {name: m.to_dict() for name, m in ranking.metrics().items()}
        result |= fully_filtered(self.model, self.graph, ranking.triples)
        if self.peers.size > 1:
            result["processes"] = self.peers.size
        if self.peers.rank == 0:
            self.folder.join_best()
            self.folder.save_result(result)
        self.peers.wait()
        return result

    def _peak_memory(self) -> int | None:
        """That of the process that took most."""
        peak = torch.tensor([peak_memory() or 0], device=self.model.E.device)
        return int(self.peers.joined(peak, [1] * self.peers.size).max()) or None

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All of it: whoever loads it goes on to the same result."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict(),
            "schedule": self.schedule.state_dict(),
            "stopping": self.stopping.state_dict(),
            "best": self.best,
            "generator": self.generator.get_state(),
            "epoch": self.epoch,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; raises IndexError, KeyError, RuntimeError, TypeError or
        ValueError where the state does not fit the recipe."""
        if state["best"]:
            self.model.load_serving_state(state["best"])  # which shows that it can be, at the end
        weights: dict[str, Tensor] = state["model"]
        prefix = "core."
        core = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        self.model.core.adopt(core)
        types = {name: value.dtype for name, value in self.model.state_dict().items()}
        if {name: value.dtype for name, value in weights.items()} != types:
            raise ValueError("weights are missing or of other types")
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.load_state_dict(self.model, state["average"])
        self.schedule.load_state_dict(state["schedule"])
        self.stopping.load_state_dict(state["stopping"])
        self.best = dict(state["best"])
        if state["generator"].shape != self.generator.get_state().shape:
            raise ValueError("the random state is of another size")
        self.generator.set_state(state["generator"])
        self.epoch = int(state["epoch"])
        self.seconds = float(state["seconds"])
        self.training_seconds = float(state["training_seconds"])

    def save(self) -> None:
        """Write the best weights and the state from which training can go on."""
        together = self.peers, self.model.entities
        if self.best:
            best = {"epoch": self.stopping.best_epoch}
            self.folder.save_tensors(BEST, self.best, best, *together)
        self.folder.save_tensors(CHECKPOINT, *pack(self.state_dict()), *together)

    def restore(self) -> None:
        """Go back to the state of the last checkpoint, or to the start where there is none."""
        if self.folder.has(CHECKPOINT):
            together = self.peers, self.model.entities
            tensors, rest = self.folder.load_tensors(CHECKPOINT, *together)
            path = self.folder.path / CHECKPOINT
            if "optimizer" not in rest:
                raise RunError(
                    f"{path} was written by an earlier version, so the run cannot be resumed; "
                    "train it again"
                )
            try:
                self.load_state_dict(unpack(tensors, CheckpointState.checked(rest)))
            except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise RunError(f"{path} does not fit the run's recipe ({reason})") from error
        if self.peers.rank == 0:
            self.folder.keep_epochs(self.epoch)
        self.peers.wait()
