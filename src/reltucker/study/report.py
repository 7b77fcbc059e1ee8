"""A report: text, tables and charts as one HTML file that needs nothing but a browser."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.dom import minidom

import jinja2
from markupsafe import Markup

from reltucker.atomic import write_bytes, write_text
from reltucker.study.chart_style import AnyChart
from reltucker.study.charts import chart_svg, svg_png
from reltucker.study.tables import Table, printable

_STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --ink: #1f2328; --soft: #5b636d; --line: #d9dce0; --tint: #f0f1f3;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #16181c; --ink: #e4e6ea; --soft: #9aa2ad; --line: #363b43; --tint: #20242a; }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; text-wrap: balance; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 3rem 0 0.75rem; }
p { max-width: 42rem; margin: 0.75rem 0; }
.subtitle { color: var(--soft); font-size: 1.1rem; margin-top: 0.5rem; }
figure { margin: 1.75rem 0; }
figcaption { color: var(--soft); font-size: 0.9rem; margin: 0.6rem 0; max-width: 42rem; }
figcaption strong { color: var(--ink); }
.wide { overflow-x: auto; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 0.5rem; }
.card svg { display: block; min-width: 30rem; max-width: 100%; height: auto; margin: 0 auto; }
table { border-collapse: collapse; font-size: 0.92rem; line-height: 1.4; }
table { font-variant-numeric: tabular-nums lining-nums; }
th, td { padding: 0.4rem 0.9rem; border-bottom: 1px solid var(--line); vertical-align: baseline; }
th { border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600; }
th, td.right, td.center { white-space: nowrap; overflow-wrap: normal; }
td.left { min-width: 7rem; max-width: 28rem; }
tbody tr:hover { background: var(--tint); }
td[title] { cursor: help; }
.left { text-align: left; } .right { text-align: right; } .center { text-align: center; }
.best { font-weight: 700; }
pre {
  background: var(--tint); border-radius: 8px; padding: 0.9rem 1.1rem; overflow-x: auto;
  font: 0.85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media print {
  body { background: #fff; color: #000; } main { padding: 0; max-width: none; }
  figure, tr { break-inside: avoid; } .wide { overflow: visible; }
}
"""

# The policy keeps a browser from running or fetching anything, whatever a name may contain.
_PAGE = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style }}</style>
</head>
<body>
<main>
<header>
<h1 dir="auto">{{ title }}</h1>
{% if subtitle %}
<p class="subtitle" dir="auto">{{ subtitle }}</p>
{% endif %}
</header>
{% for section in sections %}
{{ section }}
{% endfor %}
</main>
</body>
</html>
"""
)
_TABLE = Markup(
    '<figure>\n<figcaption dir="auto"><strong>{}</strong> {}</figcaption>\n'
    '<div class="wide">\n{}</div>\n</figure>'
)
_CHART = Markup(
    '<figure>\n<div class="card wide">{}</div>\n<figcaption dir="auto">{}</figcaption>\n</figure>'
)


@dataclass(frozen=True)
class _Picture:
    name: str
    svg: str


class Report:
    """Sections in the order in which they are added. All text is plain: no markup is read in it."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self.subtitle = subtitle
        self._sections: list[Markup] = []
        self._pictures: list[_Picture] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._add(Markup('<h2 dir="auto">{}</h2>'), text)

    def text(self, paragraph: str) -> None:
        """Add a paragraph."""
        self._add(Markup('<p dir="auto">{}</p>'), paragraph)

    def code(self, text: str) -> None:
        """Add text whose lines and spaces stay as they are: a command, a recipe."""
        self._add(Markup("<pre><code>{}</code></pre>"), text)

    def table(self, table: Table, caption: str = "") -> None:
        """Add a table; its title and the caption stand above it."""
        self._add(_TABLE, table.title, caption, table.to_html())

    def chart(self, chart: AnyChart, caption: str, name: str) -> None:
        """Add a chart. `name` is that of its picture files, made safe and unique for them."""
        picture = _Picture(self._free_name(name), chart_svg(chart))
        self._pictures.append(picture)
        self._add(_CHART, _inline(picture.svg, picture.name, printable(caption)), caption)

    def write(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        page = _PAGE.render(
            title=printable(self.title),
            subtitle=printable(self.subtitle),
            style=Markup(_STYLE),
            sections=self._sections,
        )
        write_text(path, page)

    def write_pictures(self, folder: Path) -> list[Path]:
        """Write every chart as PNG and SVG; returns the paths."""
        paths = []
        for picture in self._pictures:
            png, svg = folder / f"{picture.name}.png", folder / f"{picture.name}.svg"
            write_bytes(png, svg_png(picture.svg))
            write_text(svg, picture.svg)
            paths += [png, svg]
        return paths

    def _add(self, frame: Markup, *parts: str) -> None:
        """Markup.format escapes every part that is not Markup itself."""
        safe = [part if isinstance(part, Markup) else printable(part) for part in parts]
        self._sections.append(frame.format(*safe))

    def _free_name(self, name: str) -> str:
        wanted = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:80].strip("-") or "chart"
        taken = {picture.name for picture in self._pictures}
        free, number = wanted, 1
        while free in taken:
            number += 1
            free = f"{wanted}-{number}"
        return free


def _inline(svg: str, name: str, description: str) -> Markup:
    """The <svg> element for a page: described, and with ids that no other chart of it has."""
    root = minidom.parseString(svg.encode("utf-8")).documentElement
    assert root is not None
    root.setAttribute("role", "img")
    root.setAttribute("aria-label", description)
    for element in [root, *root.getElementsByTagName("*")]:
        for key, value in list(element.attributes.items()):
            if key == "id":
                element.setAttribute(key, f"{name}-{value}")
            elif "url(#" in value and key != "aria-label":
                element.setAttribute(key, value.replace("url(#", f"url(#{name}-"))
    return Markup(root.toxml())
