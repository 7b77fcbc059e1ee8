"""The colour of each model, on every chart and page, in light and in dark."""

import re
from collections.abc import Mapping, Sequence

MODELS: Mapping[str, tuple[str, str]] = {
    "complex": ("#0072B2", "#6CB8EE"),
    "drt": ("#D55E00", "#FF9A57"),
    "srt": ("#009E73", "#4FD0A5"),
    "rescal": ("#CC79A7", "#F0A3CC"),
    "distmult": ("#E69F00", "#F0C24B"),
    "cp": ("#56B4E9", "#B5E1FF"),
    "hole": ("#882255", "#D9669B"),
    "block": ("#7A5CD6", "#B3A1FF"),
    "analogy": ("#999933", "#CFCF6B"),
    "merged": ("#4D4D4D", "#C4C8CC"),
}
"""On a light and on a dark ground, by the name in recipes. Most are of the palette of Okabe and
Ito, safe for colour-blind readers."""

INK, GROUND, GRID, LINE, QUIET = "#222222", "white", "#e4e4e4", "#999999", "#7a828c"
"""Of text, behind everything, of grids, of axes, and of what belongs to no model."""
DARK: Mapping[str, str] = {
    INK: "#e4e6ea",
    GROUND: "#1c1f24",
    GRID: "#343a42",
    LINE: "#7c848e",
    QUIET: "#9aa2ad",
    **dict(MODELS.values()),
}
"""What each colour becomes on a dark ground."""


def base_of(name: str) -> str:
    """The model in a name such as "ComplEx, reciprocal" or "ComplEx (run)", as recipes call it."""
    return re.split(r"[ ,]", name, maxsplit=1)[0].lower()


def model_colors(names: Sequence[str]) -> list[str]:
    """The colour of each name's model. What is no model of the family takes colours that are left,
    in turn; what has no name at all, none of them."""
    known = {base_of(name) for name in names}
    left = [light for base, (light, _) in MODELS.items() if base not in known]
    others = [base for base in dict.fromkeys(map(base_of, names)) if base and base not in MODELS]
    colors = {base: light for base, (light, _) in MODELS.items()} | {"": QUIET}
    colors |= {base: (left or [QUIET])[n % max(1, len(left))] for n, base in enumerate(others)}
    return [colors[base_of(name)] for name in names]


def turns(names: Sequence[str]) -> list[int]:
    """Which of the names of its colour each name is, so that dashes or shades tell them apart: of
    "ComplEx" and "ComplEx, reciprocal" the first is 0 and the second 1, in whichever order."""
    colors = dict(zip(names, model_colors(names), strict=True))
    alike = {name: [other for other in colors if colors[other] == colors[name]] for name in names}
    return [
        sorted(alike[name], key=lambda other: (len(other), other)).index(name) for name in names
    ]


def with_dark_scheme(svg: str) -> str:
    """An SVG document that changes its colours where the reader's scheme is dark."""
    rules = "".join(
        f'[{key}="{light}"]{{{key}:{dark}}}'
        for light, dark in DARK.items()
        for key in ("fill", "stroke")
        if f'{key}="{light}"' in svg
    )
    opening = re.match(r"\s*(?:<\?xml[^>]*>\s*)?<svg[^>]*>", svg)
    end = opening.end() if opening else 0
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    return svg[:end] + style + svg[end:]
