"""Charts of many fits: quality against size, and cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from reltucker.study.chart_style import (
    INK,
    SHORT_LABEL,
    AnyChart,
    finished,
    finite,
    in_order,
    inline_data,
    measure,
    model_color,
    model_legend,
    need,
    repeated,
)

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
COST_NAMES = {
    "seconds_per_epoch": "seconds per epoch",
    "seconds": "seconds in all",
    "peak_mebibytes": "peak memory, MiB",
    "epoch_gigaoperations": "billion operations per epoch",
}


def quality_against(
    rows: Sequence[Mapping[str, Any]], key: str, title: str, *, note: str | None = None
) -> AnyChart:
    """MRR with its interval against a size, a line for each model.

    A row has the keys `model`, `mrr`, `mrr_low`, `mrr_high` and `key`; the value of `note` is
    written beside the point. Models that share a size are drawn a little apart.
    """
    points = [
        {
            "model": row["model"],
            "size": float(row[key]),
            "mrr": row["mrr"],
            "low": row["mrr_low"],
            "high": row["mrr_high"],
            "note": "" if note is None else str(row[note]),
        }
        for row in rows
        if finite(row["mrr"]) is not None
    ]
    need(points, "a fit")
    models = in_order(point["model"] for point in points)
    sizes = [point["size"] for point in points]
    axis = alt.Axis(format="~s", tickCount=6)
    if len(set(sizes)) < len(sizes):
        axis = alt.Axis(format=",d", values=sorted(set(sizes)))
        step = 0.008 * (max(sizes) - min(sizes) or max(sizes))
        middle = (len(models) - 1) / 2
        for point in points:
            point["size"] += step * (models.index(point["model"]) - middle)
    size = alt.X("size:Q", title=title, axis=axis).scale(zero=False, padding=24, nice=False)
    legend = model_legend(symbolOpacity=1)
    color = model_color(models, legend)
    shape = alt.Shape("model:N", sort=models, legend=legend)
    shape = shape.scale(domain=models, range=repeated(SHAPES, len(models)))
    base = alt.Chart(inline_data(points)).encode(x=size, color=color)
    y = measure("mrr", "MRR")
    spread = base.mark_rule(strokeWidth=1.5).encode(y=measure("low", "MRR"), y2="high:Q")
    line = base.mark_line(strokeWidth=1.5, opacity=0.6).encode(y=y)
    mark = base.mark_point(filled=True, size=80, opacity=1).encode(y=y, shape=shape)
    layers: list[Any] = [line, spread, mark]
    if note is not None:
        text = base.mark_text(align="left", dx=7, dy=-7, fontSize=11)
        layers.append(text.encode(y=y, text="note:N"))
    return finished(alt.layer(*layers).properties(width=560, height=320))


def cost_bars(rows: Sequence[Mapping[str, Any]]) -> AnyChart:
    """Time, memory and operations of each fit, a panel with a scale of its own for each.

    A row has the keys `fit` (unique), `model` (the colour) and those of COST_NAMES; what is
    missing is left out.
    """
    fits = in_order(row["fit"] for row in rows)
    models = in_order(row["model"] for row in rows)
    panels: list[Any] = []
    for key, title in COST_NAMES.items():
        bars = [
            {"fit": row["fit"], "model": row["model"], "value": value}
            for row in rows
            if (value := finite(row.get(key))) is not None
        ]
        if not bars:
            continue
        top = max(float(bar["value"]) for bar in bars) or 1.0
        amount = alt.X("value:Q", title=title).scale(domain=[0, 1.35 * top], nice=False)
        amount = amount.axis(tickCount=3, format=",.3~r", grid=False)
        fit = alt.Y("fit:N", sort=fits, title=None).scale(domain=fits)
        fit = fit.axis(
            labelExpr=SHORT_LABEL.format(limit=36),
            ticks=False,
            domain=False,
            labelPadding=6,
            labels=not panels,
        )
        base = alt.Chart(inline_data(bars)).encode(x=amount, y=fit)
        bar = base.mark_bar().encode(color=model_color(models, None))
        number = base.mark_text(align="left", dx=4, fontSize=12, color=INK)
        number = number.encode(text=alt.Text("value:Q", format=",.3~r"))
        panels.append((bar + number).properties(width=150, height=alt.Step(24)))
    need(panels, "a fit with a cost")
    return finished(alt.hconcat(*panels, spacing=18))
