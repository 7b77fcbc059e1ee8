"""Every model and method has an entry on the page of references, and links to it arrive."""

import json
import re
from pathlib import Path

import pytest

import reltucker
from reltucker.graph.catalog import ENTRIES
from reltucker.model import CORES
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
ANCHORS = re.findall(r"^### .*\{#([a-z0-9-]+)\}$", PAGE, flags=re.M)
METHODS = (
    *("adagrad", "adam", "model.reciprocal", "model.batch_norm", "train.label_smoothing"),
    *("train.relation_prediction", "train.orthogonality", "train.averaged_epochs"),
)
NAMES = {*CORES, *OBJECTIVES, *REGULARIZERS, *METHODS, *ENTRIES} - {"none", "families"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_it_has_an_entry(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_headings_have_anchors_of_their_own() -> None:
    assert len(ANCHORS) == len(re.findall(r"^### ", PAGE, flags=re.M))
    assert len(ANCHORS) == len(set(ANCHORS))


def test_entries_have_a_year_and_links_of_publishers() -> None:
    for entry in PAGE.split("\n### ")[1:]:
        links = re.findall(r"https://([^/)]+)", entry)
        hosts = {"arxiv.org", "doi.org", "openreview.net", "aclanthology.org", "github.com"}
        assert set(links) <= hosts
        assert re.search(r"\b(19|20)\d\d\b", entry) or "](#" in entry


def test_links_to_references_arrive() -> None:
    found = []
    for path in (ROOT / "docs").rglob("*.md"):
        found += re.findall(r"references\.md#([\w-]+)", path.read_text(encoding="utf-8"))
    found += re.findall(r"\]\(#([\w-]+)\)", PAGE)
    assert found
    assert set(found) <= set(ANCHORS)


def test_the_family_names_the_paper_of_each_model() -> None:
    text = (ROOT / "docs" / "family.md").read_text(encoding="utf-8")
    for name in CORES:
        (row,) = re.findall(rf"^\| `{name}` \|.*$", text, flags=re.M)
        assert "references.md#" in row


def test_the_citation_file_names_this_version_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert text.startswith("cff-version: 1.2.0\n")
    assert f"\nversion: {reltucker.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text
    assert "A Relational Tucker Decomposition for Multi-Relational Link Prediction" in text


def test_the_figures_of_the_explanation_are_those_of_the_result_files() -> None:
    text = (ROOT / "docs" / "explanation" / "why-figures-differ.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (best/[\w-]+) \| (.*) \|$", text, flags=re.M)
    assert len(rows) == 4
    for name, shown in rows:
        path = ROOT / "docs" / "results" / f"{name}.json"
        test = json.loads(path.read_text(encoding="utf-8"))["test"]
        found = [test[protocol]["mrr"] for protocol in ("standard", "seen", "paper")]
        assert shown.split(" | ") == [f"{100 * mrr:.1f}" for mrr in found]
