"""The rooms import one way, the picture shows it, and the pages for developers are true."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from reltucker import Recipe, open_run, train
from reltucker.model import CORES, Arrangement, RelationalTucker
from tests.conftest import random_graph
from tests.model.test_cores import explicit_scores
from tests.test_docs import ROOT, load_script

PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
SOURCE = ROOT / "src" / "reltucker"

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Imports that point up, and why. May it become empty."""

LABELS = [
    "eq:bilinearproduct",
    "eq:relationaltucker",
    "eq:effective",
    "eq:sparse",
    "sec:bilinear",
    "sec:rtucker",
    "sec:bitucker",
    "sec:autosparse",
    "sec:experiments",
    "sec:compvsprior",
    "sec:complexbaseline",
    "sec:conclusion",
    "fig:rescal",
    "fig:complexfrontal",
    "fig:budgetfb",
    "fig:budgetwn",
    "fig:learnedpattern",
    "tab:data",
    "tab:selfcomparison237",
    "tab:FB15k237results",
    "tab:baseline",
    "tab:hyperparameter",
]
"""All labels of the paper's source."""


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script(ROOT / "docs" / "make_architecture.py")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_imports_between_rooms_point_one_way(script: Any) -> None:
    rooms, common = list(script.ORDER), set(script.COMMON)
    upwards = {
        (importer, imported)
        for importer, imported in script.edges()
        if imported not in common
        and (importer in common or rooms.index(importer) < rooms.index(imported))
    }
    assert upwards == set(EXCEPTIONS)


def test_every_file_is_in_a_room(script: Any) -> None:
    found = {path.relative_to(SOURCE).with_suffix("").parts[0] for path in SOURCE.rglob("*.py")}
    assert found == {*script.ORDER, *script.COMMON, "__init__", "__main__"}
    described = re.findall(r"^\| `(\w+)` \|", text_of(PAGES[0]), re.MULTILINE)
    assert sorted(described) == sorted(script.ORDER)


def test_the_picture_is_that_of_the_code(script: Any) -> None:
    found = script.between_rooms(script.edges())
    svg = script.picture(found)
    committed = script.PICTURE.read_text(encoding="utf-8")
    description = re.compile("<desc>.*</desc>")
    assert description.findall(committed) == description.findall(svg), (
        "run: python docs/make_architecture.py"
    )
    for room in script.ORDER:
        assert f">{room}</text>" in svg


def test_a_shortcut_is_an_import_that_others_make_too(script: Any) -> None:
    found = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    assert script.needed(found) == {("a", "b"), ("b", "c"), ("a", "d")}


def names_in(path: Path) -> set[str]:
    """What a file defines: functions, classes with their methods and fields, constants."""
    names = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            names.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    collect(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return names


def places_of(name: str) -> list[Path]:
    """The files or folders of this name: in the repository, in the package or, without a folder,
    anywhere in it."""
    found = [folder / name for folder in (ROOT, SOURCE) if (folder / name).exists()]
    return found or ([] if "/" in name else sorted(SOURCE.rglob(name)))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_name_of_a_page_exists(page: str) -> None:
    text = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    quoted = re.findall(r"`([^`\n]+)`", text)
    places = [q for q in quoted if re.fullmatch(r"[\w./-]+(\.py(::[\w.]+)?|\.md|/\w*/?)", q)]
    assert len(places) > 10
    for place in places:
        file, _, name = place.partition("::")
        found = places_of(file)
        assert found, place
        assert not name or any(name in names_in(path) for path in found), place


def test_plain_names_of_the_page_on_contributing_are_in_the_code() -> None:
    quoted = re.findall(r"`(?:TrainSettings\.)?(\w+)`", text_of(PAGES[1]))
    known = set().union(*(names_in(path) for path in SOURCE.rglob("*.py")))
    known |= {name.rpartition(".")[2] for name in known}
    others = {"datasets", "RELTUCKER_DATASETS", "Literal"}
    assert set(quoted) - others <= known


def test_the_page_leads_from_every_label_of_the_paper_to_the_code() -> None:
    table = text_of(PAGES[0]).partition("## From the paper")[2]
    assert sorted(re.findall(r"`((?:eq|sec|fig|tab):\w+)`", table)) == sorted(LABELS)


def test_links_from_the_first_pages_exist() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", text_of(page)):
            assert target.startswith("http") or (ROOT / target).exists(), target
    for page in PAGES:
        assert f"({page})" in text_of("README.md")


def test_the_core_of_the_page_on_contributing_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", text_of("CONTRIBUTING.md"), re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "simple"}
    exec(code, namespace)
    core_type = namespace["SimpleCore"]
    monkeypatch.setitem(CORES, core_type.name, core_type)

    core = CORES["simple"].build(6, None, relations=5)
    model = RelationalTucker(11, 5, core).double()
    generator = torch.Generator().manual_seed(0)
    model.reset(generator)
    i, j = torch.randint(11, (2, 40), generator=generator)
    k = torch.randint(5, (40,), generator=generator)
    expected = explicit_scores(model, torch.stack([i, k, j], dim=1))
    questions = [
        ("object", i, k, model.E[j]),
        ("subject", j, k, model.E[i]),
        ("relation", i, j, model.R[k]),
    ]
    for direction, first, second, answers in questions:
        scores = (model.queries(direction, first, second) * answers).sum(dim=1)
        assert torch.allclose(scores, expected, atol=1e-9), direction
    h, t = model.E.chunk(2, dim=1)
    forward, backward = model.R.chunk(2, dim=1)
    textbook = (h[i] * forward[k] * t[j] + t[i] * backward[k] * h[j]).sum(dim=1) / 2
    assert torch.allclose(expected, textbook, atol=1e-9)

    arrangement = Arrangement.of(k, torch.rand(40, generator=generator) < 0.5, 5)
    rows = torch.randn(40, 6, dtype=torch.double, generator=generator).requires_grad_()
    relations = model.R.detach()[arrangement.relations].requires_grad_()
    inputs = (relations, rows, arrangement)
    assert torch.autograd.gradcheck(lambda m, x, a: core.queries(core.mixing(m), x, a), inputs)

    graph = random_graph(0)
    recipe = Recipe().changed(
        ["model.name='simple'", "model.entity_dim=8", "train.epochs=2", "train.batch_size=50"]
    )
    run = train(graph, recipe, out=tmp_path / "run", progress=False)
    losses = [record["loss"] for record in run.epochs()]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    reopened = open_run(tmp_path / "run")
    assert reopened.evaluate(progress=False).metrics["seen"].mrr > 0.0
    assert reopened.predict("e0", "r0", top=3).height == 3
    assert reopened.describe()["effective_relation_size"] == 8.0
