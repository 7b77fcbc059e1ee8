"""The demonstration: train the family's models on the built-in graph and compare them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reltucker.errors import RunError
from reltucker.graph import KnowledgeGraph
from reltucker.graph.families import families
from reltucker.report import Column, Table
from reltucker.report.matrices import mixing_heat_map
from reltucker.report.page import Part
from reltucker.run import Run, prepared, train
from reltucker.study.comparison import Options, compare_fits
from reltucker.study.fits import Fits, read_fits
from reltucker.study.inspection import absolute_mixing
from reltucker.study.parts import MODEL, QUALITY, SIZES
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
    Column("of all", "parameter_share", ".0%"),
    Column("core", "core_density", ".2%", spare=2),
    *(replace(column, interval=False) for column in QUALITY),
    Column("seconds", "seconds", ".1f", spare=5),
]


def demonstrate(
    out: Path, *, say: Callable[[str], None], progress: bool = True
) -> tuple[Run, list[Table | str]]:
    """Train every model on `families`; write runs, report.html, tables and pictures to `out`.

    Returns the best run, and tables and lines for the terminal.
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
    asked = (
        "The first test triple of each of the most frequent relations, with no further choice; "
        "where the model finds all of these, also the first that it answers with no true fact."
    )
    parts = comparison.parts | {
        "predictions": Part("Predictions", asked, {"predictions": predictions}),
        "patterns": mixing_matrices(fits),
    }
    replace(comparison, parts={name: parts[name] for name in PARTS}).write(out, "report")
    rows: list[dict[str, Any]] = [dict(row) for row in comparison.tables()["cost"].rows]
    most = max(row["effective_parameters"] for row in rows)
    for row in rows:
        row["parameter_share"] = row["effective_parameters"] / most
    figures = Table("Test triples ranked among all entities (* effective size)", COLUMNS, rows)
    said = [
        "of all: parameters as a share of the largest model's; core: share of its entries",
        *_sparse_lines(rows, {fit.name for fit in fits.fits if fit.learns == "pattern"}),
    ]
    return best, [figures, *said, comparison.tables()["differences"], predictions]


def _sparse_lines(rows: list[dict[str, Any]], sparse: set[str]) -> list[str]:
    """What the runs that have learned to be sparse are for, compared with a dense core."""
    dense = [row for row in rows if row["core_density"] == 1.0]
    return [
        f"{row['model']} learns which entries of its core it needs: {row['core_density']:.0%} of "
        f"them,\n  {row['effective_parameters'] / other['effective_parameters']:.0%} of the "
        f"parameters of {other['model']} for {row['mrr'] / other['mrr']:.0%} of its MRR"
        for other in dense[:1]
        for row in rows
        if row["run"] in sparse and row["core_density"] < 1.0
    ]


def held_out_predictions(run: Run, model: str) -> Table:
    """What a model answers where the truth was held out: the first test triple of each of the
    most frequent relations and, where all of these are found, the first to which none of the
    answers is true."""
    graph = run.graph
    order = [*first_of_frequent(graph), *range(len(graph.test))]
    asked = graph.named(graph.test[order])
    questions = [(subject, relation, "?") for subject, relation, _ in asked.iter_rows()]
    answers = run.predict_many(questions, top=3, held_out=True, progress=False)
    facts = set(asked.iter_rows())
    best: dict[int, list[str]] = dict(answers.group_by("question").agg("label").iter_rows())
    rows: list[dict[str, Any]] = []
    for number, (subject, relation, truth) in enumerate(asked.iter_rows(), start=1):
        found = truth in best.get(number, [])
        is_miss = not any((subject, relation, name) in facts for name in best.get(number, []))
        if number <= QUESTIONS or (is_miss and all(row["found"] for row in rows)):
            rows.append(
                {
                    "question": f"{subject}, {relation}, ?",
                    "answers": " · ".join(best.get(number, [])),
                    "truth": truth,
                    "found": found,
                }
            )
    headers = {"answers": "best three answers", "truth": "held-out fact"}
    columns = [Column(headers.get(key, key), key) for key in ("question", *headers, "found")]
    return Table(f"{model} asked for facts that it has not seen", columns, rows)


def first_of_frequent(graph: KnowledgeGraph) -> list[int]:
    """Where the first test triple of each of the most frequent relations stands."""
    _, first, counts = np.unique(graph.test[:, 1], return_index=True, return_counts=True)
    return [int(row) for row in first[np.argsort(-counts, kind="stable")[:QUESTIONS]]]


def questions_to_try(run: Run) -> list[dict[str, str]]:
    """Three questions about held-out facts of frequent relations, each with another place open."""
    graph = run.graph
    asked = []
    for row, fact in enumerate(graph.named(graph.test[first_of_frequent(graph)[:3]]).to_dicts()):
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
