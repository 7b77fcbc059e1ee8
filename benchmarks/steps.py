"""Single training steps of a recipe, timed one by one."""

import tempfile
import time
from pathlib import Path

import torch

from reltucker.graph import KnowledgeGraph
from reltucker.training import Recipe, RunFolder, Training


class StepTimer:
    """A training run whose steps can be run a few at a time; some warm it up."""

    def __init__(self, graph: KnowledgeGraph, recipe: Recipe) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder.create(Path(folder) / "run", recipe, graph)
            self.training = Training(recipe, graph, run, None)
        self.training.model.train()
        self.order = torch.randperm(
            len(self.training.objective), generator=torch.Generator().manual_seed(0)
        )
        self.next = 0
        self.steps(5)

    def steps(self, count: int) -> list[float]:
        """Seconds of each of the next steps."""
        size = self.training.recipe.train.batch_size
        times = []
        for _ in range(count):
            if (self.next + 1) * size > len(self.order):
                self.next = 0
            chosen = self.order[self.next * size : (self.next + 1) * size]
            self.next += 1
            began = time.perf_counter()
            self.training.step(chosen, self.training.recipe.train.learning_rate)
            times.append(time.perf_counter() - began)
        return times
