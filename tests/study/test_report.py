import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from reltucker.study import (
    Column,
    Report,
    Table,
    comparison_bars,
    mixing_heat_map,
    relation_bars,
)

HOSTILE = "</style><script>alert(1)</script><img src=http://x onerror='y'>\"& \x00\x1b\ud800 \u202e"
SAFE = HOSTILE.replace("\x00\x1b\ud800", "\ufffd" * 3)


class Page(HTMLParser):
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
def report() -> Report:
    report = Report(HOSTILE, "sub" + HOSTILE)
    report.heading("heading" + HOSTILE)
    report.text("text" + HOSTILE)
    report.code("code  two spaces\n" + HOSTILE)
    rows = [{"name": "cell" + HOSTILE, "mrr": 0.25}, {"name": "y" * 100_000, "mrr": 0.5}]
    columns = [Column("head" + HOSTILE, "name"), Column("MRR", "mrr", ".3f")]
    report.table(Table("title" + HOSTILE, columns, rows), "caption" + HOSTILE)
    bars = relation_bars([{"relation": "r" + HOSTILE, "model": "SRT", "mrr": 0.5}])
    report.chart(bars, "bars url(#no)" + HOSTILE, "By relation")
    report.chart(comparison_bars([{"model": "SRT", "mrr": 0.5}]), "", "../By/relation")
    report.chart(mixing_heat_map(np.eye(3), "M"), "map", "by relation")
    report.chart(mixing_heat_map(np.eye(4), "M"), "map", "…")
    return report


@pytest.fixture(scope="module")
def html(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(path)
    return path.read_text("utf-8")


def test_every_text_arrives_as_text(html: str):
    texts = Page(html).texts
    for prefix in ("", "sub", "heading", "text", "code  two spaces\n", "title", "cell", "head"):
        assert prefix + SAFE in texts
    assert any(("caption" + SAFE) in text for text in texts)
    assert "0.250" in texts


def test_the_page_runs_and_fetches_nothing(html: str):
    page = Page(html)
    assert not {"script", "link", "iframe", "img", "object", "base", "form"} & set(page.tags)
    for key, value in page.attributes:
        assert not key.startswith("on"), key
        if key.startswith("xmlns"):
            assert value.startswith("http://www.w3.org/")
        elif key in ("href", "src", "xlink:href", "style"):
            assert "http" not in value
            assert key == "style" or value.startswith(("data:image/png;base64,", "#"))
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_charts_are_inline_described_and_do_not_share_ids(html: str):
    charts = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(charts) == 4
    for chart in charts:
        root = ET.fromstring(chart)
        assert root.get("role") == "img"
        own = {element.get("id") for element in root.iter() if element.get("id")}
        used = set(re.findall(r'="url\(#([^)]*)\)"', chart))
        assert used <= own
    assert ET.fromstring(charts[0]).get("aria-label") == "bars url(#no)" + SAFE
    ids = [value for key, value in Page(html).attributes if key == "id"]
    assert {value.rsplit("-", 1)[0] for value in ids} == {"by-relation-3", "chart"}
    assert len(ids) == len(set(ids))


def test_long_cells_are_shortened(html: str):
    assert "y" * 50 in html
    assert "y" * 2_000 not in html


def test_pictures_get_safe_and_unique_names(report: Report, tmp_path: Path):
    paths = report.write_pictures(tmp_path / "pictures")
    names = ["by-relation", "by-relation-2", "by-relation-3", "chart"]
    assert [path.name for path in paths] == [
        name + suffix for name in names for suffix in (".png", ".svg")
    ]
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"


def test_an_empty_report_is_a_page(tmp_path: Path):
    Report("Nothing yet").write(tmp_path / "deep" / "report.html")
    page = Page((tmp_path / "deep" / "report.html").read_text("utf-8"))
    assert page.texts.count("Nothing yet") == 2
    assert "svg" not in page.tags
