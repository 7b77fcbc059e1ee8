"""A small run, and commands in this process or in another one."""

import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from reltucker import Run, train
from reltucker.cli import main
from reltucker.training import Recipe
from tests.conftest import disjoint, random_graph, write_graph

COMMAND = [sys.executable, "-m", "reltucker"]
SETTINGS = {
    "model.name": "complex",
    "model.entity_dim": 8,
    "train.epochs": 3,
    "train.batch_size": 64,
    "train.negatives": 6,
    "train.checkpoint_seconds": 0.0,
}
OPTIONS = [
    "--model=complex",
    "--entity-dim=8",
    "--set=train.batch_size=64",
    "--set=train.checkpoint_seconds=0",
]
"""The same settings for a command, but for the epochs."""

Outcome = tuple[int, str, str]
"""Exit code, standard output, standard error."""


def run_command(*arguments: object) -> Outcome:
    """A command in this process, as `main` would end it."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["reltucker", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()


def refused(outcome: Outcome) -> str:
    """The sentence of a command that was refused."""
    code, _, err = outcome
    assert code == 2, err
    *before, last = err.splitlines()
    assert last.startswith("error: "), err
    assert not any(line.startswith(("error: ", "Traceback")) for line in before), err
    return last


@pytest.fixture(scope="session")
def graph_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(disjoint(random_graph(0)), tmp_path_factory.mktemp("graph") / "small")


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has ended; nobody may change it."""
    path = tmp_path_factory.mktemp("whole") / "run"
    recipe = Recipe().with_values(SETTINGS)
    return train(random_graph(0), recipe, out=path, progress=False)


@pytest.fixture
def run(whole_run: Run, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(whole_run.path, tmp_path / "run"))


@pytest.fixture
def background() -> Callable[..., subprocess.Popen[str]]:
    """Starts a command in another process, which is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
