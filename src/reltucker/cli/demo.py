"""`reltucker demo`: the whole way once, on the built-in graph."""

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from typer import Option

from reltucker.cli import output

PAGE = "http://127.0.0.1:8000/"
"""Where `serve` shows the page, unless it is told otherwise."""
PLACES = ("subject", "relation", "object")


def command(out: Annotated[Path, Option(help="The folder to write")] = Path("demo")) -> None:
    """Train, compare and question models on a built-in graph.

    Writes a report with pictures, OUT/report.html, and ends with the command that shows the models
    on a page, and three questions to try there.

    Example: reltucker demo --out demo
    """
    from reltucker.progress import error_console
    from reltucker.study.demonstration import RUNS, demonstrate, questions_to_try

    began = time.monotonic()
    log = error_console()
    run, parts = demonstrate(out, say=lambda text: log.print(text, markup=False))
    program = sys.argv[0] if shutil.which("reltucker") is None else "reltucker"
    if program.endswith("__main__.py"):
        program = "python -m reltucker"
    questions = questions_to_try(run)
    first = [questions[0].get(place, "?") for place in PLACES]
    others = (out / name for name in RUNS if out / name != run.path)
    lines = [
        f"report: {out / 'report.html'}   pictures: {out / 'pictures'}",
        f"ask it: {program} predict {shlex.join([str(run.path), *first])} --held-out",
        f"see it: {program} serve {shlex.join(map(str, (run.path, *others)))}",
        "and try there:",
    ]
    for question in questions:
        text = ", ".join(question.get(place, "?") for place in PLACES)
        asked = urlencode({place[0]: name for place, name in question.items()})
        lines.append(f"  {text}: {PAGE}#/ask?{asked}")
    output.show(False, None, *parts, *lines)
    log.print(f"the demo took {time.monotonic() - began:.0f} s", markup=False)
