"""What every chart shares: the look, colours, legends, rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from reltucker.errors import ReltuckerError
from reltucker.report.colors import GRID, GROUND, INK, LINE, model_colors, turns
from reltucker.report.texts import shorten

AnyChart = Any
"""One of Altair's many classes of charts."""
Rows = Sequence[Mapping[str, Any]]

DASHES = ([1, 0], [6, 3], [2, 2])
SHADES = (1.0, 0.5, 0.25)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

# Shortens what is drawn, not the data, so that two long names never become one.
_SHORT = "truncate(datum.label, 48, 'center')"
_SIZES = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
_TEXT = {**_SIZES, "labelColor": INK, "titleColor": INK}
_LINES = {"gridColor": GRID, "domainColor": LINE, "tickColor": LINE}
LOOK = {
    "aria": False,  # descriptions of each mark would double a file, and the caption describes it
    "background": GROUND,
    "font": "Helvetica, Arial, sans-serif",
    # Names are a little wider in some fonts than in the one that they are measured in.
    "padding": {"left": 18, "top": 10, "right": 26, "bottom": 10},
    "view": {"stroke": None},
    "axis": {**_TEXT, **_LINES, "titlePadding": 8, "labelLimit": 420, "labelFlush": False},
    "axisYDiscrete": {"ticks": False, "domain": False, "labelPadding": 6, "labelExpr": _SHORT},
    "legend": {**_TEXT, "symbolSize": 140, "symbolStrokeWidth": 2.5, "labelLimit": 320},
    "header": {**_TEXT, "labelFontWeight": "bold"},
    "title": {
        "fontSize": 14,
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "subtitleColor": INK,
        "subtitleFontSize": 12,
        "offset": 12,
    },
    "text": {"fontSize": 12, "color": INK},
}
"""What Vega-Lite calls `config`, for every chart."""


def drawing(rows: Rows, what: str = "a row") -> Any:
    """A chart of rows inside itself, to which Altair's limit of 5000 rows does not apply."""
    if not rows:
        raise nothing_to_draw(what)
    return alt.Chart(alt.InlineData(values=list(rows)))


def nothing_to_draw(what: str) -> ReltuckerError:
    """Refuse to draw nothing."""
    return ReltuckerError(f"there is nothing to draw: the chart needs {what}")


def names_of(rows: Rows, key: str = "model") -> list[str]:
    """Every name once, in the order of its first mention."""
    return list(dict.fromkeys(row[key] for row in rows))


def model_legend(**look: Any) -> alt.Legend:
    """Also for one model: the chart should say whose curve or bars it shows."""
    return alt.Legend(title=None, labelExpr=_SHORT, **look)


def by_model(
    channel: Any,
    models: list[str],
    values: Sequence[Any] | None = None,
    *,
    legend: alt.Legend | None = None,
) -> Any:
    """The colour of each model, the same in every chart; or, of names that share a colour, one of
    the `values` for the first, another for the second, and so on."""
    shown: list[Any] = model_colors(models)
    if values is not None:
        shown = [values[turn % len(values)] for turn in turns(models)]
    if values is SHAPES:  # these help where colours are hard to tell
        shown = [SHAPES[(n + turn) % len(SHAPES)] for n, turn in enumerate(turns(models))]
    scale = alt.Scale(type="ordinal", domain=models, range=shown)
    return channel("model:N", sort=models, legend=legend, scale=scale)


def titled(chart: AnyChart, title: str, about: str) -> AnyChart:
    """The chart with a title, and below it what its figures are about: graph, split, protocol."""
    return chart.properties(title=alt.Title(shorten(title, 90), subtitle=shorten(about, 90)))


def measure(key: str, title: str) -> alt.Y:
    """A vertical axis that need not begin at zero."""
    return alt.Y(f"{key}:Q", title=title).scale(zero=False, padding=6)


def mrr_axis(rows: Rows, key: str, title: str = "MRR", ends: Sequence[str] = ()) -> alt.Y:
    """A vertical axis of MRR, which need not begin at zero; it ends at 1 unless all values are
    below 0.6. `ends` are further keys that it has room for."""
    values = [row[name] for row in rows for name in (key, *ends)]
    if not values or share_end(max(values)) < 1:
        return measure(key, title)
    return alt.Y(f"{key}:Q", title=title).scale(domain=[math.floor(10 * min(values)) / 10, 1])


def share_end(top: float) -> float:
    """Where an axis of shares ends: at 1, or earlier where that would leave most of it empty."""
    return 1.0 if top > 0.6 else 1.35 * top or 1.0


def names_axis(key: str, names: list[str], **look: Any) -> alt.Y:
    """A vertical axis of names in this order."""
    return alt.Y(f"{key}:N", sort=names, title=None).scale(domain=names).axis(**look)


def finite(value: Any) -> float | None:
    """A finite float, or None: JSON has no other numbers."""
    return float(value) if value is not None and math.isfinite(value) else None


def with_intervals(rows: Rows, key: str, *others: str) -> list[dict[str, Any]]:
    """Of each row whose `key` is a finite number the `value`, the ends `low` and `high` of its
    interval, KEY_low and KEY_high (else the value itself), and what it has under other keys."""
    found = []
    for row in rows:
        value, low, high = (finite(row.get(key + end)) for end in ("", "_low", "_high"))
        if value is not None:
            ends = {"low": value if low is None else low, "high": value if high is None else high}
            found.append({**{other: row[other] for other in others}, "value": value, **ends})
    return found
