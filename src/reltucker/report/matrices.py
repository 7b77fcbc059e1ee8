"""Pictures of mixing matrices and of a core, each defined once for page, PNG and SVG."""

import base64
import io
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
from PIL import Image

from reltucker.errors import ReltuckerError, ScoreError
from reltucker.report.colors import model_colors
from reltucker.report.theme import AnyChart, drawing, titled

INFERNO = bytes.fromhex("000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4")
"""Vega's colours of that name, black to pale yellow, rising evenly in lightness."""
HEAT_MAP_SIZE = 480
Matrix = npt.NDArray[np.floating[Any]]


def mixing_heat_map(matrix: Matrix, title: str, about: str = "") -> AnyChart:
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
    picture = drawing([{"url": _heat_picture(strength / top)}])
    picture = picture.mark_image(width=width, height=height, aspect=False, smooth=False).encode(
        x=alt.value(width / 2), y=alt.value(height / 2), url="url:N"
    )

    def axis(channel: Any, title: str, count: int, **scale: Any) -> Any:
        shown = channel(title=title).axis(grid=False, tickMinStep=1, format="d", tickCount=5)
        return shown.scale(domain=[0.5, count + 0.5], nice=False, zero=False, **scale)

    # Nothing of this layer is seen but its axes and the legend of its colours.
    frame = drawing([{"i": 1, "j": 1, "strength": value} for value in (0.0, top)])
    frame = frame.mark_point(opacity=0).encode(
        x=axis(alt.X, "object dimension j", columns).field("j").type("quantitative"),
        y=axis(alt.Y, "subject dimension i", rows, reverse=True).field("i").type("quantitative"),
        color=alt.Color("strength:Q", title="|M_k|")
        .scale(domain=[0.0, top], scheme="inferno")
        .legend(gradientLength=min(height, 200), gradientOpacity=1, tickCount=4, format=".2~g"),
    )
    chart = alt.layer(picture, frame)
    return titled(chart.properties(width=width, height=height), title, about)


def slice_density(shares: Matrix, model: str) -> AnyChart:
    """The share of non-zero entries of each frontal slice of a core, densest first."""
    ordered = sorted(shares.tolist(), reverse=True)
    bars = [{"place": place, "share": share} for place, share in enumerate(ordered, start=1)]
    place = alt.X("place:O", title="slice of the core, densest first")
    place = place.axis(labelOverlap=True, ticks=False, labelAngle=0)
    share = alt.Y("share:Q", title="share of entries that are not zero").axis(format="~%")
    bar = drawing(bars, "a slice").mark_bar(color=model_colors([model])[0], binSpacing=0)
    return bar.encode(x=place, y=share).properties(width=560, height=220)


def _heat_picture(share: npt.NDArray[np.float64]) -> str:
    """Values from 0 to 1 as a data URL: an 8-bit PNG with the palette INFERNO."""
    anchors = np.frombuffer(INFERNO, dtype=np.uint8).reshape(-1, 3)
    known, wanted = np.linspace(0, 1, len(anchors)), np.linspace(0, 1, 256)
    palette = np.stack([np.interp(wanted, known, part) for part in anchors.T], axis=1)
    picture = Image.fromarray(np.round(share * 255).astype(np.uint8))
    picture.putpalette(np.round(palette).astype(np.uint8).tobytes())
    # Cells are several pixels large, because some viewers blur pictures that they enlarge.
    repeat = max(1, 2 * HEAT_MAP_SIZE // max(share.shape))
    picture = picture.resize(
        (repeat * picture.width, repeat * picture.height), Image.Resampling.NEAREST
    )
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
