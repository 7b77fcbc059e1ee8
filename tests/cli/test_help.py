"""Help, version and completion: complete, in step with the API, and quick."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

import reltucker
from reltucker.choices import ExportFormat, PresetName
from reltucker.cli import app
from reltucker.cli.export import Format
from reltucker.search import DEFAULT_PRESET
from reltucker.training import Recipe
from tests.cli.test_commands import COMMAND, run

HEAVY = ("torch", "numba", "numpy", "polars", "optuna", "altair", "rich")


def commands() -> dict[str, Any]:
    """Every command by what a user types for it."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {"": command})
        found |= {f"{name} {part}".strip(): inner[part] for part in inner}
    return found


@pytest.mark.parametrize("name", commands())
def test_help_of_a_command_has_an_example_that_parses(name: str, tmp_path: Path) -> None:
    text = run(*name.split(), "--help", cwd=tmp_path).stdout
    assert text.startswith(f"Usage: reltucker {name} ")
    (example,) = [line.strip() for line in text.splitlines() if "Example:" in line]
    words = shlex.split(example.removeprefix("Example: "))
    assert words[0] == "reltucker"
    root = typer.main.get_command(app)
    command = root
    for part in name.split():
        command = command.commands[part]
    called = []
    command.callback = lambda **values: called.append(values)
    root(words[1:], standalone_mode=False)
    assert len(called) == 1


def test_every_option_has_a_default_and_no_argument_doubled_brackets() -> None:
    for name, command in commands().items():
        text = command.get_help(typer.Context(command, info_name=name))
        assert "[[" not in text, name
        for option in command.params:
            if option.param_type_name == "argument" or option.is_flag or option.required:
                continue
            shown = " ".join(option.get_help_record(typer.Context(command))[1].split())
            assert "[default: " in shown, f"{name} {option.opts}"


def test_the_list_of_commands_shows_whole_sentences(tmp_path: Path) -> None:
    text = run("--help", cwd=tmp_path).stdout
    assert "..." not in text.partition("Commands:")[2]
    assert all(f"\n  {name.split()[0]} " in text for name in commands())


def test_no_command_shows_the_help(tmp_path: Path) -> None:
    done = run(cwd=tmp_path, code=2)
    assert done.stderr == run("--help", cwd=tmp_path).stdout


def test_words_and_defaults_are_those_of_the_api(tmp_path: Path) -> None:
    assert get_args(ExportFormat) == tuple(Format)
    recipe = Recipe()
    model = "(docs/family.md has all) [default: ({})]".format
    epochs = "epochs [default: ({})]".format
    expected = {
        "train": [
            model("the preset's"),
            epochs("the preset's"),
            f"--preset <{'|'.join(get_args(PresetName))}>",
            f"sizes [default: ({DEFAULT_PRESET}; none for a recipe)]",
            f"dropout [default: ({recipe.train.seed})]",
        ],
        "search": [model(recipe.model.name), epochs(recipe.train.epochs)],
    }
    for command, texts in expected.items():
        text = " ".join(run(command, "--help", cwd=tmp_path).stdout.split())
        for shown in texts:
            assert shown in text


def test_version_of_the_module(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"reltucker {reltucker.__version__}\n"


def test_completion_knows_the_words() -> None:
    asked = {"COMP_WORDS": "reltucker train --model c", "COMP_CWORD": "3"}
    environment = {**os.environ, **asked, "_RELTUCKER_COMPLETE": "complete_bash"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cp", "complex"]
    # Typer looks for a shell among the parents, of which a test may have none.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [*COMMAND, "--show-completion", "bash"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "_RELTUCKER_COMPLETE=complete_bash" in done.stdout


def test_no_help_imports_a_heavy_library() -> None:
    code = f"""
import json, sys
from typer.testing import CliRunner
from reltucker.cli import app
for words in {[name.split() for name in ("", *commands())]}:
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
print(json.dumps(sorted(set({HEAVY}) & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_help_is_quick() -> None:
    """It takes 0.15 s; the limit leaves room for a busy machine."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 1.0
