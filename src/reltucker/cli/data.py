"""`reltucker data`: the catalog of graphs, and what is in a graph."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from reltucker.cli.options import Graph, Json, Labels
from reltucker.cli.output import show

app = typer.Typer(
    help="List, fetch and describe knowledge graphs.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(json: Json = False) -> None:
    """List the graphs that are known by name.

    Example: reltucker data list
    """
    from reltucker.graph.catalog import catalog
    from reltucker.study.tables import Column, Table

    rows: list[dict[str, str | bool]] = [
        {"name": entry.name, "available": entry.is_available, "summary": entry.summary}
        for entry in catalog()
    ]
    columns: list[Column] = [
        Column("name", "name"),
        Column("on this machine", "available"),
        Column("summary", "summary"),
    ]
    show(json, rows, Table("", columns, rows))


@app.command("fetch")
def fetch_(
    name: Annotated[str, Argument(metavar="NAME", help="A name of the catalog")],
    source_folder: Annotated[
        Path | None,
        Option("--from", help="Take the archive from this folder", show_default="the network"),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch a graph of the catalog into the cache folder.

    The variable RELTUCKER_HOME names another cache folder.

    Example: reltucker data fetch fb15k-237
    """
    from reltucker.graph.catalog import DownloadBar, fetch

    folder = fetch(name, source_folder=source_folder, progress=DownloadBar(name))
    show(json, {"name": name, "folder": str(folder)}, f"{name} is in {folder}")


@app.command("describe")
def describe_(
    graph: Graph,
    labels: Labels = None,
    seed: Annotated[int, Option(help="Seed of the split of a single file")] = 0,
    json: Json = False,
) -> None:
    """Count what is in a graph.

    Shows the splits, unseen entities, kinds of relations, degrees, and relations that are
    symmetric, inverse to each other or contained in another.

    Example: reltucker data describe triples.tsv
    """
    from reltucker.graph.catalog import open_graph
    from reltucker.graph.description import describe_graph

    description = describe_graph(open_graph(graph, labels=labels, seed=seed)).to_dict()
    show(json, description, *_tables(description))


def _tables(d: dict[str, Any]) -> list[Any]:
    from reltucker.study.tables import Column, Table

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
