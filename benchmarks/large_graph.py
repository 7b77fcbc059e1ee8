"""Training and ranking on a graph with millions of entities, next to FB15K-237.

    python benchmarks/large_graph.py --triples 20000000 --entities 5000000 --json FILE

Each side is a process of its own: it reads the graph from files, trains an epoch with the same
settings (d_e = d_r = 64, batch 500, 24+24 negatives), ranks a sample of the test triples, and says
what a triple cost and how much memory all of it took. The generated graph has as many relations as
FB15K-237, so that a batch has about as many distinct ones.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

RELATIONS = 237
HELD_OUT = 2000


def make_graph(folder: Path, triples: int, entities: int, seed: int = 0) -> None:
    """Write train, valid and test: a few entities in many triples, every entity in one."""
    generator = np.random.default_rng(seed)

    def skewed(size: int, power: int) -> np.ndarray:
        return (size * generator.random(triples) ** power).astype(np.int64)

    ids = generator.permutation(entities)
    subjects, objects = ids[skewed(entities, 2)], ids[skewed(entities, 3)]
    covered = min(entities, triples)
    subjects[:covered] = ids[:covered]
    frame = pl.DataFrame({"s": subjects, "r": skewed(RELATIONS, 3), "o": objects}).select(
        pl.format("Q{}", "s").alias("s"),
        pl.format("P{}", "r").alias("r"),
        pl.format("Q{}", "o").alias("o"),
    )
    frame = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    bounds = {"valid": (0, HELD_OUT), "test": (HELD_OUT, HELD_OUT), "train": (2 * HELD_OUT, None)}
    for name, (begin, length) in bounds.items():
        part = frame.slice(begin, length)
        part.write_csv(folder / f"{name}.tsv", separator="\t", include_header=False)


def run_side(source: str) -> dict[str, Any]:
    """Train for an epoch, rank a sample; in this process."""
    from reltucker import Recipe, load_graph, train
    from reltucker.graph.catalog import open_graph

    began = time.perf_counter()
    graph = load_graph(Path(source)) if Path(source).exists() else open_graph(source)
    read = time.perf_counter() - began
    recipe = Recipe().with_values(
        {
            "model.name": "drt",
            "model.entity_dim": 64,
            "model.relation_dim": 64,
            # The second epoch of the small graph is without compilation; the large has one.
            "train.epochs": 1 if len(graph.train) > 2_000_000 else 3,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        run = train(graph, recipe, out=Path(folder) / "run", progress=True)
        seconds = min(record["train_seconds"] for record in run.epochs())
        trained = time.perf_counter() - began - read
        began = time.perf_counter()
        evaluation = run.evaluate("test", sample=500)
        ranked = time.perf_counter() - began
    return {
        "entities": len(graph.entities),
        "train_triples": len(graph.train),
        "seconds_to_read": read,
        "seconds_to_train": trained,
        "seconds_per_epoch": seconds,
        "microseconds_per_triple": 1e6 * seconds / len(graph.train),
        "seconds_to_rank": ranked,
        "ranked_triples": 500,
        "mrr": evaluation.metrics["standard"].mrr,
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
        command = [sys.executable, __file__, "--side", source]
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
