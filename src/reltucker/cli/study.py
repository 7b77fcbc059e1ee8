"""`reltucker study`: the paper's study on any graph."""

import re
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from reltucker.cli.compare import ProtocolName
from reltucker.cli.output import console, print_json
from reltucker.study.paper import MODELS, SIZES, TRIALS


def command(
    graph: Annotated[str, typer.Argument(help="A catalog name, a file or a folder of triples")],
    models: Annotated[str, typer.Option(help="Cores, separated by commas")] = ",".join(MODELS),
    sizes: Annotated[str, typer.Option(help="Entity sizes d_e")] = ",".join(map(str, SIZES)),
    trials: Annotated[int, typer.Option(min=1, help="For each model and size")] = TRIALS,
    epochs: Annotated[int | None, typer.Option(help="Of each trial, at the most")] = None,
    reciprocal: Annotated[
        bool, typer.Option("--reciprocal", help="Also fit fixed cores with reciprocal relations")
    ] = False,
    match_parameters: Annotated[
        bool,
        typer.Option(
            "--match-parameters",
            help="Also fit DRT, d_r = K, with the budgets of ComplEx (fb15k-237: 32, 52, 84)",
        ),
    ] = False,
    all_fits: Annotated[
        bool, typer.Option("--all-fits", help="Compare the runs of all trials, not only the best")
    ] = False,
    protocol: Annotated[
        ProtocolName, typer.Option(help="Of the figures; the others stand beside")
    ] = ProtocolName.seen,
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the samplers and the bootstrap")] = 0,
    labels: Annotated[str | None, typer.Option(help="File of (id, name) for display")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that is not searched"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default studies/GRAPH")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is planned and done; train nothing")
    ] = False,
    compare_only: Annotated[
        bool, typer.Option("--compare-only", help="Compare what has ended so far; train nothing")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Rerun the paper's study on a graph: search each model at each size, compare the best fits.

    Each search takes 8 random points of a grid and then 4 guided ones, on validation triples; the
    grid is the paper's on fb15k-237 and wn18rr. Test triples are looked at once, by the comparison
    at the end: OUT/comparison.html, tables and pictures. The same command goes on with a study that
    was stopped or killed.
    """
    from reltucker.errors import StudyError
    from reltucker.study.comparison import Options
    from reltucker.study.plan import parse_names, parse_sizes, plan_study
    from reltucker.study.quality import Certainty
    from reltucker.study.study import compare_study, progress_of, run_study

    if dry_run and compare_only:
        raise StudyError("give either --dry-run or --compare-only")
    flags: dict[str, Any] = {"train.epochs": epochs, "graph.labels": labels}
    plan = plan_study(
        graph,
        models=parse_names("--models", models),
        sizes=parse_sizes("--sizes", sizes),
        trials=trials,
        reciprocal=reciprocal,
        match_parameters=match_parameters,
        values={key: value for key, value in flags.items() if value is not None},
        assignments=assignments or [],
        seed=seed,
    )
    folder = out or Path("studies") / re.sub(r"[^A-Za-z0-9._-]+", "_", Path(graph).stem)
    screen = console()
    now = progress_of(plan, folder, workers)
    if dry_run:
        if json:
            print_json(now.to_dict())
            return
        screen.print(now.table().to_rich())
        screen.print(now.line())
        return
    if not compare_only:
        now = run_study(plan, folder, workers=workers)
    options = Options(protocol=cast(Any, protocol.value), certainty=Certainty(seed=seed))
    result = compare_study(now, options, all_fits=all_fits)
    if json:
        print_json(result.to_dict())
        return
    screen.print(now.table().to_rich())
    for table in result.comparison.summary():
        screen.print(table.to_rich())
    screen.print(f"page: {folder / 'comparison.html'}   tables: {folder / 'tables'}")
