"""What commands print: results on standard output, everything else on standard error."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reltucker.cli.processes import speaks

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

PLAIN_WIDTH = 100_000
"""Columns of what goes to a file or another program, where there is no screen to fit."""


def show(as_json: bool, document: Any, *parts: Any) -> None:
    """Print the document as JSON, or else the parts, which are lines of text and tables. Of several
    processes that run a command together, the first one prints."""
    if not speaks():
        return
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        return
    from reltucker.report.texts import printable

    screen = console()
    for part in parts:
        is_text = isinstance(part, str)
        screen.print(printable(part) if is_text else part, soft_wrap=is_text)


def written(answers: "pl.DataFrame", path: Path, what: str) -> str:
    """Write answers to a file; returns a line that says so. Of several processes the first one
    does."""
    from reltucker.serving.tables import write_answers

    return write_answers(answers, path, what) if speaks() else ""


def console() -> "Console":
    """The console for results; names are printed as they are, never read as markup. Tables fit the
    terminal, or the variable COLUMNS; without either nothing is left out."""
    from rich.console import Console

    screen = Console(highlight=False, markup=False)
    if not screen.is_terminal and not os.environ.get("COLUMNS"):
        screen.width = PLAIN_WIDTH
    return screen
