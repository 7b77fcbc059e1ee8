"""`reltucker predict`: ask for missing links."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, echo

from reltucker.cli import options, output
from reltucker.cli.processes import launched, speaks
from reltucker.cli.score import tables
from reltucker.errors import ReltuckerError

SOME_FAILED = 3
"""The exit code where some questions of a batch are answered and others cannot be."""
LISTED = 10
"""How many of those are told of on standard error."""


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
        list[str] | None,
        Option(metavar="NAME", help="Only this entity; repeatable", show_default="all"),
    ] = None,
    among_file: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Only the entities of this list, one a line", show_default="all"
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(
            metavar="RELATION=OBJECT",
            help="Only entities with this fact; repeatable",
            show_default="all",
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        Option(
            help="A table of (subject, relation, object), in each row one of them '?'",
            show_default="the one given",
        ),
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

    Questions of a file that cannot be asked, such as those with unknown names, are listed on
    standard error, and with --json also in place of their answers, by their `error`; the others are
    answered, and the exit code is 3.

    Example: reltucker predict runs/mine 'Alma Bauer' born_in '?' --top 5
    """
    from polars import Series, UInt32

    from reltucker.graph import NAME_LIST, read_names
    from reltucker.run import open_run
    from reltucker.serving import UNKNOWN, sort_out
    from reltucker.serving.tables import check_answer_file

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
    rows: list[tuple[str, ...]] = []
    failed: list[dict[str, Any]] = []
    if questions is not None:
        if any(part is not None for part in question):
            raise ReltuckerError("give one question on the command line or --questions, not both")
        rows = list(read_names(questions).iter_rows())
        numbers, failed = sort_out(opened.graph, rows)
        answers = opened.predict_many([rows[number - 1] for number in numbers], **settings)
        answers = answers.with_columns(
            question=Series(numbers, dtype=UInt32).gather(answers["question"] - 1)
        )
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
        shown = tables(scored, opened.graph)
        if out is not None:
            shown = [output.written(scored, out, "triple with its score")]
        output.show(json, scored.to_dicts(), *shown)
        return
    else:
        answers = opened.predict(*question, **settings)
    shown = [_table(answers, rows)]
    if out is not None:
        shown = [output.written(answers, out, "answers")]
    document = sorted([*answers.to_dicts(), *failed], key=lambda row: row.get("question", 0))
    output.show(json, document, *shown)
    if failed:
        if speaks():
            _tell(failed, len(rows))
        raise Exit(SOME_FAILED)


def _tell(failed: list[dict[str, Any]], asked: int) -> None:
    echo(f"warning: {len(failed):,} of {asked:,} questions cannot be asked:", err=True)
    for row in failed[:LISTED]:
        echo(f"  question {row['question']:,}: {row['error']}", err=True)
    if len(failed) > LISTED:
        echo(f"  and {len(failed) - LISTED:,} more, which --json lists", err=True)


def _table(answers: Any, questions: list[tuple[str, ...]]) -> Any:
    """A table of answers, to those of several questions with their question."""
    from reltucker.report import Column, Table

    rows = answers.to_dicts()
    columns = [Column("rank", "rank", "d"), Column("answer", "label")]
    columns.append(Column("score", "score", ".3f", spare=1))
    if "question" in answers.columns:
        columns.insert(0, Column("question", "asked"))
        for row in rows:
            row["asked"] = ", ".join(questions[row["question"] - 1])
    if answers["probability"].count():
        columns.append(Column("probability", "probability", ".3f"))
    if (answers["answer"] != answers["label"]).any():
        columns.append(Column("name", "answer", spare=2))
    if answers["known"].any():
        columns.append(Column("known", "known", spare=1))
    for row in rows:
        row["known"] = "known" if row["known"] else ""
    return Table("", columns, rows)
