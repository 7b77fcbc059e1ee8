"""A page: text, tables and charts as one HTML file that needs nothing but a browser."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reltucker.atomic import write_text
from reltucker.report.charts import write_picture
from reltucker.report.tables import Table
from reltucker.report.texts import TEMPLATES
from reltucker.report.theme import AnyChart


@dataclass(frozen=True)
class Part:
    """One subject: what is said about it, its tables, a text whose lines stay as they are (a
    recipe, a command), and its charts with captions. Tables and charts have the names of files."""

    heading: str
    text: str = ""
    tables: dict[str, Table] = field(default_factory=dict)
    code: str = ""
    charts: dict[str, tuple[AnyChart, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A title and parts. All text is plain: no markup is read in it."""

    title: str
    subtitle: str
    introduction: Sequence[str]
    parts: Iterable[Part]

    def write(self, path: Path, pictures: Path) -> list[Path]:
        """Write the page, and every chart as PNG and SVG into a folder; returns their paths.

        The names of pictures are made safe for files and unique.
        """
        paths: list[Path] = []
        sections = []
        for part in self.parts:
            charts = []
            for name, (chart, caption) in part.charts.items():
                paths += write_picture(chart, _free_path(pictures, name, paths))
                charts.append((paths[-1].read_text(encoding="utf-8"), caption))
            sections.append((part, charts))
        write_text(path, TEMPLATES.get_template("page.html").render(page=self, sections=sections))
        return paths


def _free_path(folder: Path, name: str, taken: list[Path]) -> Path:
    wanted = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:80].strip("-") or "chart"
    path, number = folder / f"{wanted}.png", 1
    while path in taken:
        number += 1
        path = folder / f"{wanted}-{number}.png"
    return path
