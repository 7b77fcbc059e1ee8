"""Training and ranking on a graph with millions of entities, next to FB15K-237.

    python -m benchmarks.large_graph --triples 20000000 --entities 5000000 --json FILE

Each side is a process of its own: it reads the graph from files, trains 500 steps with the same
settings (DRT, d_e = d_r = 64, batch 500, 24+24 negatives), writes the checkpoint, ranks a sample of
the test triples, and says what a triple cost and how much memory all of it took. The generated
graph has as many relations as FB15K-237, so that a batch has about as many distinct ones.
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

import torch

from benchmarks.load_graph import make_triples
from reltucker.progress import track

RELATIONS = 237
HELD_OUT = 2000
STEPS = 500
RANKED = 200


def make_graph(folder: Path, triples: int, entities: int) -> None:
    """Write train, valid and test."""
    frame = make_triples(triples, entities, RELATIONS)
    bounds = {"valid": (0, HELD_OUT), "test": (HELD_OUT, HELD_OUT), "train": (2 * HELD_OUT, None)}
    for name, (begin, length) in bounds.items():
        part = frame.slice(begin, length)
        part.write_csv(folder / f"{name}.tsv", separator="\t", include_header=False)


def run_side(source: str) -> dict[str, Any]:
    """Train for some steps, write the checkpoint, rank a sample; in this process."""
    from reltucker.evaluation import rank_split, sampled
    from reltucker.graph import load_graph
    from reltucker.training import Recipe, RunFolder, Training

    began = time.perf_counter()
    graph = load_graph(source)
    read = time.perf_counter() - began
    sizes = {"model.name": "drt", "model.entity_dim": 64, "model.relation_dim": 64}
    recipe = Recipe().with_values(sizes)
    batch = recipe.train.batch_size
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", recipe, graph)
        training = Training(recipe, graph, run, None)
        order = torch.randperm(len(training.objective), generator=training.generator)
        times = []
        for step in range(STEPS):
            began = time.perf_counter()
            training.step(order[step * batch : (step + 1) * batch], recipe.train.learning_rate)
            times.append(time.perf_counter() - began)
        training.model.eval()
        training.best = {k: v.clone() for k, v in training.model.serving_state().items()}
        began = time.perf_counter()
        training.save()
        saved = time.perf_counter() - began
        began = time.perf_counter()
        triples = sampled(graph.test, RANKED)
        with track("ranking", 2 * RANKED, "queries") as advance:
            rank_split(training.model, graph, "test", triples=triples, advance=advance)
        ranked = time.perf_counter() - began
    return {
        "entities": len(graph.entities),
        "train_triples": len(graph.train),
        "seconds_to_read": read,
        "milliseconds_per_step": 1e3 * median(times),
        "microseconds_per_triple": 1e6 * median(times) / batch,
        "seconds_to_save": saved,
        "milliseconds_per_query": 1e3 * ranked / (2 * RANKED),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Both sides, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side)))
        return

    def measure(source: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "benchmarks.large_graph", "--side", source]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    small = measure("fb15k-237")
    with tempfile.TemporaryDirectory() as folder:
        make_graph(Path(folder), options.triples, options.entities)
        large = measure(folder)
    result = {
        "fb15k-237": small,
        "large": large,
        "cost_of_a_triple": large["microseconds_per_triple"] / small["microseconds_per_triple"],
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
