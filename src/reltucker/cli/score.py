"""`reltucker score`: judge whole triples."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from reltucker.cli import options, output
from reltucker.cli.processes import launched


def command(
    run: options.RunFolder,
    file: Annotated[Path, Argument(metavar="FILE", help="A table of (subject, relation, object)")],
    out: options.Answers = None,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    processes: options.Processes = None,
    json: options.Json = False,
) -> None:
    """Score whole triples: probabilities, and ranks both ways.

    A rank is the place among the entities of train, without other known answers, when the object
    or the subject is asked for. A triple with a name that is not in train gets no figures.

    Example: reltucker score runs/mine candidates.tsv --out scored.csv
    """
    from reltucker.run import open_run
    from reltucker.serving.tables import check_answer_file

    if out is not None:
        check_answer_file(out)
    if launched(processes):
        return
    opened = open_run(run, labels=labels, language=language)
    scored = opened.score(file)
    if out is None:
        output.show(json, scored.to_dicts(), *tables(scored, opened.graph))
    else:
        output.show(json, scored.to_dicts(), output.written(scored, out, "triples with scores"))


def tables(scored: Any, graph: Any) -> list[Any]:
    """Scored triples as a table with labels, and what their ranks are."""
    from reltucker.report import Column, Table

    columns = [Column(name, name) for name in ("subject", "relation", "object")]
    columns.append(Column("score", "score", ".3f", spare=1))
    if scored["probability"].count():
        columns.append(Column("probability", "probability", ".3f"))
    columns += [
        Column("rank as object", "object_rank", ",.6g", spare=2),
        Column("rank as subject", "subject_rank", ",.6g", spare=2),
        Column("known", "known", spare=3),
    ]
    told = f"ranks: among {graph.seen_entities:,} entities, without the other known answers"
    return [Table("", columns, graph.shown(scored).to_dicts()), told]
