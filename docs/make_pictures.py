"""Make the pictures of the documentation: python docs/make_pictures.py"""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from reltucker.model import CORES
from reltucker.report.charts import chart_svg, svg_png
from reltucker.report.colors import GRID, MODELS
from reltucker.report.theme import AnyChart, drawing, names_of

PICTURES = Path(__file__).parent / "pictures"
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


def main() -> None:
    """Draw the core of every bilinear model."""
    for name, size in SIZES.items():
        core = CORES[name].build(size, None, relations=1)
        title = f"{core.title}, entity size {size}{NOTES.get(name, '')}"
        svg = chart_svg(core_slices(core.tensor().numpy(), title))
        (PICTURES / f"core-{name}.png").write_bytes(svg_png(svg))


if __name__ == "__main__":
    main()
