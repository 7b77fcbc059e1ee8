"""`reltucker resume`: go on with an interrupted training run."""

from pathlib import Path
from typing import Annotated

import typer

from reltucker.cli.train import report


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Go on with a training run that was stopped; the figures are those of an unbroken run."""
    from reltucker.run import open_run

    report(open_run(run).resume(), json)
