"""`reltucker train`: fit a model to a graph."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option, echo

from reltucker.cli import options, output
from reltucker.cli.processes import launched


def command(
    graph_or_recipe: Annotated[
        str,
        Argument(
            metavar="GRAPH_OR_RECIPE",
            help=f"{options.GRAPH}, or a recipe: a file (.toml), or a name such as "
            "best/wn18rr-rescal-256",
        ),
    ],
    preset: options.Preset = None,
    graph: options.OtherGraph = None,
    start: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="RUN",
            help="Begin with the weights and the recipe of this run",
            show_default="random weights",
        ),
    ] = None,
    model: options.PresetModel = None,
    reciprocal: Annotated[
        bool | None,
        Option(
            "--reciprocal/--not-reciprocal",
            help="Learn a second embedding for inverse relations",
            show_default="the preset's",
        ),
    ] = None,
    entity_dim: Annotated[int | None, Option(help="d_e", show_default="the preset's")] = None,
    relation_dim: Annotated[
        int | None,
        Option(help="d_r of drt and srt", show_default="the number of relations, at most d_e"),
    ] = None,
    epochs: options.PresetEpochs = None,
    seed: Annotated[
        int | None, Option(help="Seed of initial values, batches, dropout", show_default="0")
    ] = None,
    labels: options.Labels = None,
    columns: options.Columns = None,
    max_memory: options.MaxMemory = None,
    assignments: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting of the recipe; repeatable",
            show_default="the preset's",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(help="The run folder", show_default="a new one in runs/")
    ] = None,
    processes: options.Processes = None,
    show_recipe: Annotated[
        bool, Option("--show-recipe", help="Print the full recipe, and train nothing")
    ] = False,
    json: options.Json = False,
) -> None:
    """Train a model on a graph and write a run folder.

    What a recipe file, an option or --set does not set is chosen by a preset: good within minutes,
    best within hours, fast within a minute, paper by the paper's protocol. The full recipe is
    written into the run folder. `reltucker resume RUN` goes on with a run that was stopped.

    Recipes that come with the program are known by name: `reltucker train best/` lists them all,
    and docs/results.md tells what they reach.

    With --from, names that the other run has trained keep their embeddings, and its core is taken
    over; the graph holds all triples to train on, former ones as well as new ones.

    With --processes, or under torchrun, several processes train one model together, each with a
    share of the entities (docs/scale.md); --out is needed then.

    Example: reltucker train triples.tsv --preset good --out runs/mine
    """
    from reltucker.run import open_run, prepared, train
    from reltucker.search import graph_and_recipe

    if out is None and (processes or 1) > 1:
        raise BadParameter("--processes needs --out: where is the run to be?")
    if not show_recipe and launched(processes):
        return
    values = {
        "model.name": model,
        "model.reciprocal": reciprocal,
        "model.entity_dim": entity_dim,
        "model.relation_dim": relation_dim,
        "train.epochs": epochs,
        "train.seed": seed,
        "graph.labels": labels,
        "graph.columns": columns,
        "graph.max_memory": max_memory,
    }
    origin = None if start is None else open_run(start)
    source, recipe = graph_and_recipe(
        graph_or_recipe,
        options.given(values),
        assignments or [],
        preset=preset,
        graph=graph,
        base=None if origin is None else origin.recipe,
    )
    if show_recipe:
        _, recipe = prepared(source, recipe, start=origin)
        if json:
            output.show(json, recipe.model_dump(mode="json"))
        else:
            echo(recipe.to_toml(), nl=False)
        return
    report(train(source, recipe, start=origin, out=out), json)


def report(run: Any, as_json: bool) -> None:
    """Print how training ended."""
    from reltucker.evaluation import FULL_FILTER

    result, path = run.result, run.path
    ended = f"best epoch {result['best_epoch']} of {result['epochs']}"
    if "merged_from" in result:
        ended = f"a merge of {len(result['merged_from'])} runs, which has ended"
    if "folded_in" in result:
        ended += f", {sum(each['entities'] for each in result['folded_in'])} entities added"
    keys = ["epochs", "best_epoch", "seconds", "seconds_per_epoch", "standard", "seen", "paper"]
    keys += [key for key in (FULL_FILTER,) if key in result]
    output.show(
        as_json,
        {"run": str(path), **{key: result[key] for key in keys}},
        f"{ended}; {result['seconds']:.0f} s",
        *validation_lines(result),
        f"run: {path}",
        f"next: reltucker {'evaluate' if len(run.graph.test) else 'discover'} {path}",
    )


def validation_lines(result: dict[str, Any]) -> list[str]:
    """What a run's result.json says of validation triples, and which answers were left out."""
    from reltucker.evaluation import FULL_FILTER

    def told(figures: dict[str, Any]) -> str:
        return f"MRR {figures['mrr']:.4f}, HITS@10 {figures['hits@10']:.4f}"

    if not result["seen"]["queries"]:
        return ["validation: no validation triples"]
    lines = [f"validation: {told(result['seen'])} (answers of train and valid left out)"]
    if result.get(FULL_FILTER) is not None:
        full = told(result[FULL_FILTER])
        lines.append(f"  with answers of test left out too, as on test: {full}")
    return lines
