"""The demonstration: train the family's models on the built-in graph and compare them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reltucker.errors import RunError
from reltucker.graph.families import families
from reltucker.report import Column, Table
from reltucker.report.matrices import mixing_heat_map
from reltucker.report.page import Part
from reltucker.run import Run, prepared, train
from reltucker.study.comparison import Options, compare_fits
from reltucker.study.fits import Fits, read_fits
from reltucker.study.inspection import absolute_mixing
from reltucker.study.parts import METRICS, MODEL, SIZES
from reltucker.training import Recipe, RunFolder

RUNS: dict[str, dict[str, Any]] = {
    "complex": {"model.name": "complex", "model.entity_dim": 100, "train.epochs": 20},
    "drt": {"model.name": "drt", "model.entity_dim": 60, "train.epochs": 40},
    "srt": {
        "model.name": "srt",
        "model.entity_dim": 50,
        "core.warm_up_epochs": 20,
        "train.batch_size": 100,
        "train.learning_rate": 0.2,
        "train.epochs": 90,
        "train.max_density": 0.25,
        "train.patience": 10,
    },
}
"""What is compared: the preset `good`, with sizes and epochs for a demonstration. SRT shows a
quarter of its core or less, hence its learning rate."""

PARTS = ("best", "training", "predictions", "patterns", "relations", "cost")
"""What the page shows of the comparison, with two parts of its own."""

RELATIONS = ("mother", "parent")
"""Whose mixing matrices are drawn."""

QUESTIONS = 6
"""How many held-out facts are asked for."""

COLUMNS = [
    *MODEL,
    *SIZES,
    Column("core", "core_density", ".2%"),
    *(Column(name, key, ".3f", best="max") for key, name in METRICS.items()),
    Column("seconds", "seconds", ".1f"),
]


def demonstrate(
    out: Path, *, say: Callable[[str], None], progress: bool = True
) -> tuple[Run, list[Table]]:
    """Train every model on `families`; write runs, report.html, tables and pictures to `out`.

    Returns the best run, and tables for the terminal.
    """
    graph = families()
    say(
        f"families: {len(graph.entities)} entities, {len(graph.relations)} relations, "
        f"{len(graph.train)} training triples"
    )
    for name, settings in RUNS.items():
        recipe = Recipe.preset("good").with_values({"graph.source": graph.name, **settings})
        _, recipe = prepared(graph, recipe)
        if (out / name).exists():  # what an earlier demonstration left goes, and nothing else
            earlier = RunFolder(out / name)
            if not earlier.exists() or not earlier.recipe().gives_same(recipe):
                raise RunError(
                    f"{earlier.path} exists and is not a run of the demo; choose another --out"
                )
            shutil.rmtree(earlier.path)
        train(graph, recipe, out=out / name, progress=progress)
    fits = read_fits([out / name for name in RUNS], progress=False)
    comparison = compare_fits(fits, Options(relations=RELATIONS))
    chosen = max(fits.fits, key=lambda fit: (fit.valid_mrr or {}).get("seen", 0.0))
    best = chosen.open()
    predictions = held_out_predictions(best, chosen.model)
    asked = "One question for each of the most frequent relations, with no further choice."
    parts = comparison.parts | {
        "predictions": Part("Predictions", asked, {"predictions": predictions}),
        "patterns": mixing_matrices(fits),
    }
    replace(comparison, parts={name: parts[name] for name in PARTS}).write(out, "report")
    title = "Test triples ranked among all entities (* effective size; core: share of its entries)"
    rows = comparison.tables()["cost"].rows  # these have all figures of a fit
    tables = [Table(title, COLUMNS, rows), comparison.tables()["differences"], predictions]
    return best, tables


def held_out_predictions(run: Run, model: str) -> Table:
    """What a model answers where the truth was held out: the first test triple of each of the
    most frequent relations."""
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
    headers = {"answers": "best three answers", "truth": "held-out fact"}
    columns = [Column(headers.get(key, key), key) for key in ("question", *headers, "found")]
    return Table(f"{model} asked for facts that it has not seen", columns, rows)


def questions_to_try(run: Run) -> list[dict[str, str]]:
    """Three questions about held-out facts of frequent relations, each with another place open."""
    graph = run.graph
    _, first, counts = np.unique(graph.test[:, 1], return_index=True, return_counts=True)
    chosen = first[np.argsort(-counts, kind="stable")[:3]]
    asked = []
    for row, fact in enumerate(graph.named(graph.test[chosen]).to_dicts()):
        fact.pop(("object", "subject", "relation")[row])
        asked.append(fact)
    return asked


def mixing_matrices(fits: Fits) -> Part:
    """|M_k| of the same relations in every model."""
    charts = {}
    for fit in fits.fits:
        run = fit.open()
        for name in RELATIONS:
            matrix = absolute_mixing(run, fits.graph.relations.find(name))
            chart = mixing_heat_map(matrix, f"{fit.model}: {name}", fits.graph.name)
            charts[f"mixing-{fit.name}-{name}"] = (chart, f"|M| of {name} in {fit.model}")
    text = "|M_k| of one relation: bright cells are pairs of coordinates that interact."
    return Part("Mixing matrices", text, charts=charts)
