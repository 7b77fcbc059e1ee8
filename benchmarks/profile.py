"""Where the time of a training step goes, function by function.

    python -m benchmarks.profile [--objective NAME] [--set KEY=VALUE ...] [--steps N] [--json FILE]

Functions of the package, compiled loops and calls into torch are told apart; operators such as @
count for the function that has them. Steps of DRT 100/237 with shared negatives by default, the
settings of `python -m benchmarks --objectives` otherwise; FB15K-237.
"""

import argparse
import cProfile
import pstats
from pathlib import Path
from typing import Any

from benchmarks.machine import matmul_rate
from benchmarks.objectives import COMMON, OBJECTIVES, necessary_operations
from benchmarks.steps import StepTimer
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.graph import load_graph
from reltucker.report import Column, Table
from reltucker.training import Recipe

SHOWN = 0.005
"""Functions with less of the time than this are left out."""

SIZES = {"model.entity_dim": 100, "model.relation_dim": 237}


def profiled(timer: StepTimer, steps: int) -> dict[str, Any]:
    """Milliseconds a step in each function itself, without those it calls."""
    profile = cProfile.Profile()
    profile.enable()
    timer.steps(steps)
    profile.disable()
    stats: Any = pstats.Stats(profile)
    rows = []
    for (file, _, name), (_, calls, own, _, _) in stats.stats.items():
        if own >= SHOWN * stats.total_tt:
            where = "" if file == "~" else f"{Path(file).stem}."
            row = {"function": where + name, "calls": calls / steps, "ms": 1e3 * own / steps}
            rows.append({**row, "share": own / stats.total_tt})
    rows.sort(key=lambda row: -row["ms"])
    rate, operations = matmul_rate(), necessary_operations(timer)
    return {
        "ms_per_step": 1e3 * stats.total_tt / steps,
        "ms_of_operations": 1e3 * operations / rate,
        "functions": rows,
    }


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--data", default="fb15k-237", help="folder with the splits of FB15K-237")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--objective", choices=list(OBJECTIVES), default="shared negatives")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    recipe = Recipe().with_values({**COMMON, **SIZES, **OBJECTIVES[options.objective]})
    timer = StepTimer(load_graph(options.data), recipe.changed(options.set))
    result = {"objective": options.objective, "set": options.set, **profiled(timer, options.steps)}
    columns = [
        Column("function", "function"),
        Column("calls a step", "calls", ".1f"),
        Column("ms a step", "ms", ".2f"),
        Column("share", "share", ".1%"),
    ]
    table = Table(f"Steps of {options.objective}", columns, result["functions"])
    console().print(table.to_rich())
    console().print(
        f"{result['ms_per_step']:.1f} ms a step; its necessary operations at the matmul rate "
        f"take {result['ms_of_operations']:.1f} ms"
    )
    if options.json:
        write_json(options.json, result)


if __name__ == "__main__":
    main()
