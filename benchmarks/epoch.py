"""One training epoch against the time that its floating-point operations take."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import matmul_rate
from reltucker.graph import KnowledgeGraph
from reltucker.training import Recipe, RunFolder, Training, build_model
from reltucker.training.threads import limited_threads, threads_for


class _StepTimes:
    """A watcher that notes when steps end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def step(self, epoch: int, done: int, total: int) -> None:
        self.ends.append(time.perf_counter())

    def epoch(self, record: dict[str, Any]) -> None:
        pass


def necessary_operations(recipe: Recipe, graph: KnowledgeGraph, seed: int = 0) -> float:
    """Operations of an epoch with each M_k built once for each distinct relation of a batch.

    Forward and both gradients of: M = R G, the two query products of a triple, and the scores of
    its candidates. A fixed core has no product R G and no query product to speak of.
    """
    settings, model = recipe.train, recipe.model
    d_e = model.entity_dim
    order = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))
    relations = torch.from_numpy(graph.train[:, 1]).long()[order].split(settings.batch_size)
    scores = 2 * len(graph.train) * 2 * (1 + settings.negatives) * d_e
    core = build_model(recipe, 1, len(graph.relations)).core
    if core.query_work() == core.entity_dim:
        return 3.0 * scores
    queries = 2 * 2 * len(graph.train) * d_e * d_e
    distinct = sum(len(torch.unique(batch)) for batch in relations)
    mixing = 0 if core.learns == "nothing" else 2 * distinct * core.relation_dim * d_e * d_e
    return 3.0 * (mixing + queries + scores)


def measure_epoch(graph: KnowledgeGraph, settings: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Time whole epochs (the first warms up) between two measurements of the matmul rate."""
    recipe = Recipe().with_values({**settings, "train.epochs": epochs + 1})
    watcher = _StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", recipe, graph)
        training = Training(recipe, graph, run, watcher)
        threads = threads_for(training.model, recipe.train)
        with limited_threads(threads):
            rates = [matmul_rate()]
            training._train_epoch()
            times = []
            for _ in range(epochs):
                began = time.perf_counter()
                training._train_epoch()
                times.append(time.perf_counter() - began)
                rates.append(matmul_rate())
    operations = necessary_operations(recipe, graph)
    rate = sum(rates) / len(rates)
    best = min(times)
    steps = watcher.ends[-1] - watcher.ends[-len(watcher.ends) // (epochs + 1)]
    return {
        "settings": settings,
        "threads": threads,
        "seconds_per_epoch": best,
        "all_epochs": times,
        "steps_per_second": len(watcher.ends) / (epochs + 1) / steps,
        "gflop": operations / 1e9,
        "gflops_machine": rate / 1e9,
        "seconds_of_operations": operations / rate,
        "ratio_to_operations": best / (operations / rate),
    }
