"""`reltucker evaluate`: rank the triples of a split."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from reltucker.cli.output import console, print_json


class Split(StrEnum):
    """Which triples are ranked."""

    train = "train"
    valid = "valid"
    test = "test"


class By(StrEnum):
    """What the figures are broken down by."""

    relation = "relation"
    kind = "kind"
    direction = "direction"


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    split: Annotated[Split, typer.Option(help="Which triples are ranked")] = Split.test,
    by: Annotated[By | None, typer.Option(help="Break the figures down")] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Rank so many triples, drawn at random, instead of all"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Rank the true entity of every triple, in both directions, under three protocols.

    standard: known triples of all splits filtered, all triples, all entities. seen: the same
    among the entities that occur in train. paper: as seen, but only train and valid filtered.
    """
    from reltucker.run import open_run

    evaluation = open_run(run).evaluate(
        cast(Any, split.value), cast(Any, by and by.value), sample=sample
    )
    if json:
        print_json(evaluation.to_dict())
        return
    out = console()
    figures = evaluation.to_dict()
    out.print(
        f"{run}: {evaluation.model}, entity_dim {evaluation.entity_dim}, relation_dim "
        f"{evaluation.relation_dim}, effective relation size "
        f"{figures['effective_relation_size']:,.0f}, effective parameters "
        f"{figures['effective_parameters']:,}; {split.value} split, {evaluation.seconds:.1f} s"
    )
    out.print(_table(evaluation.frame()).to_rich())


def _table(frame: Any) -> Any:
    from reltucker.report import TEXT, Column, Table

    formats = {"mean_rank": ",.1f", "queries": ",d"}
    numbers = {"mrr", "hits@1", "hits@3", "hits@10"}
    columns = [
        Column(name, name, format=".4f" if name in numbers else formats.get(name, TEXT))
        for name in frame.columns
    ]
    return Table(title="", columns=columns, rows=frame.to_dicts())
