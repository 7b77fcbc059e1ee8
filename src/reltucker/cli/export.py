"""`reltucker export`: embeddings for other tools."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from reltucker.cli.output import console, print_json


class Format(StrEnum):
    """A file format for embeddings."""

    parquet = "parquet"
    word2vec = "word2vec"


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default RUN/export")
    ] = None,
    formats: Annotated[
        list[Format] | None, typer.Option("--format", help="Repeatable; by default all")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Write entity and relation embeddings as Parquet and word2vec text, and the core tensor."""
    from reltucker.run import open_run

    chosen = [cast(Any, format_.value) for format_ in (formats or list(Format))]
    written = open_run(run).export(run / "export" if out is None else out, chosen)
    if json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        console().print(str(path))
