"""`reltucker data`: the catalog of graphs, and what is in a graph."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reltucker.cli.output import console, print_json

app = typer.Typer(
    help="List, fetch and describe knowledge graphs.", no_args_is_help=True, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the graphs that are known by name."""
    from reltucker.graph.catalog import ENTRIES

    rows: list[dict[str, str | bool]] = [
        {"name": entry.name, "available": entry.is_available, "summary": entry.summary}
        for entry in ENTRIES.values()
    ]
    if json:
        print_json(rows)
        return
    from reltucker.report import Column, Table

    columns: list[Column] = [
        Column("name", "name"),
        Column("on this machine", "available"),
        Column("summary", "summary"),
    ]
    console().print(Table("", columns, rows).to_rich())


@app.command("fetch")
def fetch_(
    name: Annotated[str, typer.Argument(help="A name of the catalog")],
    source_folder: Annotated[
        Path | None,
        typer.Option("--from", help="Take the archive from this folder instead of the network"),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch a graph of the catalog into the cache folder (RELTUCKER_HOME changes it)."""
    from reltucker.graph.catalog import fetch

    folder = fetch(name, source_folder=source_folder, progress=sys.stderr.isatty())
    if json:
        print_json({"name": name, "folder": str(folder)})
    else:
        console().print(f"{name} is in {folder}")


@app.command("describe")
def describe_(
    graph: Annotated[str, typer.Argument(help="A catalog name, a file or a folder")],
    labels: Annotated[Path | None, typer.Option(help="File of (id, name) for display")] = None,
    seed: Annotated[int, typer.Option(help="Of the split of a single file")] = 0,
    json: Json = False,
) -> None:
    """Count what is in a graph: splits, unseen entities, kinds of relations, hints, degrees."""
    from reltucker.graph import describe_graph, load_graph

    description = describe_graph(load_graph(graph, labels=labels, seed=seed))
    if json:
        print_json(description)
        return
    for table in _tables(description):
        console().print(table.to_rich())


def _tables(d: dict[str, Any]) -> list[Any]:
    from reltucker.report import Column, Table

    splits = [
        Column("", "what"),
        *(Column(split, split, ",d") for split in ("train", "valid", "test")),
    ]
    sizes = [
        {"what": "entities", "count": d["entities"]},
        {"what": "  of them not in train", "count": d["unseen_entities"]},
        {"what": "relations", "count": d["relations"]},
        *({"what": key.replace("_", " "), "count": n} for key, n in d["counts"].items()),
        *({"what": f"relations of kind {k}", "count": n} for k, n in d["relation_kinds"].items()),
    ]
    count = [Column("", "what"), Column("count", "count", ",d")]
    degree = [{"what": key, "value": value} for key, value in d["degree"].items()]
    tables = [
        Table(
            f"Triples of {d['name']}",
            splits,
            [
                {"what": "all", **d["triples"]},
                {"what": "with both entities in train", **d["seen_triples"]},
            ],
        ),
        Table("Sizes", count, sizes),
        Table(
            "Entity degree (in train)", [Column("", "what"), Column("", "value", ",.1f")], degree
        ),
        Table(
            "Most frequent relations",
            [
                Column("relation", "label"),
                Column("triples", "triples", ",d"),
                Column("kind", "kind"),
                Column("objects per subject", "objects_per_subject", ".2f"),
                Column("subjects per object", "subjects_per_object", ".2f"),
            ],
            d["most_frequent_relations"],
        ),
        Table(
            "Most connected entities",
            [Column("entity", "label"), Column("degree", "degree", ",d")],
            d["most_connected_entities"],
        ),
    ]
    share = Column("share", "share", ".1%")
    pair = [Column("relation", "relation"), Column("other relation", "other"), share]
    for title, key, columns in (
        ("Symmetric relations: (i, k, j) comes with (j, k, i)", "symmetric", [pair[0], share]),
        ("Inverse relations: (i, k, j) comes with (j, other, i)", "inverse", pair),
        ("Contained relations: (i, k, j) comes with (i, other, j)", "contained", pair),
    ):
        if d[key]:
            tables.append(Table(title, columns, d[key]))
    return tables
