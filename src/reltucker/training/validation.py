"""When a model is validated while it is trained, and on how many triples."""

import math
import time
from typing import Any

from reltucker.evaluation import Metrics, Protocol, Ranking, rank_split, sampled
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.training.recipe import TrainSettings

PROBE = 1024
"""Triples whose ranking is timed to know what all of them would take."""

UNNOTICED = 0.1
"""Seconds: a validation faster than this always happens, after every epoch."""

LONGEST_INTERVAL = 5
"""Epochs; where even that would cost too much, a sample of the triples is ranked."""

SMALLEST_SAMPLE = 500


class Validation:
    """Ranks the validation triples after every n-th epoch.

    Unless the recipe says how often, the times of the first epoch and of a probe decide: with all
    triples as often as `validation_share` of the training time allows, with a sample of them where
    that would be less often than every fifth epoch. The decision is kept for the whole run,
    resumed ones included.
    """

    def __init__(self, settings: TrainSettings, graph: KnowledgeGraph) -> None:
        self.settings = settings
        self.graph = graph
        # Triples with unseen entities say nothing about training, so `seen` ones must be there.
        self.possible = bool(graph.is_seen(graph.valid).any())
        self.every = settings.validate_every
        self.sample: int | None = None
        self.seconds: float | None = None
        """How long ranking all triples takes, as far as it was measured."""
        self.last = 0

    def decide(self, model: RelationalTucker, train_seconds: float) -> None:
        """Choose how often, after the first epoch has taken so long."""
        if self.every is not None:
            return
        count = len(self.graph.valid)
        probe = self.graph.valid[:: max(1, count // PROBE)]
        rank_split(model, self.graph, "valid", triples=probe[:1])  # compiles the loops
        began = time.monotonic()
        rank_split(model, self.graph, "valid", triples=probe)
        self.seconds = (time.monotonic() - began) * count / len(probe)
        allowed = train_seconds * self.settings.validation_share
        self.every, self.sample = plan(self.seconds, allowed, count)

    def is_due(self, epoch: int) -> bool:
        """Whether to validate after this epoch."""
        return self.possible and (
            epoch == self.settings.epochs or epoch - self.last >= (self.every or 1)
        )

    def metrics(self, model: RelationalTucker, epoch: int) -> dict[Protocol, Metrics]:
        """How the model does after an epoch; a sample is drawn from the triples that count under
        `seen`, so that it says nothing about `standard`."""
        self.last = epoch
        if self.sample is None:
            began = time.monotonic()
            metrics = rank_split(model, self.graph, "valid").metrics()
            self.seconds = time.monotonic() - began
            return metrics
        seen = self.graph.valid[self.graph.is_seen(self.graph.valid)]
        triples = sampled(seen, self.sample, self.settings.seed)
        metrics = rank_split(model, self.graph, "valid", triples=triples).metrics()
        return {name: found for name, found in metrics.items() if name != "standard"}

    def final(self, model: RelationalTucker, training_seconds: float) -> Ranking:
        """The ranking of all triples, once training has ended; of a sample where ranking all of
        them would take longer than training did, and longer than a minute."""
        allowed = max(60.0, training_seconds)
        if self.seconds is None or self.seconds <= allowed:
            return rank_split(model, self.graph, "valid")
        share = int(len(self.graph.valid) * allowed / self.seconds)
        triples = sampled(self.graph.valid, max(SMALLEST_SAMPLE, share), self.settings.seed)
        return rank_split(model, self.graph, "valid", triples=triples)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "every": self.every,
            "sample": self.sample,
            "seconds": self.seconds,
            "last": self.last,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        every, sample, seconds = state["every"], state["sample"], state["seconds"]
        self.every = None if every is None else int(every)
        self.sample = None if sample is None else int(sample)
        self.seconds = None if seconds is None else float(seconds)
        self.last = int(state["last"])


def plan(seconds: float, allowed: float, count: int) -> tuple[int, int | None]:
    """Epochs between validations and triples (None: all) where ranking all `count` of them takes
    `seconds` and validation may take `allowed` seconds an epoch."""
    if seconds <= max(UNNOTICED, allowed):
        return 1, None
    epochs = math.ceil(seconds / allowed)
    if epochs <= LONGEST_INTERVAL:
        return epochs, None
    sample = max(SMALLEST_SAMPLE, int(count * LONGEST_INTERVAL * allowed / seconds))
    return LONGEST_INTERVAL, min(sample, count)
