"""`reltucker merge`: runs on one graph become one."""

from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from reltucker.cli import output
from reltucker.cli.options import Json
from reltucker.cli.train import report


def command(
    runs: Annotated[list[Path], Argument(metavar="RUN", help="Run folders of one graph")],
    out: Annotated[Path, Option(help="The run folder to write")],
    weights: Annotated[
        str | None,
        Option(
            metavar="W,W,...",
            help="A weight for each run",
            show_default="the best on the validation triples",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Merge runs of one graph into one model.

    Embeddings and cores of the runs stand side by side in a new run, whose scores are the weighted
    sum of theirs; every other command works on it. Weights are chosen by the MRR on at most 5,000
    validation triples; a run that does not help gets the weight 0 and is left out.

    Example: reltucker merge runs/mine runs/other --out runs/both
    """
    from reltucker.report import Column, Table
    from reltucker.run import merge

    run = merge(runs, out, weights=None if weights is None else _numbers(weights))
    result = run.result
    assert result is not None
    parts = [
        {
            "run": part["run"],
            "model": part["recipe"]["model"]["name"],
            "weight": part["weight"],
            "mrr": part["seen"]["mrr"],
        }
        for part in result["merged_from"]
    ]
    columns = [
        Column("run", "run"),
        Column("model", "model"),
        Column("weight", "weight", ".4g"),
        Column("validation MRR", "mrr", ".4f"),
    ]
    protocols = {key: result[key] for key in ("standard", "seen", "paper")}
    document = {"run": str(out), "parts": parts, **protocols}
    output.show(json, document, Table("", columns, parts))
    if not json:
        report(run, json)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadParameter(f"{text!r} is not a list of numbers such as 0.6,0.4") from None
