"""How probabilities come true: on held-out folds of validation, on test, and for what is predicted.

    python -m benchmarks.probabilities NAME=RUN [NAME=RUN ...] [--json FILE]

Runs are calibrated in memory; nothing is written into their folders. Of the questions that test
triples answer, the first and the tenth answers are compared with the facts of test.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import polars as pl

from reltucker import Run
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.evaluation import calibrate, classify_triples, sampled
from reltucker.report import Column, Table

TRIPLES = 2_000
RANKS = (1, 10)
COLUMNS = [
    Column("run", "run"),
    Column("ECE, valid", "valid_error", ".3f"),
    Column("ECE, test", "test_error", ".3f"),
    Column("Brier, valid", "valid_brier", ".3f"),
    Column("Brier, test", "test_brier", ".3f"),
    Column("accuracy", "accuracy", ".3f"),
    Column("ROC AUC", "roc_auc", ".3f"),
    *(
        Column(f"{what} at {rank}", f"{what}_at_{rank}", ".2f")
        for rank in RANKS
        for what in ("said", "true")
    ),
    Column("seconds", "seconds", ".1f"),
]


def measure(run: Run) -> dict[str, Any]:
    """The figures of one run."""
    graph = run.graph
    began = time.perf_counter()
    calibration = calibrate(run.model, graph)
    seconds = time.perf_counter() - began
    run.__dict__["calibration"] = calibration
    judged = classify_triples(run.model, graph, calibration, sample=5_000)
    valid, test = calibration.reliability, judged.reliability
    return {
        "seconds": seconds,
        "triples": calibration.triples,
        "method": calibration.curve.method,
        "own_curves": sum(each.curve is not None for each in calibration.relations.values()),
        "relations": len(graph.relations),
        "valid_error": valid.expected_calibration_error,
        "test_error": test.expected_calibration_error,
        "valid_brier": valid.brier,
        "test_brier": test.brier,
        "accuracy": judged.accuracy,
        "f1": judged.f1,
        "roc_auc": judged.roc_auc,
        "average_precision": judged.average_precision,
        **_predicted(run),
    }


def _predicted(run: Run) -> dict[str, float]:
    """The mean probability of answers, and the share of them that are facts of test."""
    graph = run.graph
    seen = graph.test[graph.is_seen(graph.test)]
    rows = list(graph.named(sampled(seen, TRIPLES)).iter_rows())
    questions = [(s, r, "?") for s, r, _ in rows] + [("?", r, o) for _, r, o in rows]
    answers = run.predict_many(questions, top=max(RANKS), held_out=True, progress=False)
    answers = answers.filter(pl.col("rank").is_in(RANKS))
    positions = ["subject", "relation", "object"]
    facts = graph.named(graph.test).with_columns(true=pl.lit(1.0))
    joined = answers.join(facts, on=positions, how="left").with_columns(pl.col("true").fill_null(0))
    figures = {}
    for rank in RANKS:
        part = joined.filter(pl.col("rank") == rank)
        figures[f"said_at_{rank}"] = part.select(pl.col("probability").mean()).item()
        figures[f"true_at_{rank}"] = part.select(pl.col("true").mean()).item()
    return figures


def main() -> None:
    """Measure the given runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    named = dict(each.split("=", 1) for each in arguments.runs)
    figures = {name: measure(Run(path)) for name, path in named.items()}
    rows = [{"run": name, **each} for name, each in figures.items()]
    console().print(Table("", COLUMNS, rows).to_rich())
    if arguments.json is not None:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
