"""Charts, each defined once for page, PNG and SVG."""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import vl_convert

from reltucker.atomic import write_bytes
from reltucker.errors import ReltuckerError, ScoreError
from reltucker.study.chart_style import (
    DASHES,
    INK,
    PALETTE,
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
from reltucker.study.tables import printable, shorten

# Black through purple and orange to pale yellow, rising evenly in lightness ("inferno").
HEAT = (
    "#000004",
    "#1b0c41",
    "#4a0c6b",
    "#781c6d",
    "#a52c60",
    "#cf4446",
    "#ed6925",
    "#fb9b06",
    "#f7d13d",
    "#fcffa4",
)
HEAT_MAP_SIZE = 480
PNG_SCALE = 2
METRIC_NAMES = {"mrr": "MRR", "hits@1": "HITS@1", "hits@3": "HITS@3", "hits@10": "HITS@10"}


# -- the charts -------------------------------------------------------------------------------


def training_curves(epochs: Mapping[str, Sequence[Mapping[str, Any]]]) -> AnyChart:
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
            # The epoch whose weights were kept is the last that was the best when it ended.
            "kept": record["epoch"] if record.get("best") else 0,
        }
        for model, records in epochs.items()
        for record in records
    ]
    need(points, "an epoch")
    models = in_order(point["model"] for point in points)
    judged = [point for point in points if point["mrr"] is not None]
    best = [
        max(
            (point for point in judged if point["model"] == model),
            key=lambda point: (point["kept"], point["mrr"]),
        )
        for model in in_order(point["model"] for point in judged)
    ]
    epoch = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1, format="d"))
    epoch = epoch.scale(nice=False, padding=8)
    legend = model_legend(symbolType="stroke", symbolSize=320, symbolOpacity=1)
    color = model_color(models, legend)
    dash = alt.StrokeDash("model:N", sort=models, legend=legend)
    dash = dash.scale(domain=models, range=repeated(DASHES, len(models), each=len(PALETTE)))

    def line(of: list[dict[str, Any]]) -> Any:
        # A line through one epoch would be invisible.
        chart = alt.Chart(inline_data(of)).mark_line(strokeWidth=2, point=len(of) == len(models))
        return chart.encode(x=epoch, color=color, strokeDash=dash).properties(width=560)

    loss = line(points).encode(y=measure("loss", "training loss")).properties(height=160)
    if not judged:
        return finished(loss)
    shared = {"x": epoch.title(None), "y": measure("mrr", "validation MRR (● best epoch)")}
    mark = alt.Chart(inline_data(best)).mark_point(
        filled=True, size=110, opacity=1, stroke="white", strokeWidth=1.5
    )
    # Not every epoch is validated, and a line breaks where a value is missing.
    mrr = line(judged).encode(**shared).properties(height=280) + mark.encode(color=color, **shared)
    return finished(alt.vconcat(mrr, loss, spacing=14))


