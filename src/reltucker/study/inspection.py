"""What a model has learned: mixing matrices, where its core is dense, how diagonal it is."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reltucker.graph import KnowledgeGraph
from reltucker.report import Column, Table
from reltucker.report.matrices import mixing_heat_map, slice_density
from reltucker.report.page import Page, Part
from reltucker.report.theme import AnyChart, titled
from reltucker.run import Run

MOST_FREQUENT = 30
"""The paper orders this many of the most frequent relations by their diagonals."""

MIXING_COLUMNS = (
    Column("relation", "label"),
    Column("triples", "triples", ",d"),
    Column("diagonal", "diagonal", ",.2f"),
    Column("share of |M|", "share", ".1%"),
    Column("non-zero", "density", ".1%"),
)
"""For rows of `describe_mixing`."""


def inspect_run(run: Run, relations: list[str], out: Path) -> tuple[dict[str, Any], Table]:
    """Draw |M_k| of the given relations (by default the most and the least diagonal two of the most
    frequent ones), the density of the core's slices, and order relations by sum_i |m_ii|.

    Writes inspection.html and pictures; returns all figures, JSON-ready, and the table of the
    diagonals.
    """
    core, graph = run.model.core, run.graph
    rows = [describe_mixing(run, k) for k in most_frequent(graph, MOST_FREQUENT)]
    rows.sort(key=lambda row: -row["diagonal"])
    title = f"The {len(rows)} most frequent relations by the sum of absolute diagonal values"
    table = Table(title, MIXING_COLUMNS, rows)
    ends = [row["relation"] for row in (*rows[:2], *rows[2:][-2:])]
    chosen = [graph.relations.find(name) for name in relations or ends]
    density = core.nonzero_by_slice().cpu().numpy() / core.entity_dim**2
    charts = {}
    if core.learns == "pattern" and core.density() < 1:  # else all slices look alike
        title = "Share of non-zero entries by slice"
        chart = titled(slice_density(density, core.title), title, f"{core.title}, {graph.name}")
        charts["core-density"] = (chart, title)
    entries = f"{core.entity_dim**2:,} x {core.relation_dim:,} entries"
    parts = [
        Part(
            "Mixing matrices",
            "|M_k|: bright cells are pairs of coordinates that interact in a relation.",
            charts=mixing_charts(run, chosen, "mixing"),
        ),
        Part(
            "The core",
            f"{core.density():.4%} of the core's {entries} are not zero.",
            charts=charts,
        ),
        Part("Diagonals", tables={"diagonals": table}),
    ]
    page = Page(f"Inside {run.path.name}", f"{core.title}, core and mixing matrices", [], parts)
    pictures = page.write(out / "inspection.html", out)
    figures = {
        "run": str(run.path),
        "core_density": core.density(),
        "density_by_slice": density.tolist(),
        "relations": rows,
        "report": str(out / "inspection.html"),
        "pictures": [str(path) for path in pictures],
    }
    return figures, table


def mixing_charts(run: Run, relations: Iterable[int], name: str) -> dict[str, tuple[AnyChart, str]]:
    """|M_k| of relations as heat maps with captions, called NAME-1, NAME-2, ..."""
    within = f"{run.model.core.title} ({run.path.name})"
    charts = {}
    for number, k in enumerate(relations, start=1):
        label = run.graph.relations.label(k)
        chart = mixing_heat_map(absolute_mixing(run, k), label, f"{within}, {run.graph.name}")
        charts[f"{name}-{number}"] = (chart, f"|M| of {label} in {within}")
    return charts


def most_frequent(graph: KnowledgeGraph, count: int) -> list[int]:
    """The relations with the most training triples, largest first."""
    frequency = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    return [int(k) for k in np.argsort(-frequency, kind="stable")[:count]]


def describe_mixing(run: Run, relation: int) -> dict[str, Any]:
    """How diagonal and how dense M_k is: sum_i |m_ii|, its share of sum_ij |m_ij|, the share of
    entries that are not zero; JSON-ready."""
    matrix = absolute_mixing(run, relation)
    diagonal = float(np.trace(matrix))
    return {
        "relation": run.graph.relations.name(relation),
        "label": run.graph.relations.label(relation),
        "triples": int(np.count_nonzero(run.graph.train[:, 1] == relation)),
        "diagonal": diagonal,
        "share": diagonal / float(matrix.sum() or 1.0),
        "density": float(np.count_nonzero(matrix)) / matrix.size,
    }


def absolute_mixing(run: Run, relation: int) -> npt.NDArray[np.float32]:
    """|M_k| (d_e, d_e) of one relation."""
    return run.model.mixing_matrix(relation).abs().cpu().numpy()
