"""Preparing a graph of millions of entities, opening it, and beginning to train on it.

    python -m benchmarks.prepare --json benchmarks/results/prepare.json

Each side is a process of its own and says how long it took, without its imports, and how much
memory: load_graph of one TSV file with both answer indexes; preparing the same file within the
default share of the machine's memory, and within 1 GiB; opening the prepared folder; and the time
until a first training step is done, from the file and from the folder (DRT, d_e = d_r = 16).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

SMALL = "1GiB"
OPENED = 3


def run_side(side: str, source: str, out: str) -> dict[str, float]:
    """One side, in this process."""
    import reltucker.graph
    from reltucker.graph.preparing import DEFAULT_MEMORY

    if side == "start":
        import reltucker.training
    began = time.perf_counter()
    if side in ("prepare", "prepare in 1 GiB"):
        memory = DEFAULT_MEMORY if side == "prepare" else SMALL
        reltucker.graph.prepare_graph(source, out, memory=memory)
    elif side == "start":
        first_step(source, Path(out))
    else:
        graph = reltucker.graph.load_graph(source)
        graph.answers("object")
        graph.answers("subject")
    seconds = time.perf_counter() - began
    # Linux counts in KiB, macOS in bytes.
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return {
        "seconds": seconds,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
    }


def first_step(source: str, out: Path) -> None:
    """All that training does before and in its first step."""
    import torch

    from reltucker.graph import load_graph
    from reltucker.training import Recipe, RunFolder, Training

    sizes = {"model.name": "drt", "model.entity_dim": 16, "model.relation_dim": 16}
    recipe, graph = Recipe().with_values(sizes), load_graph(source)
    training = Training(recipe, graph, RunFolder.create(out, recipe, graph), None)
    training.step(torch.arange(recipe.train.batch_size), recipe.train.learning_rate)


def measure(side: str, source: Path, out: Path) -> dict[str, float]:
    """One side, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.prepare", "--side", side, str(source), str(out)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(folder: Path, triples: int, entities: int) -> dict[str, Any]:
    """All sides, one after the other."""
    file, ready, small = folder / "triples.tsv", folder / "ready", folder / "small"
    make = [sys.executable, "-m", "benchmarks.load_graph", "--side", "make", "--path", str(file)]
    sizes = ["--triples", str(triples), "--entities", str(entities)]
    subprocess.run([*make, *sizes], check=True)
    sides = {
        "load": measure("load", file, ready),
        "prepare": measure("prepare", file, ready),
        "prepare in 1 GiB": measure("prepare in 1 GiB", file, small),
    }
    opened = [measure("load", ready, small) for _ in range(OPENED)]
    sides["open"] = {key: median(found[key] for found in opened) for key in opened[0]}
    measure("start", Path("families"), folder / "run-0")  # compiles the loops, for both
    sides["start from the file"] = measure("start", file, folder / "run-1")
    sides["start from the folder"] = measure("start", ready, folder / "run-2")
    load = sides["load"]["seconds"]
    return {
        "triples": triples,
        "entities": entities,
        "file_gib": file.stat().st_size / 2**30,
        "folder_gib": sum(path.stat().st_size for path in ready.iterdir()) / 2**30,
        "sides": sides,
        "ratio_to_load": {side: found["seconds"] / load for side, found in sides.items()},
    }


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(*options.side)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), options.triples, options.entities)
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
