"""`reltucker predict`: ask for missing links."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reltucker.cli.output import console, print_json
from reltucker.errors import ReltuckerError


def command(
    run: Annotated[Path, typer.Argument(help="The run folder")],
    subject: Annotated[str | None, typer.Argument(help="Name, label or '?'")] = None,
    relation: Annotated[str | None, typer.Argument(help="Name, label or '?'")] = None,
    object_: Annotated[
        str | None, typer.Argument(metavar="[OBJECT]", help="Name, label or '?'")
    ] = None,
    top: Annotated[int, typer.Option(help="How many answers to each question")] = 10,
    known: Annotated[bool, typer.Option("--known", help="Keep facts the graph holds")] = False,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Treat facts of the test split as unknown")
    ] = False,
    questions: Annotated[
        Path | None, typer.Option(help="A table of (subject, relation, object), one of them '?'")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answers to this .tsv, .csv or .parquet file")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Rank the candidates for what is marked with '?', best first.

    One question on the command line, or many from a file with --questions. Facts that the graph
    holds already are left out unless --known is given.
    """
    from reltucker.run import open_run
    from reltucker.serving.tables import check_answer_file, read_questions, write_answers

    if out is not None:
        check_answer_file(out)
    given = (subject, relation, object_)
    opened = open_run(run)
    if questions is not None:
        if any(part is not None for part in given):
            raise ReltuckerError("give one question on the command line or --questions, not both")
        answers = opened.predict_many(
            read_questions(questions).iter_rows(), top=top, known=known, held_out=held_out
        )
    else:
        if any(part is None for part in given):
            raise ReltuckerError(
                "a question has three parts, one of them '?': reltucker predict RUN SUBJECT "
                "RELATION '?'"
            )
        answers = opened.predict(*given, top=top, known=known, held_out=held_out)
    if out is not None:
        write_answers(answers, out)
    if json:
        print_json(answers.to_dicts())
    elif out is None:
        console().print(_table(answers).to_rich())


def _table(answers: Any) -> Any:
    from reltucker.report import Column, Table

    columns = [Column("rank", "rank", format="d")]
    if "question" in answers.columns:
        columns.insert(0, Column("question", "question", format="d"))
    columns += [Column("answer", "label"), Column("score", "score", format=".3f")]
    if (answers["answer"] != answers["label"]).any():
        columns.append(Column("name", "answer"))
    if answers["known"].any():
        columns.append(Column("known", "known"))
    rows = [{**row, "known": "known" if row["known"] else ""} for row in answers.to_dicts()]
    return Table(title="", columns=columns, rows=rows)
