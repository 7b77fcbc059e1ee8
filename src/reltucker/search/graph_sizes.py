"""The sizes of a graph, and how long epochs on it take by these alone."""

from typing import NamedTuple, Self

import numpy as np
import torch

from reltucker.graph import COLUMNS, KnowledgeGraph
from reltucker.training import Recipe, build_model
from reltucker.training.objectives import Objective
from reltucker.training.work import epoch_seconds

STEP_SECONDS = 0.001
"""What a step takes beside its operations."""

SPARSE = 4
"""Triples for an entity, fewer than which are few."""


class GraphSizes(NamedTuple):
    """All that presets and searches look at before they train."""

    entities: int
    seen_entities: int
    relations: int
    triples: int
    questions: int
    """Distinct (i, k, ?) and (?, k, j) of train."""

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        """Count."""
        train = graph.train.astype(np.int64)
        questions = 0
        for given, relation, _ in (COLUMNS["object"], COLUMNS["subject"]):
            keys = np.sort(train[:, given] * len(graph.relations) + train[:, relation])
            questions += 1 + int(np.count_nonzero(np.diff(keys)))
        sizes = len(graph.entities), graph.seen_entities, len(graph.relations)
        return cls(*sizes, len(train), questions)

    @property
    def is_sparse(self) -> bool:
        """Whether there are few triples for an entity."""
        return self.triples < SPARSE * self.entities

    def items(self, objective: type[Objective]) -> int:
        """What an epoch goes through, at the most: of a question with n answers there are up to
        (n + 1) / 2 parts with two of them."""
        asked = self.triples + self.questions // 2
        return asked if objective.items == "questions" else self.triples

    def epoch_seconds(self, recipe: Recipe) -> float:
        """An epoch of a recipe."""
        settings, objective = recipe.train, recipe.train.objective_class
        # Rows that a step does not touch cost nothing.
        candidates = objective.candidates(settings, self.entities)
        touched = 3 * (candidates + 2 * settings.batch_size)
        with torch.device("meta"):
            model = build_model(recipe, min(self.entities, touched), self.relations)
        items = self.items(objective)
        steps = -(-items // settings.batch_size)
        return epoch_seconds(model, settings, items) + steps * STEP_SECONDS
