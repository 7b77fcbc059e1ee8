"""`reltucker search`: find the settings of the best model."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from reltucker.choices import ObjectiveName, PrunerName, SamplerName
from reltucker.cli import options, output


def command(
    graph_or_space: Annotated[
        str, Argument(metavar="GRAPH_OR_SPACE", help=f"{options.GRAPH}, or a space (.toml)")
    ],
    graph: options.OtherGraph = None,
    model: options.Model = None,
    space: Annotated[
        str | None,
        Option(
            help="default, simple, paper, or a file (.toml) with a space",
            show_default="default; simple for a recipe; paper for the paper's sampler and graphs",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        Option(min=1, help="How many in all", show_default="30; paper: 12 for each d_e; grid: all"),
    ] = None,
    minutes: Annotated[
        float | None,
        Option(min=0.1, help="The best model within this time", show_default="no limit"),
    ] = None,
    sampler: Annotated[SamplerName, Option(help="How to choose settings")] = "tpe",
    pruner: Annotated[
        PrunerName | None,
        Option(help="How to end poor trials early", show_default="none; median with --minutes"),
    ] = None,
    objective: Annotated[
        ObjectiveName, Option(help="The best MRR, or the front of MRR against parameters")
    ] = "mrr",
    max_parameters: Annotated[
        str | None,
        Option(help="Limit of effective parameters, such as 3M", show_default="no limit"),
    ] = None,
    storage: Annotated[
        str | None,
        Option(help="sqlite:///FILE.db or postgresql://...", show_default="a file in OUT"),
    ] = None,
    study: Annotated[
        str | None, Option(help="The name of the study", show_default="GRAPH, or GRAPH-MODEL")
    ] = None,
    workers: options.Workers = 1,
    join: Annotated[
        bool, Option("--join", help="Work on a study that another machine has begun")
    ] = False,
    merge: Annotated[
        bool | None,
        Option(
            "--merge/--no-merge",
            help="Merge trials that are better together",
            show_default="where models are searched, too",
        ),
    ] = None,
    epochs: options.Epochs = None,
    seed: Annotated[int, Option(min=0, help="Seed of the sampler")] = 0,
    labels: options.Labels = None,
    columns: options.Columns = None,
    max_memory: options.MaxMemory = None,
    assignments: options.FixedSettings = None,
    out: Annotated[
        Path | None, Option(help="The folder", show_default="searches/GRAPH, or GRAPH-MODEL")
    ] = None,
    json: options.Json = False,
) -> None:
    """Search for the settings of the best model.

    Trains the best model and evaluates it on test once. Every trial is a run in OUT/trials; the
    best model is the run OUT/best, and OUT/report.html shows the whole search. The same command
    goes on with a search that was stopped or killed.

    Example: reltucker search triples.tsv --minutes 30 --workers 4
    """
    from reltucker.evaluation import FULL_FILTER
    from reltucker.progress import going_on
    from reltucker.search import parse_count, recipe_and_space, run_search, study_name
    from reltucker.search.report import write_report

    read = {"graph.labels": labels, "graph.columns": columns, "graph.max_memory": max_memory}
    values = options.given({"model.name": model, "train.epochs": epochs, **read})
    recipe, found = recipe_and_space(
        graph_or_space, space, sampler, values, assignments or [], graph=graph
    )
    name = study or study_name(Path(str(recipe.graph.source)).stem, recipe, found)
    folder = out or Path("searches") / options.folder_name(name)
    with going_on(f"the same command goes on with the search in {folder}"):
        result = run_search(
            recipe,
            found,
            out=folder,
            trials=trials,
            minutes=minutes,
            sampler=sampler,
            pruner=pruner,
            objective=objective,
            max_parameters=None if max_parameters is None else parse_count(max_parameters),
            storage=storage,
            study=study,
            workers=workers,
            seed=seed,
            join=join,
            merge=merge,
        )
    if result is None:
        ended = "no trial waits any more; the machine that began the study ends it"
        output.show(json, {"joined": True}, ended)
        return
    best, seen = result.best, result.test["seen"]
    merged, together = result.merged, []
    if merged is not None:
        numbers = ", ".join(str(part["number"]) for part in merged["trials"])
        together = [f"merged: trials {numbers}, valid MRR {merged['valid_mrr']:.4f}"]
    full = result.test.get(FULL_FILTER)
    if full is not None:
        told = "with answers of test left out too, as on test"
        together.append(f"  {told}: valid MRR {full['mrr']:.4f}")
    output.show(
        json,
        result.to_dict(),
        write_report(result),
        f"best: trial {best['number']}, {best['effective_parameters']:,} parameters, "
        f"valid MRR {best['valid_mrr']:.4f}",
        "  (seen; answers of train and valid left out)",
        *together,
        f"test MRR {seen['mrr']:.4f} (seen; answers of train, valid and test left out)"
        if seen["queries"]
        else "no test triples",
        f"recipe: {result.out / 'best.toml'}   report: {result.out / 'report.html'}",
        f"run: {result.run}",
    )
