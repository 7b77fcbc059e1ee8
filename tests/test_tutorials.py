"""The tutorials run from top to bottom, show what they have printed, and lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.test_docs import load_script

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
SCRIPT = ROOT / "docs" / "make_tutorials.py"
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
KILOBYTES = 300

CLAIMS = {
    "01-first-graph": ["108 questions", "Vera Castell", "The Hidden Canal"],
    "02-types-and-labels": ["D001 is Recovorin", "20 answers, and all of them are diseases"],
    "03-sparse-cores": ["entries survived", "share of |M|"],
    "04-comparing-models": ["standard deviation over seeds", "difference of MRR"],
    "05-new-entity": ["no entity is called 'Ada Jansen'", "20 facts of each, trained again"],
    "06-one-machine-to-four": ["run: runs/two", "No number of E differs by more than 0.001."],
}
"""What must be among the outputs, whatever the machine."""


def read(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: Any) -> list[str]:
    """Of each output of a cell, what it is."""
    return [each.get("name", each.output_type) for each in cell.outputs]


def shown(notebook: Any) -> str:
    outputs = [each for cell in code_cells(notebook) for each in cell.outputs]
    return "\n".join(
        each.get("text") or "".join(each.get("data", {}).get(key, "") for key in TEXTS)
        for each in outputs
    )


TEXTS = ("text/plain", "text/markdown")


def heading(text: str) -> str:
    """The anchor that a heading of Markdown gets."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def test_there_is_a_claim_for_every_tutorial() -> None:
    assert list(CLAIMS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, tmp_path: Path) -> None:
    # In a process of its own: the event loop and the sockets of a kernel stay out of pytest.
    before = set(TUTORIALS.rglob("*"))
    command = [sys.executable, str(SCRIPT), name, "--out", str(tmp_path)]
    settings = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(TUTORIALS.rglob("*")) == before
    committed, executed = (read(folder / f"{name}.ipynb") for folder in (TUTORIALS, tmp_path))
    for old, new in zip(code_cells(committed), code_cells(executed), strict=True):
        assert (old.source, kinds(old)) == (new.source, kinds(new))
    for claim in CLAIMS[name]:
        assert claim in shown(committed)
        assert claim in shown(executed)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_was_executed_and_is_clean(name: str) -> None:
    path = TUTORIALS / f"{name}.ipynb"
    notebook = read(path)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in notebook.cells:
        assert not cell.metadata
        assert not {"error", "stderr"} & set(kinds(cell) if cell.cell_type == "code" else [])
    for cell in cells[:-1]:  # the last one tidies up
        last = cell.source.splitlines()[-1]
        assert cell.outputs or not re.match(r"print\(|!|[\w.]+$", last), cell.source
    assert path.stat().st_size < KILOBYTES * 1000
    assert not load_script(SCRIPT).leaks(notebook)


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_and_ends_as_all_do_and_its_links_lead_somewhere(name: str) -> None:
    notebook = read(TUTORIALS / f"{name}.ipynb")
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert texts[0].startswith("# ")
    assert "At the end you will have" in texts[0]
    assert texts[-1].startswith("## What to read next")
    links = re.findall(r"\]\(([^)\s]+)\)", "\n".join(texts))
    assert links
    for link in links:
        target, _, anchor = link.partition("#")
        path = TUTORIALS / target
        assert path.is_file(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
            assert anchor in map(heading, titles), link


def test_a_folder_of_this_machine_in_an_output_is_found() -> None:
    script = load_script(SCRIPT)
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("1")]
    for text, leak in (("runs/one", False), (str(ROOT / "runs"), True)):
        notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text=text)]
        assert bool(script.leaks(notebook)) is leak


def test_what_a_terminal_would_show_becomes_plain() -> None:
    script = load_script(SCRIPT)
    text = "\x1b[1mbold\x1b[0m  \r\nran ━━━━ 3/3\r\n half\rdone \r\n"
    assert script.plain(text) == "bold\ndone\n"
