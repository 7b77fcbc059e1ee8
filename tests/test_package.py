"""What is released: the wheel holds all that the program reads, and those who build it agree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

import reltucker

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "reltucker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Built from a copy, since a folder `build` of an earlier time would be packed along."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(SOURCE, copy / "src" / "reltucker", ignore=shutil.ignore_patterns("*.pyc"))
    build = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = (copy / "dist").glob("*.whl")
    return ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package(wheel: ZipFile) -> None:
    files = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == files


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "graph/families.toml",
        "recipes/best/wn18rr-rescal-256.toml",
        "recipes/paper/wn18rr-drt-200-11.toml",
        "report/templates/page.html",
        "search/spaces/default.toml",
        "serving/http/page/index.html",
    ],
)
def test_the_wheel_holds_what_is_no_code(wheel: ZipFile, name: str) -> None:
    assert f"reltucker/{name}" in wheel.namelist()


def test_a_recipe_is_found_in_the_wheel(wheel: ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "installed")
    code = (
        "import reltucker; print(reltucker.__file__, reltucker.__version__); "
        "print(reltucker.Recipe.load('best/wn18rr-rescal-256').model.name)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    told = subprocess.check_output(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True
    )
    init = tmp_path / "installed" / "reltucker" / "__init__.py"
    assert told == f"{init} {reltucker.__version__}\nrescal\n"


def test_the_version_is_told_in_one_place(metadata: Message) -> None:
    assert metadata["Version"] == reltucker.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", reltucker.__version__)
    assert PROJECT["project"]["dynamic"] == ["version"]


def test_the_package_lists_its_public_names() -> None:
    assert dir(reltucker) == sorted([*reltucker.__all__, "__version__"])
    for name in reltucker.__all__:
        assert getattr(reltucker, name).__name__ == name


def test_the_command_is_installed(wheel: ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "reltucker = reltucker.cli:main" in wheel.read(name).decode()


# -- who builds and checks it ---------------------------------------------------------------------


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_runs_what_we_run_with_every_python() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML takes `on` for a truth value
    test = workflow["jobs"]["test"]
    assert [step["run"] for step in test["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    versions = test["strategy"]["matrix"]["python"]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    prefix = "Programming Language :: Python :: "
    named = [each for each in PROJECT["project"]["classifiers"] if each.startswith(f"{prefix}3.")]
    assert [each.removeprefix(prefix) for each in named] == versions
    target = versions[0].replace(".", "")
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{target}"
    assert PROJECT["tool"]["mypy"]["python_version"] == versions[0]


def test_actions_of_the_workflow_have_a_major_version() -> None:
    jobs = parsed(".github/workflows/ci.yml")["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in used)


def test_the_workflow_calls_targets_that_exist() -> None:
    steps = parsed(".github/workflows/ci.yml")["jobs"]["build"]["steps"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([\w-]+)", "\n".join(step.get("run", "") for step in steps)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_hooks_before_a_commit_are_those_of_make_test() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^test:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    ours = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert [hook["name"] for hook in local["hooks"]] == [
        line.removesuffix(" .") for line in ours if line.startswith(("ruff", "mypy"))
    ]
    for hook in local["hooks"]:
        assert hook["entry"].startswith(f".venv/bin/{hook['name']}")
        assert hook["language"] == "system"


def test_forms_ask_for_what_is_needed() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    for path in folder.glob("[!c]*.yml"):
        form = parsed(str(path.relative_to(ROOT)))
        assert form["name"]
        assert form["description"]
        ids = [field["id"] for field in form["body"]]
        assert len(set(ids)) == len(ids)
    text = (folder / "bug.yml").read_text(encoding="utf-8")
    for command in re.findall(r"`reltucker ([^`]+)`", text):
        assert command in ("--version", "data describe GRAPH")
