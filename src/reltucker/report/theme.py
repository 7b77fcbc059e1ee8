"""What every chart shares: the look, colours, legends, rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from reltucker.errors import ReltuckerError

AnyChart = Any
"""One of Altair's many classes of charts."""
Rows = Sequence[Mapping[str, Any]]

# Okabe and Ito's palette, safe for colour-blind readers; its yellow, too pale on white, is wine.
PALETTE = "#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #882255 #4D4D4D".split()  # noqa: SIM905
DASHES = ([1, 0], [6, 3], [2, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK = "#222222"

# Shortens what is drawn, not the data, so that two long names never become one.
_SHORT = "truncate(datum.label, 48, 'center')"
_SIZES = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
_TEXT = {**_SIZES, "labelColor": INK, "titleColor": INK}
_LINES = {"gridColor": "#e4e4e4", "domainColor": "#999999", "tickColor": "#999999"}
LOOK = {
    "aria": False,  # descriptions of each mark would double a file, and the caption describes it
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "padding": 10,
    "view": {"stroke": None},
    "axis": {**_TEXT, **_LINES, "titlePadding": 8, "labelLimit": 420, "labelFlush": False},
    "axisYDiscrete": {"ticks": False, "domain": False, "labelPadding": 6, "labelExpr": _SHORT},
    "legend": {**_TEXT, "symbolSize": 140, "symbolStrokeWidth": 2.5, "labelLimit": 320},
    "header": {**_TEXT, "labelFontWeight": "bold"},
    "title": {"fontSize": 14, "anchor": "start", "color": INK, "offset": 12},
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
    values: Sequence[Any] = PALETTE,
    *,
    legend: alt.Legend | None = None,
    each: int = 1,
) -> Any:
    """A colour, dash or shape for each model, the same in every chart that lists the same models:
    `values` in turn, `each` models with one before the next."""
    turns = [values[place // each % len(values)] for place in range(len(models))]
    return channel("model:N", sort=models, legend=legend).scale(domain=models, range=turns)


def measure(key: str, title: str) -> alt.Y:
    """A vertical axis that need not begin at zero."""
    return alt.Y(f"{key}:Q", title=title).scale(zero=False, padding=6)


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
