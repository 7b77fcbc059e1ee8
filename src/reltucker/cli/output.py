"""What commands print: results on standard output, everything else on standard error."""

import json
import sys
from typing import Any

from rich.console import Console

PLAIN_WIDTH = 160
"""Columns of a table that goes to a file or another program, where there is no screen to fit."""


def print_json(value: Any) -> None:
    """Exactly one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def console() -> Console:
    """The console for results; names are printed as they are, never read as markup."""
    screen = Console(highlight=False, markup=False)
    if not screen.is_terminal:
        screen.width = PLAIN_WIDTH
    return screen
