"""Make the pictures of the documentation: python docs/make_pictures.py"""

import json
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from reltucker.model import CORES
from reltucker.report.charts import (
    bar_panels,
    chart_svg,
    quality_against,
    relation_bars,
    svg_png,
)
from reltucker.report.colors import GRID, MODELS
from reltucker.report.theme import AnyChart, drawing, names_of, titled
from reltucker.study.parts import COSTS, METRICS

PICTURES = Path(__file__).parent / "pictures"
STUDIES = Path(__file__).parent / "study"
BLUE, ORANGE = MODELS["complex"][0], MODELS["drt"][0]
SIZES = {"rescal": 2, "distmult": 4, "cp": 4, "complex": 4, "hole": 4, "analogy": 4}
NOTES = {"analogy": ", half of it scalars"}


def core_slices(tensor: npt.NDArray[np.floating[Any]], title: str, columns: int = 8) -> AnyChart:
    """The frontal slices G_1, G_2, ... of a small core (d_e, d_e, d_r), side by side.

    Cells show the sign of an entry: +1 and -1 are coloured, 0 is pale.
    """
    signs = {1: "+1", -1: "−1", 0: "0"}
    cells = [
        {"slice": f"G{l + 1}", "i": i, "j": j, "value": signs[int(np.sign(tensor[i, j, l]))]}
        for l, i, j in np.ndindex(tensor.shape[2], *tensor.shape[:2])
    ]
    bare = alt.Axis(title=None, labels=False, ticks=False, domain=False)
    color = alt.Color("value:N", title="entry").scale(
        domain=list(signs.values()), range=[BLUE, ORANGE, GRID]
    )
    cell = drawing(cells, "an entry").mark_rect(stroke="white", strokeWidth=1.5)
    cell = cell.encode(x=alt.X("j:O", axis=bare), y=alt.Y("i:O", axis=bare), color=color)
    size = 18 * tensor.shape[0]
    facet = alt.Facet("slice:N", title=None, sort=names_of(cells, "slice"))
    slices = cell.properties(width=size, height=size)
    return slices.facet(facet=facet, columns=columns, spacing=12).properties(title=title)


def study_charts(folder: Path) -> dict[str, AnyChart]:
    """The charts of a comparison whose figures are all in its comparison.json; mixing matrices and
    training curves need the runs."""
    found = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    tables, graph = found["tables"], found["graph"]
    header = (folder / "tables" / "relations.csv").read_text(encoding="utf-8").partition("\n")[0]
    compared = [name.removesuffix(" MRR") for name in header.split(",") if name.endswith(" MRR")][
        :2
    ]
    bars = [
        {
            "relation": row["shown"],
            "model": model,
            "tested": row["tested"],
            **{f"mrr{end}": row.get(f"{which}_mrr{end}") for end in ("", "_low", "_high")},
        }
        for row in tables["relations"]
        for which, model in zip(("first", "second"), compared, strict=True)
        if row["group"] and row["tested"]
    ]
    kinds = {row["run"]: row["model"] for row in tables["fits"]}
    pairs = [
        {**row, "fit": f"{kinds[row['run']]} {row['entity_dim']}", "model": kinds[row["run"]]}
        for row in tables["baselines"]
    ]
    parameters = "effective number of parameters (d_e beside the points)"
    charts = {
        "best": (bar_panels(tables["best"], METRICS, shares=True), "Best fit of each model"),
        "entity-size": (
            quality_against(tables["entity-size"], "entity_dim", "entity size d_e"),
            "MRR by entity size",
        ),
        "skyline": (
            quality_against(
                tables["skyline"], "effective_parameters", parameters, note="entity_dim"
            ),
            "MRR against effective parameters",
        ),
        "relations": (
            relation_bars(bars),
            "MRR on the relations with the strongest diagonals, then with the weakest",
        ),
        "baselines": (
            bar_panels(pairs, METRICS, by="fit", shares=True),
            "Fits without and with reciprocal relations",
        ),
    }
    if not any("p" in row for row in pairs):
        del charts["baselines"]
    about = f"{graph}, {found['split']}, protocol {found['protocol']}"
    cost = bar_panels(tables["cost"], COSTS, by="fit", format=",.3~r")
    return {
        **{name: titled(chart, title, about) for name, (chart, title) in charts.items()},
        "cost": titled(cost, "Time, memory and operations", graph),
    }


def main() -> None:
    """Draw the core of every bilinear model, and the studies again from their figures."""
    for name, size in SIZES.items():
        core = CORES[name].build(size, None, relations=1)
        title = f"{core.title}, entity size {size}{NOTES.get(name, '')}"
        svg = chart_svg(core_slices(core.tensor().numpy(), title))
        (PICTURES / f"core-{name}.png").write_bytes(svg_png(svg))
    for figures in sorted(STUDIES.glob("*/comparison.json")):
        for name, chart in study_charts(figures.parent).items():
            path = figures.parent / "pictures" / f"{name}.png"
            path.write_bytes(svg_png(chart_svg(chart)))


if __name__ == "__main__":
    main()
