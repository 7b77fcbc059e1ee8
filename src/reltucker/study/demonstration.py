"""The demonstration: train the family's models on the built-in graph and compare them."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reltucker.errors import RunError
from reltucker.graph import KnowledgeGraph
from reltucker.graph.families import families
from reltucker.run import Evaluation, Run, train
from reltucker.study.charts import (
    comparison_bars,
    mixing_heat_map,
    relation_bars,
    training_curves,
)
from reltucker.study.report import Report
from reltucker.study.tables import Column, Table
from reltucker.training import Recipe, RunFolder

MODELS: dict[str, dict[str, Any]] = {
    "ComplEx": {"model.name": "complex", "model.entity_dim": 100},
    "DRT": {"model.name": "drt", "model.entity_dim": 100},
    "SRT": {
        "model.name": "srt",
        "model.entity_dim": 50,
        "core.warm_up_epochs": 20,
        "train.batch_size": 100,
        "train.learning_rate": 0.2,
        "train.epochs": 90,
        "train.max_density": 0.25,
    },
}
"""What is compared, with the default settings otherwise. SRT shows a quarter of its core or less; a
small graph has few steps an epoch, hence the smaller batches and the higher learning rate."""

QUESTIONS = 6
"""How many held-out facts are asked for."""


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration made: runs by model, the comparison, predictions, the page."""

    runs: dict[str, Run]
    best: str
    comparison: Table
    predictions: Table
    report: Path
    pictures: list[Path]


def demonstrate(out: Path, *, say: Callable[[str], None], progress: bool = True) -> Demonstration:
    """Train every model on `families`, and write runs, report.html and pictures to `out`."""
    graph = families()
    say(
        f"families: {len(graph.entities)} entities, {len(graph.relations)} relations, "
        f"{len(graph.train)} training triples"
    )
    runs: dict[str, Run] = {}
    evaluations: dict[str, Evaluation] = {}
    for label, settings in MODELS.items():
        recipe = Recipe().with_values({"graph.source": graph.name, **settings})
        _clear(out / label.lower(), recipe)
        run = train(graph, recipe, out=out / label.lower(), progress=progress)
        runs[label] = run
        evaluations[label] = run.evaluate("test", "relation", progress=False)
    comparison = compare(runs, evaluations)
    best = max(evaluations, key=lambda label: evaluations[label].metrics["seen"].mrr)
    predictions = held_out_predictions(runs[best], best)
    report = _report(graph, runs, evaluations, comparison, predictions)
    pictures = report.write_pictures(out / "pictures")
    report.write(out / "report.html")
    return Demonstration(runs, best, comparison, predictions, out / "report.html", pictures)


def _clear(folder: Path, recipe: Recipe) -> None:
    """Remove what an earlier demonstration left, and nothing else."""
    if not folder.exists():
        return
    earlier = RunFolder(folder)
    if not earlier.exists() or earlier.recipe() != recipe:
        raise RunError(f"{folder} exists and is not a run of the demo; choose another --out")
    shutil.rmtree(folder)


def compare(runs: dict[str, Run], evaluations: dict[str, Evaluation]) -> Table:
    """One row for each model: sizes, quality on test, time."""
    rows = []
    for label, evaluation in evaluations.items():
        result = runs[label].result or {}
        figures = evaluation.to_dict()
        rows.append(
            {
                "model": label,
                **{key: figures[key] for key in ("entity_dim", "relation_dim")},
                "effective_relation_size": figures["effective_relation_size"],
                "effective_parameters": figures["effective_parameters"],
                "core_density": figures["core_density"],
                **figures["seen"],
                "seconds": result.get("seconds"),
            }
        )
    columns = [
        Column("model", "model"),
        Column("d_e", "entity_dim", "d"),
        Column("d_r", "relation_dim", "d"),
        Column("d_r*", "effective_relation_size", ",.0f"),
        Column("params*", "effective_parameters", ",d"),
        Column("core", "core_density", ".2%"),
        Column("MRR", "mrr", ".3f", best="max"),
        Column("HITS@1", "hits@1", ".3f", best="max"),
        Column("HITS@3", "hits@3", ".3f", best="max"),
        Column("HITS@10", "hits@10", ".3f", best="max"),
        Column("seconds", "seconds", ".1f"),
    ]
    return Table(
        "Test triples ranked among all entities (* effective size; core: share of its entries)",
        columns,
        rows,
    )


def held_out_predictions(run: Run, label: str) -> Table:
    """What a model answers where the truth was held out: the first test triple of each of the
    most frequent relations, with no further choice."""
    graph = run.graph
    _, first, counts = np.unique(graph.test[:, 1], return_index=True, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:QUESTIONS]
    asked = graph.named(graph.test[first[frequent]])
    questions = [(subject, relation, "?") for subject, relation, _ in asked.iter_rows()]
    answers = run.predict_many(questions, top=3, held_out=True, progress=False)
    rows = []
    for number, (subject, relation, truth) in enumerate(asked.iter_rows(), start=1):
        best = answers.filter(pl.col("question") == number)["label"].to_list()
        rows.append(
            {
                "question": f"{subject}, {relation}, ?",
                "answers": " · ".join(best),
                "truth": truth,
                "found": truth in best,
            }
        )
    columns = [
        Column("question", "question"),
        Column("best three answers", "answers"),
        Column("held-out fact", "truth"),
        Column("found", "found"),
    ]
    return Table(f"{label} asked for facts that it has not seen", columns, rows)


def _report(
    graph: KnowledgeGraph,
    runs: dict[str, Run],
    evaluations: dict[str, Evaluation],
    comparison: Table,
    predictions: Table,
) -> Report:
    report = Report("reltucker on the families graph", "Link prediction with RT decompositions")
    report.text(
        f"The graph has {len(graph.entities)} entities, {len(graph.relations)} relations and "
        f"{len(graph.train):,} training triples; {len(graph.test):,} test triples were held out. "
        "Every test triple is asked for in both directions, (i, k, ?) and (?, k, j); answers that "
        "are known facts are left out of the ranking."
    )
    report.heading("Comparison")
    report.table(
        comparison,
        "MRR: mean of 1 / rank; HITS@k: share of true answers in the first k; core: share of the "
        "core's entries that are not zero.",
    )
    rows = [
        {"model": label, **evaluation.to_dict()["seen"]}
        for label, evaluation in evaluations.items()
    ]
    report.chart(comparison_bars(rows), "Quality on the test triples", "comparison")
    report.heading("Training")
    epochs = {label: run.epochs() for label, run in runs.items()}
    report.chart(training_curves(epochs), "Validation MRR and loss by epoch", "training")
    report.heading("Predictions")
    report.table(predictions, "One question for each of the most frequent relations.")
    report.heading("By relation")
    groups = [
        {"relation": group["relation"], "model": label, "mrr": group["seen"]["mrr"]}
        for label, evaluation in evaluations.items()
        for group in evaluation.to_dict()["by_relation"]
    ]
    report.chart(relation_bars(groups), "MRR by relation, most frequent first", "relations")
    report.heading("Mixing matrices")
    report.text("|M_k| of one relation: bright cells are pairs of coordinates that interact.")
    for label, run in runs.items():
        for relation in ("mother", "parent"):
            matrix = run.model.mixing_matrix(graph.relations.find(relation)).cpu().numpy()
            chart = mixing_heat_map(matrix, f"{label}: {relation}")
            name = f"mixing-{label.lower()}-{relation}"
            report.chart(chart, f"|M| of {relation} in {label}", name)
    return report
