"""`reltucker similar`: what is alike in a model."""

from typing import Annotated, Any

from typer import Argument, Option

from reltucker import choices
from reltucker.cli import options, output
from reltucker.errors import ReltuckerError


def command(
    run: options.RunFolder,
    name: Annotated[str | None, Argument(metavar="NAME", help="A name or a label")] = None,
    relation: Annotated[
        bool, Option("--relation", help="NAME is a relation, not an entity")
    ] = False,
    by: Annotated[
        choices.Alikeness, Option(help="Scores that are given to everything, or rows of E and R")
    ] = "queries",
    top: Annotated[int, Option(help="How many")] = 10,
    duplicates: Annotated[
        bool, Option("--duplicates", help="Pairs of entities that may be one")
    ] = False,
    relations: Annotated[
        bool, Option("--relations", help="Relations that others explain: inverses, sums, ...")
    ] = False,
    least: Annotated[
        float | None,
        Option(
            help="Similarity of duplicates, or explained share of relations, at the least",
            show_default="0.9; 0.8",
        ),
    ] = None,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    json: options.Json = False,
) -> None:
    """Find entities or relations that are alike.

    Entities are alike that give the same scores to everything; relations, that hold for the same
    pairs. --relations finds symmetric relations, inverses, and sums as parent = mother + father.

    Example: reltucker similar runs/mine 'Alma Bauer' --top 5
    """
    from reltucker.run import open_run

    if (name is not None) + duplicates + relations != 1:
        raise ReltuckerError("give a NAME, --duplicates or --relations, one of them")
    opened = open_run(run, labels=labels, language=language)
    if duplicates:
        found = opened.duplicates(top, least=0.9 if least is None else least, by=by)
        keys = {"rank": "d", "first": "", "second": "", "similarity": ".3f", "shared": ".0%"}
    elif relations:
        found = opened.relation_links(least=0.8 if least is None else least)
        keys = {"relation": "", "kind": "", "others": ""}
        keys |= {"explained": ".1%", "facts": ".0%", "facts_back": ".0%"}
    else:
        assert name is not None
        found = opened.similar(name, "relation" if relation else "entity", top=top, by=by)
        keys = {"rank": "d", "label": "", "similarity": ".3f"}
    output.show(json, found.to_dicts(), _table(keys, found, opened.graph))


def _table(keys: dict[str, str], found: Any, graph: Any) -> Any:
    """The chosen columns, with labels."""
    from reltucker.report import Column, Table

    places = {"first": graph.entities, "second": graph.entities, "relation": graph.relations}
    shown = {
        place: vocabulary.shown.gather(vocabulary.ids(found[place]))
        for place, vocabulary in places.items()
        if place in found.columns
    }
    rows = found.with_columns(**shown).to_dicts()
    labels = dict(zip(graph.relations.names, graph.relations.shown, strict=True))
    for row in rows if "others" in keys else ():
        terms = zip(row["weights"], row["others"], strict=True)
        row["others"] = " + ".join(f"{weight:.2f} {labels[name]}" for weight, name in terms)
    columns = [Column(key.replace("_", " "), key, form) for key, form in keys.items()]
    return Table("", columns, rows)
