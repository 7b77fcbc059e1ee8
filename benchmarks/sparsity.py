"""Step time against the density of the core: SRT next to DRT and ComplEx, in one run."""

from statistics import median
from typing import Any

import torch

from benchmarks.steps import StepTimer
from reltucker.graph import KnowledgeGraph
from reltucker.model.cores import GatedCore
from reltucker.training import Recipe

DENSITIES = (1.0, 0.5, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)


def measure_sparsity(
    graph: KnowledgeGraph, entity_dim: int, relation_dim: int, rounds: int = 3
) -> dict[str, Any]:
    """Median milliseconds of a step. An SRT of a given density has all other gates shut for good,
    so that it takes the representation that training would have given it."""
    sizes = {"model.entity_dim": entity_dim, "model.relation_dim": relation_dim}
    timers = {
        "drt": StepTimer(graph, Recipe().with_values({"model.name": "drt", **sizes})),
        "complex": StepTimer(
            graph, Recipe().with_values({"model.name": "complex", "model.entity_dim": entity_dim})
        ),
    }
    for density in DENSITIES:
        timers[f"srt {density:g}"] = _srt(graph, sizes, density)
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].extend(timer.steps(15))
    milliseconds = {name: 1e3 * median(values) for name, values in times.items()}
    return {
        "sizes": sizes,
        "milliseconds_per_step": milliseconds,
        "dense_srt_to_drt": milliseconds["srt 1"] / milliseconds["drt"],
        "one_percent_srt_to_complex": milliseconds["srt 0.01"] / milliseconds["complex"],
    }


def _srt(graph: KnowledgeGraph, sizes: dict[str, int], density: float) -> StepTimer:
    values = {"model.name": "srt", "core.warm_up_epochs": 0, **sizes}
    timer = StepTimer(graph, Recipe().with_values(values))
    core = timer.training.model.core
    assert isinstance(core, GatedCore)
    if density < 1.0:
        with torch.no_grad():
            order = torch.randperm(core.held.size, generator=torch.Generator().manual_seed(1))
            core.locations[order[round(density * core.held.size) :]] = -20.0
    timer.training._begin_epoch()
    timer.steps(5)
    return timer
