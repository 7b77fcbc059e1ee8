"""`reltucker describe-model`: what a run's model is made of."""

from pathlib import Path
from typing import Annotated

import typer

from reltucker.cli.output import console, print_json


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Count the parameters of a model: non-zero free ones (nnfp), effective sizes, core density.

    In the fixed-core view the core is given and relations have embeddings; in the constrained-core
    view the relation matrix is the identity and the core holds the mixing matrices.
    """
    from reltucker.run import open_run

    description = open_run(run).describe()
    if json:
        print_json(description)
        return
    from reltucker.report import Column, Table

    out = console()
    keys = ("model", "entity_dim", "relation_dim", "reciprocal", "entities", "relations")
    out.print(", ".join(f"{key} {description[key]}" for key in keys))
    rows = [
        {"view": "fixed core", **description},
        {"view": "constrained core", **description["constrained"]},
    ]
    columns = [
        Column("view", "view"),
        Column("nnfp(G)", "nnfp_core", ",d"),
        Column("nnfp(R)", "nnfp_relations", ",d"),
        Column("nnfp(E)", "nnfp_entities", ",d"),
        Column("d_r*", "effective_relation_size", ",.1f"),
        Column("parameters*", "effective_parameters", ",d"),
        Column("core density", "core_density", ".4%"),
    ]
    out.print(Table("", columns, rows).to_rich())