def comparison_bars(rows: Sequence[Mapping[str, Any]]) -> AnyChart:
    """MRR and HITS@1, 3 and 10 of each model, a panel for each metric.

    A row has the keys `model`, `mrr`, `hits@1`, `hits@3` and `hits@10`; what it lacks is left out.
    Ends of intervals, such as `mrr_low` and `mrr_high`, are drawn as a line over the bar. Models
    need different names, for bars of one name would be stacked.
    """
    bars: list[dict[str, Any]] = [
        {
            "model": row["model"],
            "metric": name,
            "value": found,
            "low": _or(finite(row.get(f"{key}_low")), found),
            "high": _or(finite(row.get(f"{key}_high")), found),
        }
        for row in rows
        for key, name in METRIC_NAMES.items()
        if (found := finite(row.get(key))) is not None
    ]
    need(bars, "a model with metrics")
    models = in_order(bar["model"] for bar in bars)
    metrics = [name for name in METRIC_NAMES.values() if any(bar["metric"] == name for bar in bars)]
    top = max(bar["high"] for bar in bars)
    # Room for the number behind the longest bar.
    value = alt.X("value:Q", title=None).scale(domain=[0, max(top, 1e-3) * 1.32], nice=False)
    value = value.axis(tickCount=4, format="~g", grid=False)
    model = alt.Y("model:N", sort=models, title=None)
    model = model.axis(
        labelExpr=SHORT_LABEL.format(limit=36), ticks=False, domain=False, labelPadding=6
    )
    base = alt.Chart().encode(x=value, y=model)
    bar = base.mark_bar().encode(color=model_color(models, None))
    spread = base.mark_rule(color=INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    number = base.mark_text(align="left", dx=4, fontSize=12, color=INK).encode(
        x="high:Q", text=alt.Text("value:Q", format=".3f")
    )
    panel = alt.layer(bar, spread, number, data=inline_data(bars)).properties(
        width=170, height=alt.Step(26 if len(models) > 2 else 34)
    )
    facet = alt.Column("metric:N", sort=metrics, title=None)
    return finished(panel.facet(column=facet, spacing=18))


def relation_bars(rows: Sequence[Mapping[str, Any]], limit: int = 25) -> AnyChart:
    """MRR of each model by relation; of more than `limit` relations the first ones are drawn.

    A row has the keys `relation`, `model` and `mrr`, and where it has an interval, `mrr_low` and
    `mrr_high`. Relations and models keep the order of rows.
    """
    bars: list[dict[str, Any]] = [
        {
            "relation": row["relation"],
            "model": row["model"],
            "mrr": mrr,
            "low": _or(finite(row.get("mrr_low")), mrr),
            "high": _or(finite(row.get("mrr_high")), mrr),
        }
        for row in rows
        if (mrr := finite(row["mrr"])) is not None
    ]
    need(bars, "a relation with an MRR")
    relations = in_order(bar["relation"] for bar in bars)
    models = in_order(bar["model"] for bar in bars)
    drawn = set(relations[:limit])
    relation = alt.Y("relation:N", sort=relations[:limit], title=None)
    relation = relation.axis(
        labelExpr=SHORT_LABEL.format(limit=52), ticks=False, domain=False, labelPadding=6
    )
    relation = relation.scale(paddingInner=0.25, paddingOuter=0.15)
    base = alt.Chart(inline_data([bar for bar in bars if bar["relation"] in drawn]))
    base = base.encode(y=relation, yOffset=alt.YOffset("model:N", sort=models))
    value = alt.X("mrr:Q", title="MRR").scale(domain=[0, 1])
    chart: Any = base.mark_bar().encode(x=value, color=model_color(models, model_legend()))
    if any(bar["low"] != bar["high"] for bar in bars):
        spread = base.mark_rule(color=INK).encode(x=alt.X("low:Q", title="MRR"), x2="high:Q")
        chart = chart + spread
    step = alt.Step(16 if len(models) == 1 else 9, **{"for": "offset"})
    chart = chart.properties(width=460, height=step)
    if len(relations) > limit:
        chart = chart.properties(title=f"The first {limit} of {len(relations)} relations")
    return finished(chart)


def mixing_heat_map(matrix: npt.NDArray[np.floating[Any]], title: str) -> AnyChart:
    """|M_k| of one relation, matrix of shape (d_e, d_e): row i for subjects, column j for objects.

    Black is 0, and the lightest colour the largest entry. The cells are one embedded picture, for
    a drawn rectangle each would make a file of megabytes.
    """
    strength = np.abs(np.asarray(matrix, dtype=np.float64))
    if strength.ndim != 2 or not strength.size:
        raise ReltuckerError(f"a heat map needs a matrix, and this has the shape {strength.shape}")
    if not np.isfinite(strength).all():
        raise ScoreError("the mixing matrix has entries that are not finite numbers")
    rows, columns = strength.shape
    top = float(strength.max()) or 1.0
    width = max(1, round(HEAT_MAP_SIZE * min(1.0, columns / rows)))
    height = max(1, round(HEAT_MAP_SIZE * min(1.0, rows / columns)))
    picture = alt.Chart(inline_data([{"url": _heat_picture(strength / top)}]))
    picture = picture.mark_image(width=width, height=height, aspect=False, smooth=False).encode(
        x=alt.value(width / 2), y=alt.value(height / 2), url="url:N"
    )
    ticks: dict[str, Any] = {"grid": False, "tickMinStep": 1, "format": "d", "tickCount": 5}
    scale: dict[str, Any] = {"nice": False, "zero": False}
    # Nothing of this layer is seen but its axes and the legend of its colours.
    steps = np.linspace(0.0, top, len(HEAT)).tolist()
    frame = alt.Chart(inline_data([{"i": 1, "j": 1, "strength": value} for value in (0.0, top)]))
    frame = frame.mark_point(opacity=0).encode(
        x=alt.X("j:Q", title="object dimension j", axis=alt.Axis(**ticks)).scale(
            domain=[0.5, columns + 0.5], **scale
        ),
        y=alt.Y("i:Q", title="subject dimension i", axis=alt.Axis(**ticks)).scale(
            domain=[0.5, rows + 0.5], reverse=True, **scale
        ),
        color=alt.Color("strength:Q", title="|M_k|")
        .scale(domain=steps, range=list(HEAT), interpolate="rgb")
        .legend(gradientLength=min(height, 200), gradientOpacity=1, tickCount=4, format=".2~g"),
    )
    chart = alt.layer(picture, frame).properties(width=width, height=height)
    return finished(chart.properties(title=shorten(title, 64)))


def core_slices(tensor: npt.NDArray[np.floating[Any]], title: str, columns: int = 8) -> AnyChart:
    """The frontal slices G_1, G_2, ... of a small core (d_e, d_e, d_r), side by side.

    Cells show the sign of an entry: +1 and -1 are coloured, 0 is pale.
    """
    if tensor.ndim != 3 or tensor.size > 4096:
        raise ReltuckerError("a core of at most 4,096 entries can be drawn slice by slice")
    cells = [
        {
            "slice": f"G{l + 1}",
            "i": i + 1,
            "j": j + 1,
            "value": {1.0: "+1", -1.0: "−1"}.get(float(np.sign(tensor[i, j, l])), "0"),
        }
        for l in range(tensor.shape[2])
        for i in range(tensor.shape[0])
        for j in range(tensor.shape[1])
    ]
    need(cells, "an entry")
    size = 18 * tensor.shape[0]
    bare = alt.Axis(title=None, labels=False, ticks=False, domain=False)
    color = alt.Color("value:N", title="entry").scale(
        domain=["+1", "−1", "0"], range=[PALETTE[0], PALETTE[1], "#eeeeee"]
    )
    chart = (
        alt.Chart(inline_data(cells))
        .mark_rect(stroke="white", strokeWidth=1.5)
        .encode(x=alt.X("j:O", axis=bare), y=alt.Y("i:O", axis=bare), color=color)
        .properties(width=size, height=size)
        .facet(
            facet=alt.Facet("slice:N", title=None, sort=in_order(cell["slice"] for cell in cells)),
            columns=columns,
            spacing=12,
        )
        .properties(title=title)
    )
    return finished(chart)


def slice_density(shares: npt.NDArray[np.floating[Any]]) -> AnyChart:
    """The share of non-zero entries of each frontal slice of a core, densest first."""
    bars = [
        {"place": place, "share": float(share)}
        for place, share in enumerate(sorted(shares.tolist(), reverse=True), start=1)
    ]
    need(bars, "a slice")
    chart = (
        alt.Chart(inline_data(bars))
        .mark_bar(color=PALETTE[0], binSpacing=0)
        .encode(
            x=alt.X("place:O", title="slice of the core, densest first").axis(
                labelOverlap=True, ticks=False, labelAngle=0
            ),
            y=alt.Y("share:Q", title="share of entries that are not zero").axis(format="~%"),
        )
        .properties(width=560, height=220)
    )
    return finished(chart)


# -- files ------------------------------------------------------------------------------------


def chart_svg(chart: AnyChart) -> str:
    """The chart as an SVG document, safe to parse as XML whatever its names hold."""
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    specification = _printable_inside(chart.to_dict())
    svg = vl_convert.vegalite_to_svg(specification, vl_version=version, allowed_base_urls=[])
    return str(svg)


def svg_png(svg: str) -> bytes:
    """An SVG document as PNG, at twice its nominal size."""
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def save_chart(chart: AnyChart, path: Path) -> None:
    """Write the chart as PNG or SVG, whichever the suffix of `path` says."""
    suffix = path.suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ReltuckerError(f"{path}: charts are written as .png or .svg")
    svg = chart_svg(chart)
    write_bytes(path, svg_png(svg) if suffix == ".png" else svg.encode("utf-8"))


# -- details -------------------------------------------------------------------------------------


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _printable_inside(value: Any) -> Any:
    """A JSON value with every string in it printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable_inside(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable_inside(inner) for inner in value]
    return value


def _heat_picture(share: npt.NDArray[np.float64]) -> str:
    """Values from 0 to 1 as a data URL: an 8-bit PNG with the palette HEAT."""
    # Cells are several pixels large, because some viewers blur pictures that they enlarge.
    repeat = max(1, 2 * HEAT_MAP_SIZE // max(share.shape))
    pixels = np.round(share * 255).astype(np.uint8).repeat(repeat, axis=0).repeat(repeat, axis=1)
    height, width = pixels.shape
    anchors = np.array([list(bytes.fromhex(color[1:])) for color in HEAT], dtype=np.float64)
    places = np.linspace(0, len(HEAT) - 1, 256)
    palette = np.stack([np.interp(places, range(len(HEAT)), anchors[:, c]) for c in range(3)], 1)
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels])

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    png = b"\x89PNG\r\n\x1a\n"
    png += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
    png += chunk(b"PLTE", np.round(palette).astype(np.uint8).tobytes())
    png += chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    png += chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
