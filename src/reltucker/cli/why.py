"""`reltucker why`: what a score is made of."""

from typing import Annotated, Any

from typer import Argument, Option

from reltucker.cli import options, output


def command(
    run: options.RunFolder,
    subject: Annotated[str, Argument(metavar="SUBJECT", help="A name or a label")],
    relation: Annotated[str, Argument(metavar="RELATION", help="A name or a label")],
    object_: Annotated[str, Argument(metavar="OBJECT", help="A name or a label")],
    top: Annotated[int, Option(help="How many parts and facts to show")] = 10,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    json: options.Json = False,
) -> None:
    """Explain the score of a triple.

    A score is a sum of interactions, each the product of a coordinate of the subject, an entry of
    the core, a coordinate of the relation and one of the object; the strongest are shown, and the
    rest as one number. A known fact supports the triple by as much as the score would fall if the
    embedding of its entity were fitted without the fact.

    Example: reltucker why runs/mine 'Alma Bauer' mother 'Rosa Lindgren' --top 5
    """
    from reltucker.report import Column, Table
    from reltucker.run import open_run

    found = open_run(run, labels=labels, language=language).why(subject, relation, object_, top=top)
    facts = [Column("support", "support", "+.3f"), Column("known fact", "fact")]
    rows = [
        {**fact, "fact": f"{fact['subject']}  {fact['relation']}  {fact['object']}"}
        for fact in found.facts.to_dicts()
    ]
    shown: list[Any] = [
        f"{found.subject}  {found.relation}  {found.object}: score {found.score:.3f}"
        f"{', a known fact' if found.known else ''}",
        *([] if found.probability is None else [f"probability {found.probability:.3f}"]),
        Table("known facts, by what they add", facts, rows),
        *(_parts(way) for way in found.asked),
    ]
    output.show(json, found.to_dict(), *shown)


def _parts(way: Any) -> Any:
    from reltucker.report import Column, Table

    columns = [Column("part", "part", "+.3f"), Column("subject", "subject")]
    columns += [Column("core", "core"), Column("relation", "relation"), Column("object", "object")]
    rows = [
        {
            "part": row["part"],
            "core": f"{row['core']:.3g}",
            **{side: _coordinate(row, side) for side in ("subject", "relation", "object")},
        }
        for row in way.parts.to_dicts()
    ]
    others = way.interactions - len(rows)
    if others:
        blank = dict.fromkeys(("core", "relation", "object"), "")
        rows.append({"part": way.rest, "subject": f"{others:,} further interactions", **blank})
    title = f"parts of {way.score:.3f}, asked for the {way.way}: products of coordinates"
    return Table(title, columns, rows)


def _coordinate(row: dict[str, Any], side: str) -> str:
    place = row[f"{side}_coordinate"]
    return "constant" if place is None else f"[{place}] {row[f'{side}_value']:.3g}"
