"""`reltucker demo`: the whole way once, on the built-in graph."""

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from reltucker.cli.output import console
from reltucker.progress import error_console


def command(
    out: Annotated[Path, typer.Option(help="The folder to write")] = Path("demo"),
) -> None:
    """Train, compare and question models on the built-in graph; write a report with pictures."""
    from reltucker.study.demonstration import demonstrate

    began = time.monotonic()
    log = error_console()
    made = demonstrate(out, say=lambda text: log.print(text, markup=False))
    screen = console()
    for table in made.tables:
        screen.print(table.to_rich())
    run = made.best
    subject, relation, _ = next(run.graph.named(run.graph.test[:1]).iter_rows())
    screen.print(f"report: {made.page}   pictures: {made.page.parent / 'pictures'}")
    program = "reltucker" if shutil.which("reltucker") else sys.argv[0]
    screen.print(f"ask it: {program} predict {run.path} '{subject}' {relation} '?'")
    log.print(f"the demo took {time.monotonic() - began:.0f} s", markup=False)
