"""How many questions a second the HTTP API answers, next to PyKEEN's predict_target in a loop.

    python -m benchmarks.serving [--peers] [--seconds 10] [--clients 1 8 64] [--json FILE]

A server with a ComplEx model of the sizes of FB15K-237 (d_e = 200, weights drawn at random) runs in
a process of its own, on loopback. Each client keeps one connection and asks (subject, relation, ?)
for the ten best answers that are not known, one question after the other. PyKEEN answers the same
questions by predict_target, without known triples, in one process and without HTTP. Names are found
while they are typed among two million made-up ones.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.large_graph import make_graph
from benchmarks.peers import measure_pykeen, pykeen_python
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.graph import KnowledgeGraph, Vocabulary, load_graph
from reltucker.model import CORES, RelationalTucker, sizes_of
from reltucker.report import Column, Table
from reltucker.serving.http.names import IndexedVocabulary
from reltucker.training import Recipe

ENTITIES, TRIPLES, DIM = 14_541, 310_116, 200
QUESTIONS = 2_000
WARM_UP = 1.0
PEER_CALLS = 200
NAMES = 2_000_000
SYLLABLES = ("ka", "ro", "mi", "ne", "lu", "san", "ter", "bo", "vi", "el", "dra", "qui", "po", "ma")


class Untrained:
    """A run with weights drawn at random: answers take as long as those of a trained one."""

    path = Path("benchmark")
    result = None
    calibration = None

    def __init__(self, folder: Path) -> None:
        self.graph: KnowledgeGraph = load_graph(folder)
        self.recipe = Recipe().with_values({"model.name": "complex", "model.entity_dim": DIM})
        core = CORES["complex"].build(DIM, None, len(self.graph.relations))
        self.model = RelationalTucker(len(self.graph.entities), len(self.graph.relations), core)
        self.model.reset(torch.Generator().manual_seed(0))

    def epochs(self) -> list[dict[str, Any]]:
        """There was no training."""
        return []

    def describe(self) -> dict[str, Any]:
        """What the server asks for."""
        return {"model": "complex", **sizes_of(self.model).to_dict()}


def serve_here(folder: Path) -> None:
    """The server's process."""
    from reltucker.serving.http import Address, serve

    serve([Untrained(folder)], Address(port=0), ready=lambda url: print(url, flush=True))


async def ask_for(port: int, bodies: list[bytes], clients: int, seconds: float) -> list[float]:
    """So many clients ask one question after the other; returns the seconds that each took."""
    times: list[float] = []
    begin = time.perf_counter() + WARM_UP
    end = begin + seconds

    async def client(seed: int) -> None:
        draw = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < end:
            body = draw.choice(bodies)
            head = (
                "POST /api/runs/benchmark/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(answer.decode())
            length = answer.lower().partition(b"content-length:")[2].split()[0]
            await reader.readexactly(int(length))
            if began >= begin:
                times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client(seed) for seed in range(clients)))
    return times


def figures(times: list[float], seconds: float) -> dict[str, float]:
    """Requests a second, and what half and 99 of 100 of them took at the most."""
    ordered = sorted(times)
    return {
        "requests_per_second": len(times) / seconds,
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[len(ordered) * 99 // 100],
    }


def measure_server(folder: Path, clients: list[int], seconds: float) -> dict[str, dict[str, float]]:
    """The figures for each number of clients."""
    graph = load_graph(folder)
    rows = graph.named(graph.test[graph.is_seen(graph.test)][:QUESTIONS])
    bodies = [
        json.dumps({"questions": [{"subject": subject, "relation": relation}]}).encode()
        for subject, relation, _ in rows.iter_rows()
    ]
    command = [sys.executable, "-m", "benchmarks.serving", "--folder", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
        return {
            f"{count} clients": figures(asyncio.run(ask_for(port, bodies, count, seconds)), seconds)
            for count in clients
        }
    finally:
        server.terminate()
        server.wait()


def measure_names(count: int) -> dict[str, float]:
    """The index of so many names of two made-up words and a number: making it, and completing one
    to six letters."""
    draw = random.Random(0)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(2, 4))).title() for _ in range(50_000)]
    names = [f"{draw.choice(words)} {draw.choice(words)} {n}" for n in range(count)]
    began = time.perf_counter()
    index = IndexedVocabulary(Vocabulary(names), np.arange(count) % 1_000)
    built = time.perf_counter() - began
    times = []
    for _ in range(QUESTIONS):
        prefix = draw.choice(words)[: draw.randint(1, 6)]
        began = time.perf_counter()
        index.complete(prefix, 10)
        times.append(time.perf_counter() - began)
    timed = figures(times, sum(times))
    return {"count": count, "build_seconds": built, **timed}


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="measure PyKEEN in the same run")
    parser.add_argument("--pykeen-python", type=Path, help="a Python that has PyKEEN already")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--entities", type=int, default=ENTITIES)
    parser.add_argument("--triples", type=int, default=TRIPLES)
    parser.add_argument("--names", type=int, default=NAMES, help="for type-ahead")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        serve_here(options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_graph(folder, options.triples, options.entities)
        found: dict[str, Any] = measure_server(folder, options.clients, options.seconds)
        if options.peers:
            python = pykeen_python(options.pykeen_python)
            sizes = {"entity_dim": DIM, "triples": PEER_CALLS}
            peer = measure_pykeen(python, folder, "predict", model="complex", **sizes)
            found["PyKEEN, a loop"] = peer
    names = measure_names(options.names)
    columns = [
        Column("", "side"),
        Column("a second", "requests_per_second", ",.1f"),
        Column("p50 ms", "p50_ms", ",.2f"),
        Column("p99 ms", "p99_ms", ",.2f"),
    ]
    rows = [{"side": side, **each} for side, each in found.items()]
    console().print(Table("Questions answered", columns, rows).to_rich())
    print(
        f"{names['count']:,} names: index in {names['build_seconds']:.1f} s, type-ahead p50 "
        f"{names['p50_ms']:.2f} ms, p99 {names['p99_ms']:.2f} ms"
    )
    if options.json:
        sizes = {"entities": options.entities, "dim": DIM}
        write_json(options.json, {**sizes, "sides": found, "names": names})


if __name__ == "__main__":
    main()
