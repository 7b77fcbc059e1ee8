"""`reltucker train`: fit a model to a graph."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reltucker.cli.output import console, print_json


def command(
    graph_or_recipe: Annotated[
        str, typer.Argument(help="A catalog name, a file or folder of triples, or a recipe (.toml)")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="The core: drt, srt, rescal, distmult, cp, complex, hole, analogy"),
    ] = None,
    reciprocal: Annotated[
        bool, typer.Option("--reciprocal", help="A second embedding for each inverse relation")
    ] = False,
    entity_dim: Annotated[int | None, typer.Option(help="d_e")] = None,
    relation_dim: Annotated[int | None, typer.Option(help="d_r, where the core leaves it free")] = (
        None
    ),
    epochs: Annotated[int | None, typer.Option(help="How many epochs at the most")] = None,
    seed: Annotated[int | None, typer.Option(help="Of initial values, batches, dropout")] = None,
    labels: Annotated[str | None, typer.Option(help="File of (id, name) for display")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the recipe; repeatable"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; by default a new one in runs/")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Train a model on a graph and write a run folder.

    Every setting has a default; a recipe file or --set changes it. The full recipe is written
    into the run folder. An interrupted run goes on with `reltucker resume RUN`.
    """
    from reltucker.run import train
    from reltucker.training.recipe import graph_and_recipe

    flags: dict[str, Any] = {
        "model.name": model,
        "model.reciprocal": reciprocal or None,
        "model.entity_dim": entity_dim,
        "model.relation_dim": relation_dim,
        "train.epochs": epochs,
        "train.seed": seed,
        "graph.labels": labels,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    source, recipe = graph_and_recipe(graph_or_recipe, given, assignments or [])
    run = train(source, recipe, out=out)
    report(run, json)


def report(run: Any, json: bool) -> None:
    """Print how training ended."""
    result = run.result
    if json:
        keys = ("epochs", "best_epoch", "seconds", "seconds_per_epoch")
        protocols = ("standard", "seen", "paper")
        print_json({"run": str(run.path), **{key: result[key] for key in (*keys, *protocols)}})
        return
    out = console()
    seen = result["seen"]
    judged = "no validation triples"
    if seen["queries"]:
        judged = f"validation MRR {seen['mrr']:.4f}, HITS@10 {seen['hits@10']:.4f}"
    best, epochs = result["best_epoch"], result["epochs"]
    out.print(f"best epoch {best} of {epochs}: {judged}; {result['seconds']:.0f} s")
    out.print(f"run: {run.path}")
    out.print(f"next: reltucker evaluate {run.path}")
