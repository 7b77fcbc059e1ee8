"""New facts of a whole graph, next to the product that all scores would take.

    python -m benchmarks.discovery RUN --json FILE

Looks for the 100 most plausible facts of a trained run on one thread: by default, and `--anywhere`
for every 16th relation; and measures the product of a block of queries with all entities by itself.
Seconds are those of the process, so that what else the machine does counts little. Also counts how
many of the first 100 are facts of the test split, taken as unknown, by scores and by probabilities.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reltucker import Run, open_run
from reltucker.evaluation import Calibration, calibrate
from reltucker.serving import discover
from reltucker.serving.best import rows_at_once
from reltucker.serving.discovery import _areas

PRODUCTS = 50
EVERY = 16


def seconds_of(work: Callable[[], Any]) -> float:
    """The time that the process spends on it."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(run: Run, top: int = 100) -> dict[str, Any]:
    """Seconds of both ways, and of the product for all pairs and relations."""
    graph, entities = run.graph, run.model.E[: run.graph.seen_entities]
    for direction in ("object", "subject"):
        graph.answers(direction)
    block = rows_at_once(len(entities), entities.shape[1])
    buffer = entities.new_empty(block, len(entities))
    queries = entities[:1].repeat(block, 1)
    torch.mm(queries, entities.t(), out=buffer)
    product = seconds_of(
        lambda: [torch.mm(queries, entities.t(), out=buffer) for _ in range(PRODUCTS)]
    )
    pairs = [area.size for _, areas in _areas(graph, None, None, False) for area in areas]
    some = [graph.relations.name(k) for k in range(0, graph.seen_relations, EVERY)]
    scores = len(entities) ** 2 * len(some)
    test = set(graph.named(graph.test).rows())

    def found(calibration: Calibration | None) -> int:
        options = {"top": top, "held_out": True, "progress": False}
        facts = discover(run.model, graph, calibration=calibration, **options)
        return len(test.intersection(facts.select("subject", "relation", "object").rows()))

    return {
        "run": run.path.name,
        "top": top,
        "facts": sum(pairs),
        "seconds": seconds_of(lambda: run.discover(top)),
        "relations": graph.seen_relations,
        "relations_anywhere": len(some),
        "facts_anywhere": scores,
        "seconds_anywhere": seconds_of(lambda: run.discover(top, some, anywhere=True)),
        "seconds_of_products": product / PRODUCTS * scores / (block * len(entities)),
        "test_facts_by_score": found(None),
        "test_facts_by_probability": found(calibrate(run.model, graph)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = json.dumps(measure(open_run(options.run)), indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
