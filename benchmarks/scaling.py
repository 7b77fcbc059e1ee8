"""Training by several processes: time of a step, share of communication, memory of a process.

    python -m benchmarks.scaling [--large FOLDER] [--json FILE]

Each case runs in one process with one thread, in one with two, and in two with one each (strong
scaling: the same batch), and in two with twice the batch (weak scaling). Communication is the time
in which a process waits for the others or for the network, here the loopback of one machine.
--large takes a graph of millions of entities, as `benchmarks.large_graph` makes it; --epoch trains
a whole epoch of such a graph, best a prepared one, by one process and by two.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import matmul_rate
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.distributed import Processes, joined_group
from reltucker.graph import load_graph
from reltucker.peers import Peers
from reltucker.report import Column, Table
from reltucker.training import Recipe, RunFolder, Training

RECIPROCAL = {"model.reciprocal": True, "train.entity_dropout": 0.0, "train.mixing_dropout": 0.0}
SHARED = {"train.shared_negatives": True, "train.negatives": 2000}
CASES: dict[str, dict[str, Any]] = {
    "complex 400, k_vs_all, batch 512": {
        **RECIPROCAL,
        "model.name": "complex",
        "model.entity_dim": 400,
        "train.objective": "k_vs_all",
        "train.batch_size": 512,
    },
    "drt 200/100, k_vs_all, batch 512": {
        **RECIPROCAL,
        "model.name": "drt",
        "model.entity_dim": 200,
        "model.relation_dim": 100,
        "model.batch_norm": True,
        "train.objective": "k_vs_all",
        "train.batch_size": 512,
    },
    "complex 400, 2,000 shared negatives, batch 1,000": {
        **RECIPROCAL,
        **SHARED,
        "model.name": "complex",
        "model.entity_dim": 400,
        "train.batch_size": 1000,
    },
    "drt 100/237, 24+24 negatives, batch 500": {
        "model.name": "drt",
        "model.entity_dim": 100,
        "model.relation_dim": 237,
    },
}
LARGE: dict[str, dict[str, Any]] = {
    "millions of entities: complex 128, 2,000 shared negatives, batch 2,000": {
        **RECIPROCAL,
        **SHARED,
        "model.name": "complex",
        "model.entity_dim": 128,
        "train.batch_size": 2000,
    }
}
EPOCH: dict[str, Any] = {
    **RECIPROCAL,
    "model.name": "complex",
    "model.entity_dim": 64,
    "train.shared_negatives": True,
    "train.negatives": 500,
    "train.batch_size": 20_000,
    "train.epochs": 1,
    "train.validate_triples": 500,
}
WAYS = {
    "1 process, 1 thread": (1, 1, 1),
    "1 process, 2 threads": (1, 2, 1),
    "2 processes": (2, 1, 1),
    "2 processes, twice the batch": (2, 1, 2),
}
"""Processes, threads of each, and how many times as large the batch is."""
STEPS, WARM_UP = 16, 4


class Metered(Processes):
    """Processes that count what they tell each other, and how long they wait for it."""

    seconds = 0.0
    sent = 0

    def total(self, x: Tensor) -> Tensor:
        """A ring sends everything twice."""
        return self._metered(2 * _bytes(x), lambda: super(Metered, self).total(x))

    def joined(self, part: Tensor, sizes: Sequence[int]) -> Tensor:
        """To everyone else."""
        return self._metered(_bytes(part), lambda: super(Metered, self).joined(part, sizes))

    def exchanged(self, x: Tensor, given: Sequence[int], taken: Sequence[int]) -> Tensor:
        """What stays here is not sent."""
        share = 1.0 - given[self.rank] / max(1, sum(given))
        size = self.size / (self.size - 1) * share * _bytes(x)
        return self._metered(size, lambda: super(Metered, self).exchanged(x, given, taken))

    def _metered(self, size: float, work: Any) -> Tensor:
        began = time.perf_counter()
        result: Tensor = work()
        self.seconds += time.perf_counter() - began
        self.sent += int(size * (self.size - 1) / self.size)
        return result


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def run_side(source: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Steps of one case; in this process, or in those that torchrun has started."""
    graph, recipe = load_graph(source), Recipe().with_values(settings)
    with joined_group(recipe.train) as joined, tempfile.TemporaryDirectory() as folder:
        peers: Peers = Metered(torch.device("cpu")) if joined.size > 1 else joined
        path = Path(str(peers.agreed(folder))) / "run"
        peers.first(lambda: RunFolder.create(path, recipe, graph) and None)
        training = Training(recipe, graph, RunFolder(path), None, peers)
        training.model.train()
        order = torch.randperm(len(training.objective), generator=training.generator)
        size, times = recipe.train.batch_size, []
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP and isinstance(peers, Metered):
                peers.seconds, peers.sent = 0.0, 0
            first = step * size % max(1, len(order) - size)
            began = time.perf_counter()
            training.step(order[first : first + size], recipe.train.learning_rate)
            times.append(time.perf_counter() - began)
        told = (peers.seconds, peers.sent) if isinstance(peers, Metered) else (0.0, 0)
        peers.wait()
    seconds = median(times[WARM_UP:])
    return {
        "milliseconds_per_step": 1e3 * seconds,
        "items_per_second": size / seconds,
        "communication": told[0] / sum(times[WARM_UP:]),
        "megabytes_per_step": told[1] / STEPS / 1e6,
        "megabytes_per_second": told[1] / max(told[0], 1e-9) / 1e6,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def measure(
    source: str, settings: dict[str, Any] | None, way: tuple[int, int, int]
) -> dict[str, Any]:
    """One case in one way; without settings, a whole epoch."""
    processes, threads, times = way
    if settings is not None:
        size = times * settings.get("train.batch_size", Recipe().train.batch_size)
        settings = {**settings, "train.batch_size": size}
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["-m", "benchmarks.scaling", "--side", source, "--settings", json.dumps(settings)]
    environment = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run_epoch(source: str) -> dict[str, Any]:
    """A whole epoch; in this process, or in those that torchrun has started."""
    graph, recipe = load_graph(source), Recipe().with_values(EPOCH)
    with joined_group(recipe.train) as peers, tempfile.TemporaryDirectory() as folder:
        path = Path(str(peers.agreed(folder))) / "run"
        peers.first(lambda: RunFolder.create(path, recipe, graph) and None)
        training = Training(recipe, graph, RunFolder(path), None, peers)
        training.model.train()
        began = time.perf_counter()
        loss = training._train_epoch()
        seconds = time.perf_counter() - began
        peak = training._peak_memory() or 0
    parameters = training.model.entities * training.model.E.shape[1] + training.model.R.numel()
    return {
        "entities": len(graph.entities),
        "triples": len(graph.train),
        "parameters": parameters,
        "seconds_per_epoch": seconds,
        "peak_gib": peak / 2**30,
        "loss": loss,
    }


def main() -> None:
    """All cases in all ways, in turns."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--large", help="a graph with millions of entities")
    parser.add_argument("--epoch", metavar="FOLDER", help="a whole epoch of this graph instead")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        settings = json.loads(options.settings)
        result = run_side(options.side, settings) if settings else run_epoch(options.side)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(result))
        return
    if options.epoch:
        ways = ("1 process, 2 threads", "2 processes")
        found = {way: measure(options.epoch, None, WAYS[way]) for way in ways}
        print(json.dumps(found, indent=2))
        if options.json:
            write_json(options.json, found)
        return
    cases = [(options.data, name, settings) for name, settings in CASES.items()]
    if options.large:
        cases += [(options.large, name, settings) for name, settings in LARGE.items()]
    results: dict[str, Any] = {"gflops_two_threads": matmul_rate() / 1e9, "cases": {}}
    rows = []
    for source, name, settings in cases:
        found = {way: measure(source, settings, sizes) for way, sizes in WAYS.items()}
        results["cases"][name] = found
        slow = found["1 process, 1 thread"]["items_per_second"]
        rows += [
            {"case": name, "way": way, **each, "times": each["items_per_second"] / slow}
            for way, each in found.items()
        ]
    columns = [
        Column("case", "case"),
        Column("by", "way"),
        Column("ms a step", "milliseconds_per_step", ".1f"),
        Column("times as fast", "times", ".2f"),
        Column("communication", "communication", ".0%"),
        Column("MB a step", "megabytes_per_step", ".1f"),
        Column("GiB a process", "peak_gib", ".2f"),
    ]
    console().print(Table("Scaling", columns, rows).to_rich())
    if options.json:
        write_json(options.json, results)


if __name__ == "__main__":
    main()
