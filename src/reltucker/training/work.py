"""How long the parts of training take, from sizes alone: the same on every machine, busy or idle.

What depends on these figures (how often to validate, on how many threads) decides the figures of a
run, and so must not depend on a clock.
"""

import math

from reltucker.model import RelationalTucker
from reltucker.training.settings import TrainSettings

PRODUCTS = 4e10
"""Multiplications a second of matrix products, as measured on two cores."""

ELEMENTS = 2.5e9
"""Numbers a second of everything that is bound by memory: gathers, updates, sums."""


def step_seconds(model: RelationalTucker, settings: TrainSettings) -> float:
    """A training step."""
    entities, entity_dim = model.E.shape
    items = settings.batch_size
    objective = settings.objective_class
    questions = items if objective.items == "questions" else 2 * items
    relations = min(model.R.shape[0], items)
    core = sum(parameter.numel() for parameter in model.core.parameters())
    products = core * relations + questions * model.core.query_work()
    moved = 4 * model.E.numel()
    scores = questions * objective.candidates(settings, entities) * entity_dim
    if objective.by_rows:
        moved += scores
    else:
        products += scores
    return 3 * products / PRODUCTS + moved / ELEMENTS  # products once forward and twice back


def epoch_seconds(model: RelationalTucker, settings: TrainSettings, items: int) -> float:
    """A training epoch over so many items."""
    return math.ceil(items / settings.batch_size) * step_seconds(model, settings)


def ranking_seconds(model: RelationalTucker, triples: int) -> float:
    """Ranking so many triples in both directions among all entities."""
    entities, entity_dim = model.E.shape
    scores = 2.0 * triples * entities
    return scores * (entity_dim / PRODUCTS + 0.1 / ELEMENTS)
