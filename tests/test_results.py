"""The pages of results are those of the result files, and what they say in words still holds."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()
PAGES = ("results", "results-fb15k-237", "results-trials", "results-wn18rr")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_made_from_its_template_and_the_result_files(name: str) -> None:
    assert SCRIPT.page(name) == (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_every_template_is_a_page() -> None:
    assert SCRIPT.NAMES == PAGES


def test_every_result_is_shown() -> None:
    text = "".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
    shown = text.replace("\\_", "_")
    for path in (DOCS / "results").glob("*/*.json"):
        folder = path.parent.name
        name = f"{folder}/{path.stem}" if folder in ("best", "paper") else path.stem
        assert f"| {name} |" in shown, name


def test_anchors_within_the_docs_exist() -> None:
    for name in PAGES:
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        for page, anchor in re.findall(r"\]\(([\w-]+\.md)#([\w-]+)\)", text):
            headers = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w -]", "", header).lower().replace(" ", "-") for header in headers]
            assert anchor in slugs, f"{page}#{anchor}"


def test_a_claim_that_holds_no_longer_is_an_error() -> None:
    pages = SCRIPT.Pages()
    better, worse = "one/wn18rr.standard.mrr", "small/wn18rr.standard.mrr"
    assert pages.show(f"{better} > {worse}") == ""
    with pytest.raises(ValueError, match="holds no longer"):
        pages.show(f"{worse} > {better}")


def test_a_line_about_a_missing_result_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = SCRIPT.Pages()
    known = next(iter(pages.results))
    (tmp_path / "templates").mkdir()
    text = (
        f"a\n\n{{{{with {known}}}}} b\n\n{{{{with paper/none}}}} c {{{{paper/none.valid}}}}\n\nd\n"
    )
    (tmp_path / "templates" / "some.md.in").write_text(text, encoding="utf-8")
    monkeypatch.setattr(SCRIPT, "DOCS", tmp_path)
    assert pages.render("some") == "a\n\nb\n\nd\n"


def test_figures_of_the_first_table_are_those_of_the_files() -> None:
    row = SCRIPT.Pages().chosen("one", "fb15k-237")
    result = json.loads((DOCS / "results" / f"{row['recipe']}.json").read_text(encoding="utf-8"))
    mrr = f"{100 * result['test']['standard']['mrr']:.1f}"
    first = (DOCS / "results.md").read_text(encoding="utf-8").splitlines()[4]
    assert first.startswith("| FB15K-237 | best single model |")
    assert f"| {mrr} | 38.8 |" in first
    assert row["recipe"] in first


def test_rows_of_the_paper_without_a_result_have_dashes() -> None:
    pages = SCRIPT.Pages()
    recipe = "paper/fb15k-237-complex-100"
    del pages.results[recipe]
    assert f"| {recipe} | – | 27.1 | – | – |" in pages.show("table: published_rows")
    assert f"`{recipe}`" in pages.untrained_text()
