import base64
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from reltucker.report import Column, Table
from reltucker.report.charts import relation_bars
from reltucker.report.matrices import mixing_heat_map
from reltucker.report.page import Page, Part

HOSTILE = "</style><script>alert(1)</script><img src=http://x onerror='y'>\"& \x00\x1b\ud800 \u202e"
SAFE = HOSTILE.replace("\x00\x1b\ud800", "\ufffd" * 3).replace("\u202e", "\ufffd")


class Parsed(HTMLParser):
    """Every tag, attribute and text of a page as a browser's parser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(key, value or "") for key, value in attrs]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A page of hostile texts, and its pictures."""
    rows = [{"name": "cell" + HOSTILE, "mrr": 0.25}, {"name": "y" * 100_000, "mrr": 0.5}]
    columns = [Column("head" + HOSTILE, "name"), Column("MRR", "mrr", ".3f")]
    bars = relation_bars([{"relation": "r" + HOSTILE, "model": "SRT", "mrr": 0.5, "tested": 1}])
    heat = mixing_heat_map(np.eye(3), "M")
    parts = [
        Part(
            "heading" + HOSTILE,
            "text" + HOSTILE,
            {"table": Table("title" + HOSTILE, columns, rows)},
            "code  two spaces\n" + HOSTILE,
            {"By relation": (bars, "bars url(#no)" + HOSTILE)},
        ),
        Part("other", charts={"../By/relation": (heat, ""), "by relation": (heat, "map")}),
        Part("last", charts={"…": (heat, "map")}),
    ]
    folder = tmp_path_factory.mktemp("page")
    page = Page(HOSTILE, "sub" + HOSTILE, ["introduction" + HOSTILE], parts)
    return folder / "page.html", page.write(folder / "page.html", folder / "pictures")


@pytest.fixture(scope="module")
def html(written: tuple[Path, list[Path]]) -> str:
    return written[0].read_text("utf-8")


def test_every_text_arrives_as_text(html: str):
    texts = Parsed(html).texts
    code = "code  two spaces\n"
    for prefix in ("", "sub", "introduction", "heading", "text", code, "title", "cell", "head"):
        assert prefix + SAFE in texts
    assert "0.250" in texts


def test_the_page_runs_and_fetches_nothing(html: str):
    parsed = Parsed(html)
    assert not {"script", "link", "iframe", "object", "base", "form"} & set(parsed.tags)
    for key, value in parsed.attributes:
        assert not key.startswith("on"), key
        if key in ("href", "src", "style"):
            assert value.startswith("data:image/svg+xml;base64,")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_charts_are_inside_the_page_and_described(html: str):
    attributes = Parsed(html).attributes
    charts = [value for key, value in attributes if key == "src"]
    assert len(charts) == 4
    for chart in charts:
        svg = base64.b64decode(chart.partition(",")[2])
        assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert b"<script" not in svg
    described = [value for key, value in attributes if key == "alt"]
    assert described == ["bars url(#no)" + SAFE, "", "map", "map"]


def test_long_cells_are_shortened(html: str):
    assert "y" * 50 in html
    assert "y" * 2_000 not in html


def test_pictures_get_safe_and_unique_names(written: tuple[Path, list[Path]]):
    html, paths = written
    names = ["by-relation", "by-relation-2", "by-relation-3", "chart"]
    assert [path.name for path in paths] == [
        name + suffix for name in names for suffix in (".png", ".svg")
    ]
    assert sorted(html.parent.rglob("*.*")) == sorted([html, *paths])
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"


def test_an_empty_page_is_a_page(tmp_path: Path):
    path = tmp_path / "deep" / "page.html"
    assert Page("Nothing yet", "", [], []).write(path, tmp_path) == []
    parsed = Parsed(path.read_text("utf-8"))
    assert parsed.texts.count("Nothing yet") == 2
    assert "img" not in parsed.tags
