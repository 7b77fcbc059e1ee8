"""`reltucker add`: new entities without training."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from reltucker.cli import options
from reltucker.cli.train import report


def command(
    run: options.RunFolder,
    triples: Annotated[Path, Argument(metavar="FILE", help="Triples that name new entities")],
    out: Annotated[Path, Option(help="The run folder to write")],
    json: options.Json = False,
) -> None:
    """Add new entities without training.

    The embeddings of new entities are solved by the objective of the run, and all else stays as it
    is. The triples become training triples of the new run, on which every other command works.
    Relations must be known ones.

    Example: reltucker add runs/mine newcomers.tsv --out runs/more
    """
    from reltucker.run import open_run

    report(open_run(run).add(triples, out=out), json)
