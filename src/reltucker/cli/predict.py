"""`reltucker predict`: ask for missing links."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from reltucker.cli import options, output
from reltucker.cli.processes import launched, speaks
from reltucker.cli.score import tables
from reltucker.errors import ReltuckerError


def _part(name: str) -> Any:
    return Argument(metavar=name, help="A name, a label or '?'")


def command(
    run: options.RunFolder,
    subject: Annotated[str | None, _part("SUBJECT")] = None,
    relation: Annotated[str | None, _part("RELATION")] = None,
    object_: Annotated[str | None, _part("OBJECT")] = None,
    top: Annotated[int, Option(help="How many answers to each question")] = 10,
    known: Annotated[bool, Option("--known", help="Keep facts that the graph holds")] = False,
    held_out: Annotated[
        bool, Option("--held-out", help="Treat facts of the test split as unknown")
    ] = False,
    in_range: Annotated[
        bool, Option("--in-range", help="Only entities that stand there in train")
    ] = False,
    among: Annotated[
        list[str] | None, Option(metavar="NAME", help="Only this entity; repeatable")
    ] = None,
    among_file: Annotated[
        Path | None, Option(metavar="FILE", help="Only the entities of this list, one a line")
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(metavar="RELATION=OBJECT", help="Only entities with this fact; repeatable"),
    ] = None,
    questions: Annotated[
        Path | None,
        Option(help="A table of (subject, relation, object), in each row one of them '?'"),
    ] = None,
    out: options.Answers = None,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    processes: options.Processes = None,
    json: options.Json = False,
) -> None:
    """Rank the candidates for what is marked with '?'.

    Ask one question on the command line, or many from a file with --questions. Facts that the
    graph holds already are left out unless --known is given, and candidates can be limited. A
    triple without '?' is scored, and ranked among the answers to either question that it answers;
    for many see `reltucker score`.

    Example: reltucker predict runs/mine 'Alma Berger' born_in '?' --top 5
    """
    from reltucker.graph import NAME_LIST, read_names
    from reltucker.run import open_run
    from reltucker.serving import UNKNOWN
    from reltucker.serving.tables import check_answer_file, write_answers

    if out is not None:
        check_answer_file(out)
    if launched(processes):
        return
    question = (subject, relation, object_)
    if among_file is not None:
        among = [*(among or []), *read_names(among_file, NAME_LIST)["name"]]
    settings: dict[str, Any] = {"top": top, "known": known, "held_out": held_out}
    settings |= {"in_range": in_range, "among": among, "where": where or []}
    opened = open_run(run, labels=labels, language=language)
    if questions is not None:
        if any(part is not None for part in question):
            raise ReltuckerError("give one question on the command line or --questions, not both")
        rows = read_names(questions).iter_rows()
        answers = opened.predict_many(rows, **settings)
    elif None in question:
        example = "reltucker predict RUN SUBJECT RELATION '?'"
        raise ReltuckerError(f"a question has three parts, one of them '?': {example}")
    elif UNKNOWN not in question:
        if in_range or among or where:
            raise ReltuckerError(
                "--in-range, --among and --where limit answers, and a whole triple has none; put "
                "'?' for what you ask for"
            )
        scored = opened.score([question], progress=False)
        if out is not None and speaks():
            write_answers(scored, out)
        output.show(json, scored.to_dicts(), *(tables(scored, opened.graph) if out is None else []))
        return
    else:
        answers = opened.predict(*question, **settings)
    if out is not None and speaks():
        write_answers(answers, out)
    output.show(json, answers.to_dicts(), *([_table(answers)] if out is None else []))


def _table(answers: Any) -> Any:
    from reltucker.report import Column, Table

    columns = [Column("question", "question", "d")] if "question" in answers.columns else []
    columns += [Column("rank", "rank", "d"), Column("answer", "label")]
    columns.append(Column("score", "score", ".3f"))
    if answers["probability"].count():
        columns.append(Column("probability", "probability", ".3f"))
    if (answers["answer"] != answers["label"]).any():
        columns.append(Column("name", "answer"))
    if answers["known"].any():
        columns.append(Column("known", "known"))
    rows = [{**row, "known": "known" if row["known"] else ""} for row in answers.to_dicts()]
    return Table("", columns, rows)
