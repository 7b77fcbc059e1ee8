"""What commands print: results on standard output, everything else on standard error."""

import json
import sys
from typing import TYPE_CHECKING, Any

from reltucker.cli.processes import speaks

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 160
"""Columns of a table that goes to a file or another program, where there is no screen to fit."""


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
        screen.print(printable(part) if isinstance(part, str) else part.to_rich())


def console() -> "Console":
    """The console for results; names are printed as they are, never read as markup."""
    from rich.console import Console

    screen = Console(highlight=False, markup=False)
    if not screen.is_terminal:
        screen.width = PLAIN_WIDTH
    return screen
