"""Charts of a search: its history, the importance of settings, the skyline."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from reltucker.study.chart_style import PALETTE, AnyChart, finished, inline_data, need


def search_history(rows: Sequence[Mapping[str, Any]]) -> AnyChart:
    """Validation MRR by trial, with the best so far as a line.

    A row has the keys `number`, `state` and `mrr`; one without an MRR is left out.
    """
    points, best = [], 0.0
    for row in rows:
        if row["mrr"] is None:
            continue
        if row["state"] == "complete":
            best = max(best, row["mrr"])
        points.append({**_only(row, "number", "state", "mrr"), "best": best or None})
    need(points, "a trial with an MRR")
    states = [s for s in ("complete", "pruned") if any(point["state"] == s for point in points)]
    number = alt.X("number:Q", title="trial").axis(tickMinStep=1, format="d")
    number = number.scale(nice=False, padding=12, zero=False)
    mrr = alt.Y("mrr:Q", title="validation MRR (line: best so far)").scale(zero=False, padding=8)
    state = alt.Color("state:N", title=None, legend=alt.Legend() if len(states) > 1 else None)
    state = state.scale(domain=states, range=[PALETTE[0], PALETTE[4]][: len(states)])
    base = alt.Chart(inline_data(points)).encode(x=number)
    line = base.mark_line(interpolate="step-after", color=PALETTE[1], strokeWidth=2)
    dots = base.mark_point(filled=True, size=70, opacity=0.9).encode(y=mrr, color=state)
    chart = line.encode(y=alt.Y("best:Q")) + dots
    return finished(chart.properties(width=560, height=280))


def setting_importance(importance: Mapping[str, float]) -> AnyChart:
    """The share of each setting in the variance of the MRR."""
    bars = [{"setting": key, "share": share} for key, share in importance.items()]
    need(bars, "a setting")
    setting = alt.Y("setting:N", sort=list(importance), title=None)
    setting = setting.axis(ticks=False, domain=False, labelPadding=6)
    share = alt.X("share:Q", title="share in the variance of the MRR")
    share = share.axis(format="~%", tickCount=5).scale(domainMin=0)
    base = alt.Chart(inline_data(bars)).encode(x=share, y=setting)
    number = base.mark_text(align="left", dx=4, fontSize=12)
    number = number.encode(text=alt.Text("share:Q", format=".0%"))
    chart = base.mark_bar(color=PALETTE[0]) + number
    return finished(chart.properties(width=460, height=alt.Step(26)))


def skyline(
    rows: Sequence[Mapping[str, Any]], front: Sequence[Mapping[str, Any]], limit: int | None = None
) -> AnyChart:
    """Validation MRR against effective parameters; a line joins the trials that none beats.

    A row has the keys `number`, `mrr` and `effective_parameters`. `limit` draws a budget.
    """
    numbers = {row["number"] for row in front}
    points = [
        {
            **_only(row, "number", "mrr", "effective_parameters"),
            "kind": "skyline" if row["number"] in numbers else "beaten",
        }
        for row in rows
    ]
    need(points, "a trial with an MRR")
    points.sort(key=lambda point: str(point["kind"]))  # beaten ones are drawn first, beneath
    size = alt.X("effective_parameters:Q", title="effective parameters")
    size = size.scale(type="log", nice=False, padding=24)
    size = size.axis(format="~s", labelOverlap=True, tickCount=6)
    mrr = alt.Y("mrr:Q", title="validation MRR").scale(zero=False, padding=14)
    kinds = [k for k in ("skyline", "beaten") if any(point["kind"] == k for point in points)]
    color = alt.Color("kind:N", title=None, sort=kinds)
    color = color.scale(domain=kinds, range=[PALETTE[0], "#b5b5b5"][: len(kinds)])
    on_front = [point for point in points if point["kind"] == "skyline"]
    line = alt.Chart(inline_data(sorted(on_front, key=lambda point: point["effective_parameters"])))
    line = line.mark_line(interpolate="step-after", color=PALETTE[0], strokeWidth=2)
    dots = alt.Chart(inline_data(points)).mark_point(filled=True, size=80, opacity=1)
    names = alt.Chart(inline_data(on_front)).mark_text(dy=-11, fontSize=11)
    chart = line.encode(x=size, y=mrr) + dots.encode(x=size, y=mrr, color=color)
    chart += names.encode(x=size, y=mrr, text=alt.Text("number:Q", format="d"))
    if limit is not None:
        rule = alt.Chart(inline_data([{"effective_parameters": limit}]))
        rule = rule.mark_rule(strokeDash=[4, 4], color=PALETTE[1], strokeWidth=1.5)
        chart += rule.encode(x=size)
    return finished(chart.properties(width=560, height=300))


def _only(row: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: row[key] for key in keys}
