"""`reltucker discover`: the most probable facts that the graph does not hold."""

from typing import Annotated, Any

from typer import Option

from reltucker.cli import options, output
from reltucker.cli.processes import launched


def command(
    run: options.RunFolder,
    top: Annotated[int, Option(help="How many facts")] = 100,
    relations: Annotated[
        list[str] | None,
        Option("--relation", help="Only facts of this relation; repeatable", show_default="all"),
    ] = None,
    entities: Annotated[
        list[str] | None,
        Option("--entity", help="Only facts about this entity; repeatable", show_default="all"),
    ] = None,
    per_relation: Annotated[
        bool, Option("--per-relation", help="So many facts of each relation")
    ] = False,
    min_probability: Annotated[
        float | None,
        Option(help="Only facts at least as probable, for example 0.9", show_default="all"),
    ] = None,
    anywhere: Annotated[
        bool,
        Option("--anywhere", help="Any entities, not only those that stand there in train"),
    ] = False,
    held_out: Annotated[
        bool, Option("--held-out", help="Treat facts of the test split as unknown")
    ] = False,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    out: options.Answers = None,
    processes: options.Processes = None,
    json: options.Json = False,
) -> None:
    """List the most probable facts that the graph does not hold.

    Facts of all relations are ranked by probability, or by score where the run is not calibrated.
    Subjects and objects are those that stand there in training triples of the relation.

    Example: reltucker discover runs/mine --relation born_in --top 20
    """
    from reltucker.report import Column, Table
    from reltucker.run import open_run
    from reltucker.serving.tables import check_answer_file

    if out is not None:
        check_answer_file(out)
    if launched(processes):
        return
    opened = open_run(run, labels=labels, language=language)
    facts = opened.discover(
        top,
        relations,
        entities,
        per_relation=per_relation,
        min_probability=min_probability,
        anywhere=anywhere,
        held_out=held_out,
    )
    columns = [Column("rank", "rank", "d")]
    columns += [Column(name, name) for name in ("subject", "relation", "object")]
    columns.append(Column("score", "score", ".3f", spare=1))
    if facts["probability"].count():
        columns.append(Column("probability", "probability", ".3f"))
    if out is None:
        shown: Any = Table("", columns, opened.graph.shown(facts).to_dicts())
    else:
        shown = output.written(facts, out, "new facts")
    output.show(json, facts.to_dicts(), shown)
