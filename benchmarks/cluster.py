"""What graphs beyond one machine would take, on paper: memory, traffic, hours and cost by nodes.

    python -m benchmarks.cluster [--scaling FILE] [--json FILE]

A step is modelled by its operations, the numbers it moves through memory, the bytes it sends and
the messages it waits for, as counted from the code of a step. Rates of one thread, and those of the
loopback between two processes, come from the file of `benchmarks.scaling`, whose two-process runs
are predicted, too, to show how far the model can be trusted. Rates of nodes and links in the tables
are assumptions, stated with them.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.report import Column, Table

RESULTS = Path(__file__).parent / "results"
BYTES = 4
NUMBERS = 2.5e9
"""Numbers a second that one thread moves: chosen such that its own steps are predicted."""
FIXED = 2.5e-3
"""Seconds of a step that no size explains: a few hundred calls."""


@dataclass(frozen=True)
class Work:
    """A graph, and how it is trained: a core without parameters of its own, such as ComplEx, or
    a dense one; scores over all entities, or over `candidates` that a batch shares."""

    entities: int
    rows_of_R: int
    triples: int
    entity_dim: int
    relation_dim: int
    questions: int
    """Of a step; a triple asks two."""
    candidates: int | None = None
    core: int = 0
    relations: int = 0
    """Distinct ones of a step, where there is a core."""


@dataclass(frozen=True)
class Machine:
    """What a process can do: operations and moved numbers a second, bytes a second to the others,
    seconds of a message."""

    operations: float
    numbers: float
    link: float
    latency: float


@dataclass(frozen=True)
class Step:
    """What a step of P processes takes of each of them."""

    compute_seconds: float
    traffic_bytes: float
    communication_seconds: float
    memory_bytes: float

    @property
    def seconds(self) -> float:
        """Nothing overlaps."""
        return self.compute_seconds + self.communication_seconds


def step(work: Work, machine: Machine, processes: int) -> Step:
    """Predict a step of so many processes, one on each machine."""
    P, Q, d, N = processes, work.questions, work.entity_dim, work.entities
    own, shared = Q / P, work.core + work.rows_of_R * work.relation_dim
    others = (P - 1) / P
    scored = N / P * Q if work.candidates is None else work.candidates * own
    operations = 6 * scored * d  # scores, and their two gradients
    operations += 6 * work.core * work.relations / P + 6 * own * d * (d if work.core else 4)
    # Rows are read, gathered, added to and moved with AdaGrad's sums; R and the core likewise.
    rows = 2 * own + (0 if work.candidates is None else work.candidates)
    touched = N / P if work.candidates is None else min(N / P, 2 * Q / P + work.candidates)
    moved = 6 * rows * d + 4 * touched * d + 4 * shared + 3 * scored
    sent = 2 * rows * d * others  # rows from their owners, and their gradients back
    if work.candidates is None:
        sent += 3 * Q * d * others  # queries to all, the sum of their gradients by a ring
    sent += 2 * shared * others
    messages = 0 if P == 1 else (8 if work.candidates is None else 5)
    waiting = messages * machine.latency * max(1.0, math.log2(P))
    compute = operations / machine.operations + moved / machine.numbers + FIXED
    # Parameter, gradient, sums, best values; the scores of a block.
    memory = BYTES * (4 * (N / P * d + shared) + min(scored, 64 << 20))
    return Step(compute, BYTES * sent, waiting + BYTES * sent / machine.link, memory)


def check(scaling: dict[str, Any]) -> dict[str, Any]:
    """Predictions for what was measured with two processes of one thread each."""
    fb = {"entities": 14_541, "rows_of_R": 474, "triples": 272_115}
    works = {
        "complex 400, k_vs_all, batch 512": Work(
            **fb, entity_dim=400, relation_dim=400, questions=512
        ),
        "drt 200/100, k_vs_all, batch 512": Work(
            **fb,
            entity_dim=200,
            relation_dim=100,
            questions=512,
            core=4_000_000,
            relations=280,
        ),
        "complex 400, 2,000 shared negatives, batch 1,000": Work(
            **fb, entity_dim=400, relation_dim=400, questions=2000, candidates=2000
        ),
    }
    machine = measured_machine(scaling)
    result: dict[str, Any] = {"machine": asdict(machine), "cases": {}}
    for name, work in works.items():
        result["cases"][name] = {}
        for way, processes in (("1 process, 1 thread", 1), ("2 processes", 2)):
            found = scaling["cases"][name][way]["milliseconds_per_step"]
            predicted = 1e3 * step(work, machine, processes).seconds
            figures = {"measured": found, "predicted": predicted, "ratio": predicted / found}
            result["cases"][name][way] = figures
    return result


def measured_machine(scaling: dict[str, Any]) -> Machine:
    """One thread of the machine that `benchmarks.scaling` ran on, and its loopback."""
    two = [case["2 processes"] for case in scaling["cases"].values()]
    link = 1e6 * sum(each["megabytes_per_second"] for each in two) / len(two)
    return Machine(1e9 * scaling["gflops_two_threads"] / 2, NUMBERS, link, 2e-4)


NODE = Machine(operations=6e11, numbers=6e9, link=1.25e9, latency=5e-5)
"""A node of 16 cores with AVX-512 and 64 GiB on a network of 10 Gbit/s: assumed, not measured."""
PRICE = 0.70
"""Dollars an hour of such a node: assumed."""
NODES = (1, 2, 4, 8, 16, 32, 64)
EPOCHS = 20
PLANS = {
    "Wikidata5M, ComplEx 256, all entities": Work(
        4_594_485, 1_644, 20_614_279, 256, 256, questions=8192
    ),
    "Wikidata5M, ComplEx 256, 10,000 shared negatives": Work(
        4_594_485, 1_644, 20_614_279, 256, 256, questions=20_000, candidates=10_000
    ),
    "Freebase86M, ComplEx 128, 10,000 shared negatives": Work(
        86_054_151, 29_648, 304_727_650, 128, 128, questions=100_000, candidates=10_000
    ),
}


def plan(work: Work) -> list[dict[str, float]]:
    """The figures by nodes, and where doubling them no longer makes it 1.5 times as fast."""
    rows: list[dict[str, float]] = []
    for nodes in NODES:
        each = step(work, NODE, nodes)
        hours = EPOCHS * 2 * work.triples / work.questions * each.seconds / 3600
        rows.append(
            {
                "nodes": nodes,
                "gib": each.memory_bytes / 2**30,
                "megabytes": each.traffic_bytes / 1e6,
                "communication": each.communication_seconds / each.seconds,
                "hours": hours,
                "cost": hours * nodes * PRICE,
            }
        )
    return rows


def knee(rows: list[dict[str, float]]) -> int:
    """The number of nodes after which twice as many are less than 1.5 times as fast."""
    for row, more in pairwise(rows):
        if row["hours"] < 1.5 * more["hours"]:
            return int(row["nodes"])
    return int(rows[-1]["nodes"])


def main() -> None:
    """Predict, print tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--scaling", type=Path, default=RESULTS / "scaling.json")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    checked = check(json.loads(options.scaling.read_text(encoding="utf-8")))
    plans = {name: plan(work) for name, work in PLANS.items()}
    rows = [
        {"name": name, "way": way, **figures}
        for name, ways in checked["cases"].items()
        for way, figures in ways.items()
    ]
    figures = [Column(name, name, ".1f") for name in ("measured", "predicted")]
    columns = [
        Column("case", "name"),
        Column("by", "way"),
        *figures,
        Column("ratio", "ratio", ".2f"),
    ]
    console().print(Table("Milliseconds of a step", columns, rows).to_rich())
    formats = {"nodes": ".0f", "gib": ".1f", "megabytes": ".0f", "communication": ".0%"}
    formats |= {"hours": ".1f", "cost": ".0f"}
    for name, found in plans.items():
        columns = [Column(key, key, form) for key, form in formats.items()]
        console().print(Table(f"{name}; knee at {knee(found)} nodes", columns, found).to_rich())
    if options.json:
        assumed = {"node": asdict(NODE), "dollars_an_hour": PRICE, "epochs": EPOCHS}
        knees = {name: knee(found) for name, found in plans.items()}
        write_json(
            options.json, {"check": checked, "assumed": assumed, "plans": plans, "knees": knees}
        )


if __name__ == "__main__":
    main()
