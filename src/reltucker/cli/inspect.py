"""`reltucker inspect`: pictures of what a model has learned."""

from pathlib import Path
from typing import Annotated

import typer

from reltucker.cli.output import console, print_json


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    relations: Annotated[
        list[str] | None, typer.Option("--relation", help="Name or label; repeatable")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default RUN/inspection")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Draw |M_k| of relations as heat maps and the density of the core's slices (PNG, SVG and a
    page), and order the most frequent relations by the sum of absolute diagonal values."""
    from reltucker.run import open_run
    from reltucker.study.inspection import inspect_run

    folder = run / "inspection" if out is None else out
    found = inspect_run(open_run(run), relations or [], folder)
    if json:
        print_json(found.figures)
        return
    console().print(found.diagonals.to_rich())
    console().print(f"report: {found.page}   pictures: {folder}")
