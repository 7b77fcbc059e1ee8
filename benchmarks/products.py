"""Products with all entities: as one call, in blocks, and in bfloat16, in turns in one run.

    python -m benchmarks.products [--threads N] [--json FILE]

Rates are those of scores and of both of their gradients together; steps are those of recipes in
`recipes/best`, over all entities, with either number format.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import numba
import torch

from benchmarks.machine import matmul_rate, seconds
from benchmarks.steps import StepTimer
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.graph import load_graph
from reltucker.kernels import gradients_into, new_scores, scores_into
from reltucker.report import Column, Table
from reltucker.training import Recipe

SHAPES = {
    "512 x 100 x 14,541": (512, 100, 14_541),
    "512 x 200 x 14,541": (512, 200, 14_541),
    "400 x 2,000 x 14,541": (400, 2_000, 14_541),
    "600 x 256 x 40,943": (600, 256, 40_943),
}
WHOLE = {"sampled_epochs": 0, "sampled_weights": "all", "negatives": 24}
RECIPES = ("fb15k-237-complex-2000", "fb15k-237-drt-200", "wn18rr-rescal-256")
ROUNDS, STEPS = 4, 4


def rates(queries: int, dim: int, entities: int) -> dict[str, float]:
    """GFLOPS of scores (one call, in blocks, in bfloat16) and of gradients (one call, bfloat16)."""
    q, E = torch.randn(queries, dim), torch.randn(entities, dim)
    plain, scores = torch.empty(queries, entities), new_scores(q, E)
    dE, dq, operations = torch.empty_like(E), torch.empty_like(q), 2e-9 * queries * dim * entities

    def both() -> None:
        torch.mm(plain.t(), q, out=dE)
        torch.mm(plain, E, out=dq)

    return {
        "scores": operations / seconds(lambda: torch.mm(q, E.t(), out=plain)),
        "scores in blocks": operations / seconds(lambda: scores_into(scores, q, E)),
        "scores in bfloat16": operations / seconds(lambda: scores_into(scores, q, E, "bfloat16")),
        "gradients": 2 * operations / seconds(both),
        "gradients in bfloat16": 2
        * operations
        / seconds(lambda: gradients_into(dE, scores, q, E, "bfloat16")),
    }


def steps(name: str) -> dict[str, float]:
    """Milliseconds of a step of a recipe over all entities, by the number format."""
    recipe = Recipe.load(Path("recipes/best") / f"{name}.toml")
    recipe = recipe.with_values({f"train.{key}": value for key, value in WHOLE.items()})
    graph = load_graph(str(recipe.graph.source))
    timers = {
        precision: StepTimer(graph, recipe.with_values({"train.products": precision}))
        for precision in ("float32", "bfloat16")
    }
    times: dict[str, list[float]] = {precision: [] for precision in timers}
    for _ in range(ROUNDS):
        for precision, timer in timers.items():
            times[precision].extend(timer.steps(STEPS))
    return {precision: 1e3 * median(found) for precision, found in times.items()}


def main() -> None:
    """Measure, print tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    numba.set_num_threads(options.threads)
    result: dict[str, Any] = {
        "threads": options.threads,
        "matmul_2048_gflops": matmul_rate() / 1e9,
        "rates": {name: rates(*shape) for name, shape in SHAPES.items()},
        "steps": {name: steps(name) for name in RECIPES},
    }
    kinds = list(next(iter(result["rates"].values())))
    columns = [Column("product", "name"), *(Column(kind, kind, ".0f") for kind in kinds)]
    rows = [{"name": name, **found} for name, found in result["rates"].items()]
    console().print(Table("GFLOPS", columns, rows).to_rich())
    columns = [Column("step of", "name"), *(Column(p, p, ".0f") for p in ("float32", "bfloat16"))]
    rows = [{"name": name, **found} for name, found in result["steps"].items()]
    console().print(Table("Milliseconds", columns, rows).to_rich())
    if options.json:
        write_json(options.json, result)


if __name__ == "__main__":
    main()
