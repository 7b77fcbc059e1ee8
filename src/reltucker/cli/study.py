"""`reltucker study`: the paper's study on any graph."""

from pathlib import Path
from typing import Annotated

from typer import Option

from reltucker.cli import options, output
from reltucker.study.paper import MODELS, SIZES, TRIALS


def command(
    graph: options.Graph,
    models: Annotated[str, Option(help="Cores, separated by commas")] = ",".join(MODELS),
    sizes: Annotated[str, Option(help="Sizes d_e, separated by commas")] = ",".join(
        map(str, SIZES)
    ),
    trials: Annotated[int, Option(min=1, help="Trials for each model and size")] = TRIALS,
    epochs: options.Epochs = None,
    reciprocal: Annotated[
        bool, Option("--reciprocal", help="Also fit fixed cores with reciprocal relations")
    ] = False,
    match_parameters: Annotated[
        bool,
        Option(
            "--match-parameters",
            help="Also fit DRT, d_r = K, with the budgets of ComplEx (fb15k-237: 32, 52, 84)",
        ),
    ] = False,
    all_fits: Annotated[
        bool, Option("--all-fits", help="Compare the runs of all trials, not only the best")
    ] = False,
    protocol: options.Protocol = "seen",
    workers: options.Workers = 1,
    seed: Annotated[int, Option(min=0, help="Seed of the samplers and the bootstrap")] = 0,
    labels: options.Labels = None,
    columns: options.Columns = None,
    max_memory: options.MaxMemory = None,
    assignments: options.FixedSettings = None,
    out: Annotated[Path | None, Option(help="The folder", show_default="studies/GRAPH")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what is planned and done; train nothing")
    ] = False,
    compare_only: Annotated[
        bool, Option("--compare-only", help="Compare what has ended so far; train nothing")
    ] = False,
    json: options.Json = False,
) -> None:
    """Rerun the paper's study on a graph.

    Searches each model at each size, and compares the best fits. Each search takes 8 random points
    of a grid and then 4 guided ones, judged on validation triples; on fb15k-237 and wn18rr the grid
    is the paper's. Test triples are looked at once, by the comparison at the end:
    OUT/comparison.html, tables and pictures. The same command goes on with a study that was stopped
    or killed.

    Example: reltucker study triples.tsv --sizes 50,100 --epochs 50
    """
    from reltucker.errors import StudyError
    from reltucker.progress import going_on
    from reltucker.study.comparison import Options
    from reltucker.study.plan import parse_names, parse_sizes, plan_study
    from reltucker.study.quality import Certainty
    from reltucker.study.study import compare_study, progress_of, run_study

    if dry_run and compare_only:
        raise StudyError("give either --dry-run or --compare-only")
    read = {"graph.labels": labels, "graph.columns": columns, "graph.max_memory": max_memory}
    plan = plan_study(
        graph,
        models=parse_names("--models", models),
        sizes=parse_sizes("--sizes", sizes),
        trials=trials,
        reciprocal=reciprocal,
        match_parameters=match_parameters,
        values=options.given({"train.epochs": epochs, **read}),
        assignments=assignments or [],
        seed=seed,
    )
    folder = out or Path("studies") / options.folder_name(Path(graph).stem)
    now = progress_of(plan, folder, workers)
    if dry_run:
        output.show(json, now.to_dict(), now.table(), now.line())
        return
    if not compare_only:
        with going_on(f"the same command goes on with the study in {folder}"):
            now = run_study(plan, folder, workers=workers)
    chosen = Options(protocol=protocol, certainty=Certainty(seed=seed))
    result = compare_study(now, chosen, all_fits=all_fits)
    line = f"page: {folder / 'comparison.html'}   tables: {folder / 'tables'}"
    output.show(json, result.to_dict(), now.table(), *result.comparison.summary(), line)
