"""`reltucker inspect`: pictures of what a model has learned."""

from pathlib import Path
from typing import Annotated

from typer import Option

from reltucker.cli import options, output


def command(
    run: options.RunFolder,
    relations: options.Relations = None,
    out: Annotated[
        Path | None, Option(help="The folder to write", show_default="RUN/inspection")
    ] = None,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    json: options.Json = False,
) -> None:
    """Draw what a model has learned about relations.

    Writes |M_k| of relations as heat maps and the density of the core's slices (PNG, SVG and a
    page), and orders the most frequent relations by the sum of absolute diagonal values.

    Example: reltucker inspect runs/mine --relation born_in
    """
    from reltucker.run import open_run
    from reltucker.study.inspection import inspect_run

    folder = out or run / "inspection"
    figures, diagonals = inspect_run(
        open_run(run, labels=labels, language=language), relations or [], folder
    )
    line = f"report: {figures['report']}   pictures: {folder}"
    output.show(json, figures, diagonals, line)
