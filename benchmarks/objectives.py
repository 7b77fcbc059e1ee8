"""Steps of every objective against the machine's matmul rate; each in a process of its own.

    python -m benchmarks.objectives FOLDER ENTITY_DIM RELATION_DIM OBJECTIVE

prints the figures of one objective as JSON, its peak memory among them.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.machine import matmul_rate
from benchmarks.steps import StepTimer
from reltucker.graph import load_graph
from reltucker.training import Recipe

COMMON: dict[str, Any] = {
    "model.name": "drt",
    "model.reciprocal": True,
    "train.batch_size": 512,
    "train.optimizer": "adam",
    "train.learning_rate": 1e-3,
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "one_vs_all": {"train.objective": "one_vs_all"},
    "k_vs_all": {"train.objective": "k_vs_all"},
    "k_vs_all binary": {"train.objective": "k_vs_all", "train.loss": "binary"},
    "shared negatives": {"train.shared_negatives": True, "train.negatives": 2000},
}
SIZES = ((100, 237), (200, 200))
STEPS = 40


def measure_objectives(folder: Path) -> dict[str, Any]:
    """The figures of all objectives and sizes."""
    results: dict[str, Any] = {}
    for entity_dim, relation_dim in SIZES:
        for name in OBJECTIVES:
            sizes = [str(entity_dim), str(relation_dim)]
            command = [sys.executable, "-m", "benchmarks.objectives", str(folder), *sizes, name]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results[f"{name} {entity_dim}/{relation_dim}"] = json.loads(done.stdout)
    return results


def necessary_operations(timer: StepTimer) -> float:
    """Mean operations of a step: M_k once for each distinct relation of the batch, the queries,
    one product for the scores; each with its two gradients. A fixed core has no product for M_k."""
    training = timer.training
    settings, model = training.recipe.train, training.model
    d_e, entries = model.E.shape[1], sum(p.numel() for p in model.core.parameters())
    shared = settings.objective == "negative_sampling"
    candidates = settings.negatives if shared else training.objective.population
    total = 0.0
    batches = torch.split(timer.order, settings.batch_size)[:STEPS]
    for chosen in batches:
        batch = training.objective.batches.take(chosen, training.generator)
        questions, relations = len(batch.given), len(batch.arrangement.relations)
        total += 2 * relations * entries + 2 * questions * model.core.query_work()
        total += 2 * questions * candidates * d_e
    return 3.0 * total / len(batches)


def main() -> None:
    """Measure one objective."""
    folder, entity_dim, relation_dim, name = sys.argv[1:]
    graph = load_graph(folder)
    sizes = {"model.entity_dim": int(entity_dim), "model.relation_dim": int(relation_dim)}
    timer = StepTimer(graph, Recipe().with_values({**COMMON, **sizes, **OBJECTIVES[name]}))
    rates, times = [matmul_rate()], []
    for _ in range(4):
        times.extend(timer.steps(STEPS // 4))
        rates.append(matmul_rate())
    rate, seconds = median(rates), median(times)
    operations = necessary_operations(timer)
    items = len(timer.training.objective)
    result = {
        "gflops_machine": rate / 1e9,
        "milliseconds_per_step": 1e3 * seconds,
        "gflop_per_step": operations / 1e9,
        "share_of_matmul_rate": operations / seconds / rate,
        "seconds_per_epoch": seconds * items / timer.training.recipe.train.batch_size,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
