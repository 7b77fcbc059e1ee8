"""When a model is validated while it is trained, and on how many triples."""

import math

from reltucker.evaluation import Metrics, Protocol, Ranking, rank_split, sampled
from reltucker.graph import KnowledgeGraph
from reltucker.graph.knowledge_graph import Triples
from reltucker.model import RelationalTucker
from reltucker.training.recipe import Recipe
from reltucker.training.settings import TrainSettings
from reltucker.training.work import epoch_seconds, ranking_seconds

SHARE = 0.1
"""How much of the training time validation may take."""

UNNOTICED = 0.1
"""Seconds: a validation faster than this always happens, after every epoch."""

LONGEST_INTERVAL = 5
"""Epochs; where even that would cost too much, a sample of the triples is ranked."""

SMALLEST_SAMPLE = 500


def is_possible(graph: KnowledgeGraph) -> bool:
    """Triples with unseen entities say nothing about training, so `seen` ones must be there."""
    return bool(graph.is_seen(graph.valid).any())


def settle(recipe: Recipe, model: RelationalTucker, graph: KnowledgeGraph) -> Recipe:
    """The recipe with `train.validate_every` and `train.validate_triples` chosen, where they are
    open: all triples as often as a tenth of the training time allows, a sample of them where that
    would be less often than every fifth epoch. The times follow from sizes, not from a clock, so
    that a run has the same figures on a busy machine and on an idle one.
    """
    settings, count = recipe.train, len(graph.valid)
    if settings.validate_every is not None or not is_possible(graph):
        return recipe
    seconds = ranking_seconds(model, settings.validate_triples or count)
    allowed = SHARE * epoch_seconds(model, settings, len(graph.train))
    every, sample = plan(seconds, allowed, count)
    chosen = {"train.validate_every": every}
    if sample is not None and settings.validate_triples is None:
        chosen["train.validate_triples"] = sample
    return recipe.with_values(chosen)


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


class Validation:
    """Ranks the validation triples after every n-th epoch and after the last one."""

    def __init__(self, settings: TrainSettings, graph: KnowledgeGraph) -> None:
        self.settings = settings
        self.graph = graph
        self.possible = is_possible(graph)
        self.every = settings.validate_every or 1
        sample = settings.validate_triples
        self.sample = sample if sample is not None and sample < len(graph.valid) else None

    def is_due(self, epoch: int) -> bool:
        """Whether to validate after this epoch."""
        return self.possible and (epoch == self.settings.epochs or epoch % self.every == 0)

    def epochs_since(self, epoch: int) -> int:
        """How many epochs a validation after this one stands for."""
        return (epoch - 1) % self.every + 1

    def metrics(self, model: RelationalTucker) -> dict[Protocol, Metrics]:
        """How the model does; a sample is drawn from the triples that count under `seen`, so that
        it says nothing about `standard`."""
        if self.sample is None:
            return rank_split(model, self.graph, "valid").metrics()
        seen = self.graph.valid[self.graph.is_seen(self.graph.valid)]
        triples = sampled(seen, self.sample, self.settings.seed)
        metrics = rank_split(model, self.graph, "valid", triples=triples).metrics()
        return {name: found for name, found in metrics.items() if name != "standard"}

    def final(self, model: RelationalTucker, epochs: int) -> Ranking:
        """The ranking of all triples, or of many, once training has ended."""
        triples = self.final_triples(model, epochs)
        return rank_split(model, self.graph, "valid", triples=triples)

    def final_triples(self, model: RelationalTucker, epochs: int) -> Triples:
        """All triples; a sample where ranking all of them would take longer than training did, and
        longer than a minute."""
        count = len(self.graph.valid)
        seconds = ranking_seconds(model, count)
        epoch = epoch_seconds(model, self.settings, len(self.graph.train))
        allowed = max(60.0, epochs * epoch)
        share = count if seconds <= allowed else int(count * allowed / seconds)
        return sampled(self.graph.valid, max(SMALLEST_SAMPLE, share), self.settings.seed)
