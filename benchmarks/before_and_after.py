"""Training steps of this checkout and of another one, measured in turns in one run.

    python -m benchmarks.before_and_after OTHER [--data FOLDER] [--only NAME;...] [--json FILE]

OTHER is a checkout of an earlier version. Each side is a process of its own that does some steps
when it is told to, so that both see the same moments of the machine; ratios count.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

ROUNDS, STEPS, WARM_UP = 12, 10, 10

RECIPROCAL = {
    "model.name": "drt",
    "model.reciprocal": True,
    "train.batch_size": 512,
    "train.optimizer": "adam",
    "train.learning_rate": 1e-3,
}
SMALL, LARGE = (
    {"model.entity_dim": 100, "model.relation_dim": 237},
    {"model.entity_dim": 200, "model.relation_dim": 200},
)
WORK: dict[str, dict[str, Any]] = {
    "drt 100/237": {"model.name": "drt", **SMALL},
    "srt 100/237": {"model.name": "srt", **SMALL},
    **{
        f"{name} 200": {"model.name": name, "model.entity_dim": 200}
        for name in ("complex", "distmult", "cp", "analogy", "hole")
    },
    "rescal 100": {"model.name": "rescal", "model.entity_dim": 100},
    "drt 200/22, batch 300, shared negatives, dura": {
        **RECIPROCAL,
        "model.entity_dim": 200,
        "model.relation_dim": 22,
        "train.batch_size": 300,
        "train.shared_negatives": True,
        "train.negatives": 2000,
        "train.regularizer": "dura",
        "train.regularizer_weight": 0.1,
    },
    "complex 400, k_vs_all, n3, relation prediction": {
        "model.name": "complex",
        "model.entity_dim": 400,
        "model.reciprocal": True,
        "train.objective": "k_vs_all",
        "train.batch_size": 512,
        "train.relation_prediction": 1.0,
        "train.regularizer": "n3",
        "train.regularizer_weight": 0.05,
    },
    **{
        f"drt {sizes['model.entity_dim']}/{sizes['model.relation_dim']}, {name}": {
            **RECIPROCAL,
            **sizes,
            **changes,
        }
        for sizes in (SMALL, LARGE)
        for name, changes in {
            "one_vs_all": {"train.objective": "one_vs_all"},
            "k_vs_all": {"train.objective": "k_vs_all"},
            "k_vs_all binary": {"train.objective": "k_vs_all", "train.loss": "binary"},
            "shared negatives": {"train.shared_negatives": True, "train.negatives": 2000},
        }.items()
    },
}


class Side:
    """A process that trains with the code of one checkout."""

    def __init__(self, checkout: Path, data: Path, settings: dict[str, Any]) -> None:
        # -P: the files beside this one must not hide modules of the same name.
        script = [sys.executable, "-P", str(Path(__file__))]
        command = [*script, "--serve", str(data), json.dumps(settings)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.steps(WARM_UP)

    def steps(self, count: int) -> list[float]:
        """Seconds of the next steps."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(count, file=self.process.stdin, flush=True)
        times: list[float] = json.loads(self.process.stdout.readline())
        return times

    def end(self) -> None:
        """Let the process go."""
        self.process.communicate()


def measure(other: Path, data: Path, settings: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a step before and after, and their ratio: the lower quartile, since others
    on the host only ever add to a time."""
    here = Path(__file__).resolve().parents[1]
    sides = {"before": Side(other, data, settings), "after": Side(here, data, settings)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            times[name].extend(side.steps(STEPS))
    for side in sides.values():
        side.end()
    milliseconds = {name: 1e3 * quantiles(values, n=4)[0] for name, values in times.items()}
    return {**milliseconds, "ratio": milliseconds["after"] / milliseconds["before"]}


def serve(data: str, settings: dict[str, Any]) -> None:
    """Do as many steps as each line of the input says. Only what all versions have is used."""
    import torch

    from reltucker import Recipe, load_graph
    from reltucker.training import RunFolder, Training

    recipe = Recipe().with_values(settings)
    with tempfile.TemporaryDirectory() as folder:
        graph = load_graph(data)
        run = RunFolder.create(Path(folder) / "run", recipe, graph)
        training = Training(recipe, graph, run, None)
    training.model.train()
    generator = torch.Generator().manual_seed(0)
    batches = torch.randperm(len(training.objective), generator=generator)
    parts = batches.split(recipe.train.batch_size)[:-1]
    done = 0
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.perf_counter()
            training.step(parts[done % len(parts)], recipe.train.learning_rate)
            times.append(time.perf_counter() - began)
            done += 1
        print(json.dumps(times), flush=True)


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_and_after")
    parser.add_argument("other", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--data", type=Path, help="folder with the splits of FB15K-237")
    parser.add_argument("--only", help="names of the work, separated by semicolons")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()

    from benchmarks.machine import matmul_rate
    from reltucker.atomic import write_json
    from reltucker.cli.output import console
    from reltucker.graph.catalog import ENTRIES
    from reltucker.report import Column, Table

    data = options.data or ENTRIES["fb15k-237"].folder
    chosen = WORK if options.only is None else {n: WORK[n] for n in options.only.split(";")}
    rate = matmul_rate() / 1e9
    steps = {}
    for name, settings in chosen.items():
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        steps[name] = measure(options.other, data, settings)
    columns = [
        Column("step of", "work"),
        Column("ms before", "before", ".2f"),
        Column("ms after", "after", ".2f"),
        Column("ratio", "ratio", ".2f"),
    ]
    rows = [{"work": name, **figures} for name, figures in steps.items()]
    console().print(Table(f"Machine: {rate:.0f} GFLOPS (2048 matmul)", columns, rows).to_rich())
    if options.json:
        write_json(options.json, {"matmul_2048_gflops": rate, "milliseconds_per_step": steps})


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
