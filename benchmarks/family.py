"""Every model of the family side by side: the time of a training step at the same entity size."""

from statistics import median
from typing import Any

from benchmarks.steps import StepTimer
from reltucker.graph import KnowledgeGraph
from reltucker.training import Recipe

ROW_MODELS = ("complex", "distmult", "cp", "analogy")
"""Models whose steps have the same operations but for some element-wise products."""


def measure_family(graph: KnowledgeGraph, entity_dim: int, rounds: int = 5) -> dict[str, Any]:
    """Median milliseconds of a step for each model, measured in turns, and ratios to ComplEx."""
    names = [*ROW_MODELS, "hole", "rescal", "drt", "srt"]
    timers = {
        name: StepTimer(
            graph, Recipe().with_values({"model.name": name, "model.entity_dim": entity_dim})
        )
        for name in names
    }
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].extend(timer.steps(20))
    milliseconds = {name: 1e3 * median(values) for name, values in times.items()}
    row_models = [milliseconds[name] for name in ROW_MODELS]
    return {
        "entity_dim": entity_dim,
        "milliseconds_per_step": milliseconds,
        "ratio_to_complex": {n: m / milliseconds["complex"] for n, m in milliseconds.items()},
        "spread_of_row_models": max(row_models) / min(row_models),
    }
