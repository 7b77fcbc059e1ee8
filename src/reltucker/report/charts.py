"""Charts of fits and of searches, each defined once for page, PNG and SVG."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from reltucker.atomic import write_bytes, write_text
from reltucker.report.colors import GROUND, INK, LINE, QUIET, model_colors, with_dark_scheme
from reltucker.report.texts import printable
from reltucker.report.theme import (
    DASHES,
    LOOK,
    SHADES,
    SHAPES,
    AnyChart,
    Rows,
    by_model,
    drawing,
    finite,
    measure,
    model_legend,
    mrr_axis,
    names_axis,
    names_of,
    nothing_to_draw,
    share_end,
    with_intervals,
)

PNG_SCALE = 2


# -- fits -------------------------------------------------------------------------------------


def training_curves(epochs: Mapping[str, Rows]) -> AnyChart:
    """Validation MRR and training loss by epoch, one line for each model.

    `epochs` has the records of epochs.jsonl for each model. A point marks the epoch whose weights
    were kept, that of the best validation MRR; without validation triples there is only the loss.
    """
    points = [
        {
            "model": model,
            "epoch": record["epoch"],
            "loss": finite(record.get("loss")),
            "mrr": finite(record.get("valid", {}).get("seen", {}).get("mrr")),
            "best": bool(record.get("best")),
        }
        for model, records in epochs.items()
        for record in records
    ]
    models = names_of(points)
    # Not every epoch is validated, and a line breaks where a value is missing.
    judged = [point for point in points if point["mrr"] is not None]
    # The epoch whose weights were kept is the last that was the best when it ended.
    kept = {point["model"]: point for point in judged if point["best"]}
    epoch = alt.X("epoch:Q", title="epoch").axis(tickMinStep=1, format="d")
    epoch = epoch.scale(nice=False, padding=8)
    legend = model_legend(symbolType="stroke", symbolSize=320, symbolOpacity=1)
    color = by_model(alt.Color, models, legend=legend)
    dash = by_model(alt.StrokeDash, models, DASHES, legend=legend)

    def line(of: Rows) -> Any:
        # A line through one epoch would be invisible.
        chart = drawing(of, "an epoch").mark_line(strokeWidth=2, point=len(of) == len(models))
        return chart.encode(x=epoch, color=color, strokeDash=dash).properties(width=560)

    loss = line(points).encode(y=measure("loss", "training loss")).properties(height=160)
    if not judged:
        return loss
    mrr_title = "validation MRR (● best epoch)"
    axes = {"x": epoch.title(None), "y": mrr_axis(judged, "mrr", mrr_title)}
    mrr = line(judged).encode(**axes).properties(height=280)
    if kept:
        mark = drawing(list(kept.values())).mark_point(
            filled=True, size=110, opacity=1, stroke=GROUND, strokeWidth=1.5
        )
        mrr += mark.encode(color=color, **axes)
    return alt.vconcat(mrr, loss, spacing=14)


def bar_panels(
    rows: Rows,
    measures: Mapping[str, str],
    *,
    by: str = "model",
    format: str = ".3f",
    shares: bool = False,
    width: int = 160,
) -> AnyChart:
    """A panel for each of the measures (key to title), with a bar and its number for each row.

    What a row lacks is left out. Ends of intervals, such as `mrr_low` and `mrr_high`, are drawn as
    a line over the bar. Bars are named by the key `by`, which must tell the rows apart, and
    coloured by `model`. The panels of `shares` have one scale up to 1, or up to where the values
    end if all are below 0.6; other panels have one each.
    """
    names, models = names_of(rows, by), names_of(rows)
    found = {title: with_intervals(rows, key, by, "model") for key, title in measures.items()}
    tops = {title: max(bar["high"] for bar in bars) for title, bars in found.items() if bars}
    panels: list[Any] = []
    for title, top in tops.items():
        # Room for the number behind the longest bar.
        end = share_end(max(tops.values())) if shares else 1.35 * top or 1.0
        value = alt.X("value:Q", title=title).scale(domain=[0, end], nice=False)
        value = value.axis(tickCount=3, format=format.replace(".3f", ".3~r"), grid=False)
        base = drawing(found[title]).encode(x=value, y=names_axis(by, names, labels=not panels))
        bar = base.mark_bar().encode(
            color=by_model(alt.Color, models), opacity=by_model(alt.Opacity, models, SHADES)
        )
        spread = base.mark_rule(color=INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
        number = base.mark_text(align="left", dx=4)
        number = number.encode(x="high:Q", text=alt.Text("value:Q", format=format))
        panel = alt.layer(bar, spread, number)
        panels.append(panel.properties(width=width, height=alt.Step(26)))
    if not panels:
        raise nothing_to_draw("a row with one of " + ", ".join(measures))
    # A bar that ends at 1 has its number behind the axis.
    return alt.hconcat(*panels, spacing=52 if shares else 18)


def relation_bars(rows: Rows) -> AnyChart:
    """MRR of each model by relation, both in the order of rows.

    A row has the keys `relation`, `model`, `mrr` and `tested`, the number of triples, which is
    written beside the bars; where it has an interval, also `mrr_low` and `mrr_high`.
    """
    bars = with_intervals(rows, "mrr", "relation", "model", "tested")
    relations, models = names_of(bars, "relation"), names_of(bars)
    relation = names_axis("relation", relations)
    relation = relation.scale(domain=relations, paddingInner=0.25, paddingOuter=0.15)
    width = 460
    counts = {bar["relation"]: {"relation": bar["relation"], "n": bar["tested"]} for bar in bars}
    count = drawing(list(counts.values()), "a relation with an MRR")
    count = count.transform_calculate(
        said="format(datum.n, ',') + (datum.n === 1 ? ' triple' : ' triples')"
    )
    count = count.mark_text(align="left", dx=8).encode(
        x=alt.value(width), y=relation, text="said:N"
    )
    base = drawing(bars).encode(y=relation, yOffset=alt.YOffset("model:N", sort=models))
    value = alt.X("value:Q", title="MRR").scale(domain=[0, 1])
    legend = model_legend(orient="top", symbolType="square")
    bar = base.mark_bar().encode(
        x=value,
        color=by_model(alt.Color, models, legend=legend),
        opacity=by_model(alt.Opacity, models, SHADES, legend=legend),
    )
    spread = base.mark_rule(color=INK).encode(x=alt.X("low:Q", title="MRR"), x2="high:Q")
    step = alt.Step(16 if len(models) == 1 else 9, **{"for": "offset"})
    return (bar + spread + count).properties(width=width, height=step)


def quality_against(rows: Rows, key: str, title: str, *, note: str | None = None) -> AnyChart:
    """MRR with its interval against a size, a line for each model.

    A row has the keys `model`, `mrr`, `mrr_low`, `mrr_high` and `key`; the value of `note` is
    written beside the point. Where all have one size, that is a category, with the models side by
    side.
    """
    points = with_intervals(rows, "mrr", "model", key, *([note] if note else []))
    models, sizes = names_of(points), sorted({point[key] for point in points})
    legend = model_legend(symbolOpacity=1)
    base = drawing(points, "a fit").encode(color=by_model(alt.Color, models, legend=legend))
    if len(sizes) == 1:
        size: Any = alt.X(f"{key}:O", title=title)
        size = size.axis(format=",d", formatType="number", labelAngle=0)
        base = base.encode(x=size, xOffset=alt.XOffset("model:N", sort=models))
    else:
        axis = alt.Axis(format=",d", values=sizes, labelOverlap="greedy")
        axis = axis if note is None else alt.Axis(format="~s", tickCount=6)
        size = alt.X(f"{key}:Q", title=title, axis=axis)
        base = base.encode(x=size.scale(zero=False, padding=24, nice=False))
    y = mrr_axis(points, "value", ends=("low", "high"))
    spread = base.mark_rule(strokeWidth=1.5, opacity=0.7)
    spread = spread.encode(y=mrr_axis(points, "low", ends=("value", "high")), y2="high:Q")
    line = base.mark_line(strokeWidth=1.5, opacity=0.6).encode(y=y)
    mark = base.mark_point(filled=True, size=80, opacity=1)
    mark = mark.encode(y=y, shape=by_model(alt.Shape, models, SHAPES, legend=legend))
    chart = line + spread + mark
    if note:
        text = base.mark_text(align="left", dx=7, dy=-7, fontSize=11)
        chart += text.encode(y=y, text=f"{note}:N")
    return chart.properties(width=560, height=320)


def reliability_curve(bins: Rows, model: str) -> AnyChart:
    """The share of true triples against the mean probability, a point for each of the bins, in the
    colour of the model; on the diagonal, probabilities come true.

    A row has the keys `mean_probability`, `share_true` and `count`; one without triples is left
    out. Larger points stand for more triples.
    """
    points = [row for row in bins if row["count"]]
    keys = ("mean_probability", "share_true")
    x, y = (
        channel(f"{key}:Q", title=title).scale(domain=[0, 1])
        for channel, key, title in zip(
            (alt.X, alt.Y), keys, ("mean probability", "share of true triples"), strict=True
        )
    )
    diagonal = drawing([dict.fromkeys(keys, end) for end in (0.0, 1.0)])
    diagonal = diagonal.mark_line(strokeDash=[4, 4], color=LINE).encode(x=x, y=y)
    base = drawing(points, "a bin with triples").encode(x=x, y=y)
    (color,) = model_colors([model])
    line = base.mark_line(strokeWidth=2, color=color)
    size = alt.Size("count:Q", title="triples").scale(type="log", range=[40, 400])
    dots = base.mark_point(filled=True, opacity=1, color=color).encode(size=size)
    return (diagonal + line + dots).properties(width=320, height=320)


# -- searches ---------------------------------------------------------------------------------


def search_history(rows: Rows) -> AnyChart:
    """Validation MRR by trial, with the best so far as a line.

    A row has the keys `number`, `model`, `state` and `mrr`; one without an MRR is left out.
    """
    points, best = [], 0.0
    for row in rows:
        if row["mrr"] is not None:
            best = max(best, row["mrr"]) if row["state"] == "complete" else best
            chosen = {key: row[key] for key in ("number", "model", "state", "mrr")}
            points.append({**chosen, "best": best or None})
    number = alt.X("number:Q", title="trial").axis(tickMinStep=1, format="d")
    number = number.scale(nice=False, padding=12, zero=False)
    state = alt.Shape("state:N", title=None)
    state = state.scale(domain=["complete", "pruned"], range=["circle", "cross"])
    if "pruned" not in names_of(points, "state"):
        state = state.legend(None)
    base = drawing(points, "a trial with an MRR").encode(x=number)
    line = base.mark_line(interpolate="step-after", color=QUIET, strokeWidth=2)
    dots = base.mark_point(filled=True, size=70, opacity=0.9)
    title = "validation MRR (line: best so far)"
    color = by_model(alt.Color, names_of(points), legend=model_legend())
    dots = dots.encode(y=mrr_axis(points, "mrr", title), color=color, shape=state)
    return (line.encode(y="best:Q") + dots).properties(width=560, height=280)


def skyline_of_trials(rows: Rows, front: Rows, limit: int | None = None) -> AnyChart:
    """Validation MRR against effective parameters; a line joins the trials that none beats, and
    the others are pale.

    A row has the keys `number`, `model`, `mrr` and `effective_parameters`. `limit` draws a budget.
    """
    best = {row["number"] for row in front}
    keys = ("number", "model", "mrr", "effective_parameters")
    points = [
        {**{key: row[key] for key in keys}, "unbeaten": row["number"] in best} for row in rows
    ]
    points.sort(key=lambda point: (point["unbeaten"], point["effective_parameters"]))
    on_front = drawing([point for point in points if point["unbeaten"]], "a trial with an MRR")
    size = alt.X("effective_parameters:Q", title="effective parameters")
    size = size.scale(type="log", nice=False, padding=24)
    size = size.axis(format="~s", labelOverlap=True, tickCount=6)
    mrr = mrr_axis(points, "mrr", "validation MRR (pale: beaten)")
    color = by_model(alt.Color, names_of(rows), legend=model_legend(symbolOpacity=1))
    pale = alt.when(alt.datum.unbeaten).then(alt.value(1)).otherwise(alt.value(0.35))
    line = on_front.mark_line(interpolate="step-after", color=QUIET, strokeWidth=2)
    dots = drawing(points).mark_point(filled=True, size=80)
    names = on_front.mark_text(dy=-11, fontSize=11)
    chart = line.encode(x=size, y=mrr) + dots.encode(x=size, y=mrr, color=color, opacity=pale)
    chart += names.encode(x=size, y=mrr, text=alt.Text("number:Q", format="d"))
    if limit is not None:
        rule = drawing([{"effective_parameters": limit}])
        rule = rule.mark_rule(strokeDash=[4, 4], color=INK, strokeWidth=1.5)
        chart += rule.encode(x=size)
    return chart.properties(width=560, height=300)


# -- pictures ---------------------------------------------------------------------------------


def chart_svg(chart: AnyChart) -> str:
    """The chart in the common look as an SVG document, safe to parse as XML whatever its names
    hold; its colours follow the reader's scheme, light or dark."""
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    specification = _printable_inside({**chart.to_dict(), "config": LOOK})
    svg = vl_convert.vegalite_to_svg(specification, vl_version=version, allowed_base_urls=[])
    return with_dark_scheme(str(svg))


def svg_png(svg: str) -> bytes:
    """An SVG document as PNG, in light colours, at twice its nominal size."""
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def write_picture(chart: AnyChart, path: Path) -> tuple[Path, Path]:
    """Write the chart as PNG to the path, and as SVG beside it; returns both paths."""
    svg = chart_svg(chart)
    write_bytes(path, svg_png(svg))
    write_text(path.with_suffix(".svg"), svg)
    return path, path.with_suffix(".svg")


def _printable_inside(value: Any) -> Any:
    """A JSON value with every string in it printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable_inside(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable_inside(inner) for inner in value]
    return value
