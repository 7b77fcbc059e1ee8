"""A page: text, tables and charts as one HTML file that needs nothing but a browser."""

import re
from pathlib import Path

from reltucker.atomic import write_bytes, write_text
from reltucker.report.charts import chart_svg, svg_png
from reltucker.report.tables import Table
from reltucker.report.texts import TEMPLATES, printable
from reltucker.report.theme import AnyChart


class Page:
    """Sections in the order in which they are added. All text is plain: no markup is read in it."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self.subtitle = subtitle
        self._sections: list[tuple[str, str, str | Table | None]] = []
        self._pictures: dict[str, str] = {}

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._sections.append(("heading", printable(text), None))

    def text(self, paragraph: str) -> None:
        """Add a paragraph."""
        self._sections.append(("text", printable(paragraph), None))

    def code(self, text: str) -> None:
        """Add text whose lines and spaces stay as they are: a command, a recipe."""
        self._sections.append(("code", printable(text), None))

    def table(self, table: Table, caption: str = "") -> None:
        """Add a table; its title and the caption stand above it."""
        self._sections.append(("table", printable(caption), table))

    def chart(self, chart: AnyChart, caption: str, name: str) -> None:
        """Add a chart. `name` is that of its picture files, made safe and unique for them."""
        svg = chart_svg(chart)
        self._pictures[self._free_name(name)] = svg
        self._sections.append(("chart", printable(caption), svg))

    def write(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        page = TEMPLATES.get_template("page.html").render(
            title=printable(self.title),
            subtitle=printable(self.subtitle),
            sections=self._sections,
        )
        write_text(path, page)

    def write_pictures(self, folder: Path) -> list[Path]:
        """Write every chart as PNG and SVG; returns the paths."""
        paths = []
        for name, svg in self._pictures.items():
            paths += [folder / f"{name}.png", folder / f"{name}.svg"]
            write_bytes(paths[-2], svg_png(svg))
            write_text(paths[-1], svg)
        return paths

    def _free_name(self, name: str) -> str:
        wanted = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:80].strip("-") or "chart"
        free, number = wanted, 1
        while free in self._pictures:
            number += 1
            free = f"{wanted}-{number}"
        return free
