"""`reltucker export`: embeddings for other tools."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Option

from reltucker.cli import options, output


class Format(StrEnum):
    """`reltucker.choices.ExportFormat`, since typer takes no list of Literals."""

    parquet = "parquet"
    word2vec = "word2vec"


def command(
    run: options.RunFolder,
    out: Annotated[
        Path | None, Option(help="The folder to write", show_default="RUN/export")
    ] = None,
    formats: Annotated[
        list[Format] | None, Option("--format", help="Repeatable", show_default="all")
    ] = None,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    json: options.Json = False,
) -> None:
    """Write embeddings and the core tensor for other tools.

    Entities and relations come as Parquet and as word2vec text, the core as safetensors.

    Example: reltucker export runs/mine --format parquet
    """
    from reltucker.run import open_run

    chosen = cast(Any, formats or list(Format))
    files = [
        str(path)
        for path in open_run(run, labels=labels, language=language).export(
            out or run / "export", chosen
        )
    ]
    output.show(json, {"files": files}, *files)
