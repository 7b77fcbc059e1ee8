"""Peers, each in an environment of its own, so that its dependencies cannot disturb ours."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ENVIRONMENTS = FOLDER / ".peers"


def pykeen_python(given: Path | None) -> Path:
    """A Python that has PyKEEN: the given one, or that of an environment made here once."""
    if given is not None:
        return given
    environment = ENVIRONMENTS / "pykeen"
    python = environment / "bin" / "python"
    if not (environment / ".installed").is_file():
        print("installing PyKEEN into an environment of its own", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        constraints = FOLDER.parent / "constraints.txt"
        torch = next(x for x in constraints.read_text().split() if x.startswith("torch=="))
        subprocess.run([python, "-m", "pip", "install", "--quiet", torch, "pykeen"], check=True)
        (environment / ".installed").touch()
    return python


def measure_pykeen(python: Path, folder: Path, task: str, **options: int | str) -> dict[str, Any]:
    """Run a task of pykeen_peer.py on the splits in `folder`; returns what it measured."""
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    script = FOLDER / "pykeen_peer.py"
    command = [str(python), str(script), task, str(folder), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
