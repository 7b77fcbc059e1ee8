"""`reltucker search`: find the settings of the best model."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from reltucker.cli.output import console, print_json


def command(
    graph_or_space: Annotated[
        str, typer.Argument(help="A catalog name, a file or folder of triples, or a space (.toml)")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="The core: drt, srt, rescal, distmult, cp, complex, hole, analogy"),
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="paper, default, or a file (.toml) with a table [space]")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="How many in all (30; paper: 12 for each entity size; grid: all)"),
    ] = None,
    sampler: Annotated[
        Literal["paper", "gp", "tpe", "random", "grid"],
        typer.Option(help="How settings are chosen"),
    ] = "tpe",
    pruner: Annotated[
        Literal["none", "median", "halving"], typer.Option(help="End poor trials early")
    ] = "none",
    objective: Annotated[
        Literal["mrr", "skyline"],
        typer.Option(help="Best MRR, or the front of MRR against parameters"),
    ] = "mrr",
    max_parameters: Annotated[
        str | None, typer.Option(help="Limit of effective parameters, such as 3M")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="sqlite:///FILE.db or postgresql://...; by default in OUT")
    ] = None,
    study: Annotated[str | None, typer.Option(help="Its name; by default GRAPH-MODEL")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine")] = 1,
    join: Annotated[
        bool, typer.Option("--join", help="Work on a study that another machine has begun")
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="How many epochs at the most")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sampler")] = 0,
    labels: Annotated[str | None, typer.Option(help="File of (id, name) for display")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that is not searched"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder; by default searches/GRAPH-MODEL")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Search for the settings of the best model, train it, and evaluate it on test once.

    The same command goes on with a search that was stopped or killed. Every trial is a run in
    OUT/trials; the best model is the run OUT/best, and OUT/report.html shows the whole search.
    """
    from reltucker.search import parse_count, recipe_and_space, run_search
    from reltucker.search.report import write_report

    flags: dict[str, Any] = {"model.name": model, "train.epochs": epochs, "graph.labels": labels}
    given = {key: value for key, value in flags.items() if value is not None}
    recipe, found = recipe_and_space(graph_or_space, space, sampler, given, assignments or [])
    result = run_search(
        recipe,
        found,
        out=out or Path("searches") / _folder(study, recipe),
        trials=trials,
        sampler=sampler,
        pruner=pruner,
        objective=objective,
        max_parameters=None if max_parameters is None else parse_count(max_parameters),
        storage=storage,
        study=study,
        workers=workers,
        seed=seed,
        join=join,
    )
    if result is None:
        if json:
            print_json({"joined": True})
        else:
            console().print("no trial waits any more; the machine that began the study ends it")
        return
    page = write_report(result)
    if json:
        print_json(result.to_dict())
        return
    screen = console()
    screen.print(page.table.to_rich())
    best = result.best
    screen.print(
        f"best: trial {best['number']}, valid MRR {best['valid_mrr']:.4f}, test MRR "
        f"{result.test['seen']['mrr']:.4f} (seen), {best['effective_parameters']:,} parameters"
    )
    screen.print(f"recipe: {result.out / 'best.toml'}   report: {page.path}")
    screen.print(f"run: {result.run}")


def _folder(study: str | None, recipe: Any) -> str:
    name = study or f"{Path(recipe.graph.source).stem}-{recipe.model.name}"
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)
