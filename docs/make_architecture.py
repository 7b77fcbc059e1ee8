"""Draw which room imports which, from the code: python docs/make_architecture.py"""

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import altair as alt

from reltucker.report.charts import chart_svg
from reltucker.report.colors import INK, LINE, MODELS
from reltucker.report.theme import AnyChart, drawing

SOURCE = Path(__file__).parents[1] / "src" / "reltucker"
PICTURE = Path(__file__).parent / "pictures" / "architecture.svg"

ORDER = (
    "report",
    "graph",
    "kernels",
    "model",
    "evaluation",
    "training",
    "distributed",
    "search",
    "serving",
    "run",
    "study",
    "cli",
)
"""The rooms; each may import those before it."""
COMMON = (
    "arguments",
    "atomic",
    "checksums",
    "choices",
    "errors",
    "folders",
    "machine",
    "peers",
    "progress",
)
"""Single files that every room may import, and that import no room."""

ROW = 34
BLUE, ORANGE = MODELS["complex"][0], MODELS["drt"][0]
SHORTCUT = "imports what it also reaches through others"
Edge = tuple[str, str]


def edges() -> set[Edge]:
    """(importer, imported) for all imports between rooms and common files, those inside of
    functions included. The package's own `__init__.py` and `__main__.py` are no room."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).with_suffix("").parts[0]
        if room.startswith("__"):
            continue
        for module in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            package, _, rest = module.partition(".")
            other = rest.partition(".")[0]
            if package == "reltucker" and other in (*ORDER, *COMMON) and other != room:
                found.add((room, other))
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def between_rooms(found: set[Edge]) -> list[Edge]:
    """The edges that are drawn, in a fixed order."""
    return sorted(edge for edge in found if edge[1] in ORDER)


def needed(found: list[Edge]) -> set[Edge]:
    """The edges without which an importer would not reach the imported room at all."""
    return {edge for edge in found if edge[1] not in _reached(edge[0], set(found) - {edge})}


def _reached(room: str, found: set[Edge]) -> set[str]:
    nearest = {imported for importer, imported in found if importer == room}
    rest = {edge for edge in found if edge[0] != room}
    return nearest.union(*(_reached(other, rest) for other in nearest))


def chart(found: list[Edge]) -> AnyChart:
    """The rooms from top to bottom, an arc from each to those that it imports; one that leads up,
    against the order, would be on the left."""
    colors = {"imports": BLUE, SHORTCUT: LINE, "imports against the order": ORANGE}
    usual, shortcut, wrong = colors
    strong = needed(found)
    height = {room: -ROW * place for place, room in enumerate(reversed(ORDER))}
    points = []
    for importer, imported in found:
        begin, end = height[importer], height[imported]
        kind = usual if (importer, imported) in strong else shortcut
        arc = {"edge": f"{importer} -> {imported}", "kind": kind if begin > end else wrong}
        for step in range(25):
            angle = math.pi * step / 24
            x = 0.375 * (begin - end) * math.sin(angle)
            y = (begin + end + (begin - end) * math.cos(angle)) / 2
            points.append({**arc, "step": step, "x": x, "y": y})
    width = max(point["x"] for point in points)
    x = alt.X("x:Q", axis=None).scale(domain=[-8, width + 4], nice=False)
    y = alt.Y("y:Q", axis=None).scale(domain=[min(height.values()) - 12, 12], nice=False)
    kinds = [kind for kind in colors if kind in {point["kind"] for point in points}]
    legend = alt.Legend(title=None, orient="bottom", direction="vertical", labelLimit=0)
    color = alt.Color("kind:N", legend=legend)
    color = color.scale(domain=kinds, range=[colors[kind] for kind in kinds])
    lines = drawing(points).mark_line(strokeWidth=1.6)
    lines = lines.encode(x=x, y=y, color=color, detail="edge:N", order="step:Q")
    pale = alt.datum.kind == shortcut
    rooms = [{"room": room, "x": 0.0, "y": place} for room, place in height.items()]
    dots = drawing(rooms).mark_point(filled=True, size=90, opacity=1, color=INK)
    names = drawing(rooms).mark_text(align="right", dx=-14, fontSize=13)
    layers = [
        lines.transform_filter(pale),
        lines.transform_filter(~pale),
        dots.encode(x=x, y=y),
        names.encode(x=x, y=y, text="room:N"),
    ]
    size = {"width": round(width) + 12, "height": ROW * (len(ORDER) - 1) + 24}
    return alt.layer(*layers).properties(**size)


def picture(found: list[Edge]) -> str:
    """The picture as SVG; the edges stand in its description."""
    said = "; ".join(f"{importer} -> {imported}" for importer, imported in found)
    opening, _, rest = chart_svg(chart(found)).partition(">")
    return f"{opening}><desc>{said}</desc>{rest}\n"


def main() -> None:
    """Draw it."""
    PICTURE.write_text(picture(between_rooms(edges())), encoding="utf-8")


if __name__ == "__main__":
    main()
