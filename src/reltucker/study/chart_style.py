"""What every chart shares: colours, legends, the common look."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from reltucker.errors import ReltuckerError

AnyChart = alt.TopLevelMixin

# Okabe and Ito's palette, safe for colour-blind readers; its yellow, too pale on white, is wine.
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#882255",
    "#4D4D4D",
)
DASHES = ([1, 0], [6, 3], [2, 2])
INK = "#222222"
# Shortens what is drawn, not the data, so that two long names never become one.
SHORT_LABEL = "truncate(datum.label, {limit}, 'center')"


def finished(chart: Any) -> AnyChart:
    """The chart with the common look."""
    label: dict[str, Any] = {
        "labelFontSize": 12,
        "titleFontSize": 13,
        "labelColor": INK,
        "titleColor": INK,
    }
    configured: AnyChart = chart.configure(
        # Descriptions for each mark would double the file; the report's caption describes it.
        aria=False,
        background="white",
        font="Helvetica, Arial, sans-serif",
        padding=10,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            **label,
            titleFontWeight="normal",
            titlePadding=8,
            labelLimit=420,
            labelFlush=False,
            gridColor="#e4e4e4",
            domainColor="#999999",
            tickColor="#999999",
        ),
        legend=alt.LegendConfig(
            **label, titleFontWeight="normal", symbolSize=140, symbolStrokeWidth=2.5, labelLimit=320
        ),
        header=alt.HeaderConfig(**label, labelFontWeight="bold"),
        title=alt.TitleConfig(fontSize=14, anchor="start", color=INK, offset=12),
    )
    return configured


def model_legend(**look: Any) -> alt.Legend:
    """Also for one model: the chart should say whose curve or bars it shows."""
    return alt.Legend(title=None, labelExpr=SHORT_LABEL.format(limit=40), **look)


def model_color(models: list[str], legend: alt.Legend | None) -> alt.Color:
    """A colour by model; a model keeps it in every chart that lists the same models."""
    colors = repeated(PALETTE, len(models))
    return alt.Color("model:N", sort=models, legend=legend).scale(domain=models, range=colors)


def measure(key: str, title: str) -> alt.Y:
    """A vertical axis that need not begin at zero."""
    return alt.Y(f"{key}:Q", title=title).scale(zero=False, padding=6)


def repeated(values: Sequence[Any], count: int, each: int = 1) -> list[Any]:
    """`count` values, from the beginning again where they end; `each` of one before the next."""
    return [values[index // each % len(values)] for index in range(count)]


def inline_data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows inside the chart itself, a form to which Altair's limit of 5000 rows does not apply."""
    return alt.InlineData(values=rows)


def in_order(names: Iterable[Any]) -> list[str]:
    """Every name once, in the order of its first mention."""
    return list(dict.fromkeys(names))


def finite(value: Any) -> float | None:
    """A finite float, or None: JSON has no other numbers."""
    return float(value) if value is not None and math.isfinite(value) else None


def need(rows: Sequence[Any], what: str) -> None:
    """Refuse to draw nothing."""
    if not rows:
        raise ReltuckerError(f"there is nothing to draw: the chart needs {what}")
