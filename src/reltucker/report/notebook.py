"""What a notebook shows of an object: a title, figures, a small picture. Whatever comes from data
is escaped, and colours are those of the notebook."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from PIL import Image

from reltucker.report.tables import Table, Value
from reltucker.report.texts import TEMPLATES, one_line, shorten

WIDTH, HEIGHT = 220, 60
CELLS = 64
"""How many rows and columns a small picture of a matrix has at the most."""


def card(
    title: str,
    figures: Mapping[str, Value],
    picture: Markup | None = None,
    caption: str = "",
    *,
    tables: Sequence[Table] = (),
    code: str = "",
) -> str:
    """A piece of HTML; `code` stands below, folded."""
    shown = [(name, shorten(one_line(_shown(value)), 200)) for name, value in figures.items()]
    return TEMPLATES.get_template("card.html").render(
        title=shorten(one_line(title), 200),
        figures=shown,
        picture=picture,
        caption=caption,
        tables=tables,
        code=code,
    )


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def curve(values: Sequence[float]) -> Markup | None:
    """A line through the values, from the lowest to the highest; None for fewer than two."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    low, high = min(values), max(values)
    across, up = WIDTH / (len(values) - 1), (HEIGHT - 4) / ((high - low) or 1.0)
    points = (f"{n * across:.1f},{HEIGHT - 2 - (v - low) * up:.1f}" for n, v in enumerate(values))
    return Markup(
        '<svg width="{w}" height="{h}" role="img"><polyline points="{points}" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/></svg>'
    ).format(w=WIDTH, h=HEIGHT, points=" ".join(points))


def bars(counts: Mapping[str, int]) -> Markup | None:
    """A bar for each name, as long as its count; None where there is none."""
    if not counts:
        return None
    longest, row = max(counts.values()) or 1, 18
    parts = [
        Markup(
            '<rect x="0" y="{y}" width="{w:.1f}" height="14" fill="currentColor" opacity="0.25"/>'
            '<text x="4" y="{t}" font-size="11" fill="currentColor">{name}: {count:,}</text>'
        ).format(
            y=n * row,
            w=max(1.0, 1.5 * WIDTH * count / longest),
            t=n * row + 11,
            name=shorten(one_line(name), 48),
            count=count,
        )
        for n, (name, count) in enumerate(counts.items())
    ]
    return Markup('<svg width="{w}" height="{h}" role="img">{parts}</svg>').format(
        w=int(1.5 * WIDTH), h=row * len(counts), parts=Markup("").join(parts)
    )


def matrix_picture(matrix: npt.NDArray[np.floating[Any]]) -> Markup | None:
    """The strength of a matrix's entries, dark where they are large; a large matrix is shown by the
    largest entry of each block. None where not all are finite numbers."""
    strength = np.abs(matrix)
    if not strength.size or not np.isfinite(strength).all():
        return None
    for axis in (0, 1):
        starts = np.unique(np.arange(CELLS) * strength.shape[axis] // CELLS)
        strength = np.maximum.reduceat(strength, starts, axis=axis)
    shade = 255 - np.round(255 * strength / (strength.max() or 1.0))
    file = io.BytesIO()
    Image.fromarray(shade.astype(np.uint8)).save(file, format="PNG")
    return Markup(
        '<img alt="" src="data:image/png;base64,{data}" width="128" height="128" '
        'style="image-rendering: pixelated; border: 1px solid gray">'
    ).format(data=base64.b64encode(file.getvalue()).decode("ascii"))
