"""The site is built from the pages, strictly, and can be read offline."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a build in which every warning, such as a broken link, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_kind_of_page_is_there(site: Path) -> None:
    texts = {
        "index.html": "two commands",
        "how-to.html": "reltucker predict",
        "tutorials/01-first-graph.html": "probability",
        "reference/commands.html": "reltucker train",
        "reference/settings.html": "train.regularizer_weight",
        "reference/python.html": "predict_many",
        "reference/http.html": "/api/runs/{run}/predict",
        "explanation/decomposition.html": "core",
        "glossary.html": "MRR",
        "contributing.html": "make test",
        "changelog.html": "0.2.0",
    }
    for name, text in texts.items():
        assert text.lower() in (site / name).read_text(encoding="utf-8").lower(), name


def test_public_methods_are_documented(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("Run.predict", "Run.why", "KnowledgeGraph.named", "RelationalTucker.queries"):
        assert re.search(rf'id="reltucker\.(model\.)?{name}"', text), name


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?https?:[^">]+')
    found = {
        match
        for path in site.rglob("*.html")
        for match in loads.findall(path.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in match
    }
    assert not found


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_search_works_from_a_folder_without_network(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(offline=True).new_page()
        page.goto((site / "index.html").as_uri())
        page.wait_for_selector(".md-search", state="visible")
        page.keyboard.press("/")
        page.keyboard.type("calibrate")
        page.wait_for_selector(".md-search-result__item")
        assert "calibrate" in page.inner_text(".md-search-result__list")
        browser.close()
