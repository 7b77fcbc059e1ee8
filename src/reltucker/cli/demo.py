"""`reltucker demo`: the whole way once, on the built-in graph."""

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

from typer import Option

from reltucker.cli.output import console


def command(out: Annotated[Path, Option(help="The folder to write")] = Path("demo")) -> None:
    """Train, compare and question models on a built-in graph.

    Writes a report with pictures, OUT/report.html.

    Example: reltucker demo --out demo
    """
    from reltucker.progress import error_console
    from reltucker.study.demonstration import demonstrate

    began = time.monotonic()
    log = error_console()
    run, tables = demonstrate(out, say=lambda text: log.print(text, markup=False))
    screen = console()
    for table in tables:
        screen.print(table.to_rich())
    subject, relation, _ = next(run.graph.named(run.graph.test[:1]).iter_rows())
    screen.print(f"report: {out / 'report.html'}   pictures: {out / 'pictures'}")
    program = sys.argv[0] if shutil.which("reltucker") is None else "reltucker"
    if program.endswith("__main__.py"):
        program = "python -m reltucker"
    screen.print(f"ask it: {program} predict {run.path} '{subject}' {relation} '?' --held-out")
    log.print(f"the demo took {time.monotonic() - began:.0f} s", markup=False)
