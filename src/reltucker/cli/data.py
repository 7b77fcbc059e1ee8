"""`reltucker data`: the catalog of graphs, what is in a graph, and how it opens at once."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from reltucker.cli import options, output

app = typer.Typer(
    help="List, fetch, describe and prepare knowledge graphs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List the graphs that are known by name.

    Example: reltucker data list
    """
    from reltucker.graph.catalog import ENTRIES
    from reltucker.report import Column, Table

    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "available": entry.is_available,
            "summary": entry.summary,
            "entities": entry.counts.get("entities"),
            "relations": entry.counts.get("relations"),
            "triples": entry.triples,
            "counts": entry.counts,
            "verified": entry.is_verified,
            "licence": entry.licence,
            "paper": entry.paper,
            "warning": entry.warning,
            "refused": entry.refused,
            "files": [file.model_dump(include={"url", "sha256"}) for file in entry.files],
        }
        for entry in ENTRIES.values()
    ]
    columns = [
        Column("name", "name"),
        Column("on this machine", "available"),
        Column("entities", "entities", ",d", spare=2),
        Column("relations", "relations", ",d", spare=3),
        Column("triples", "triples", ",d", spare=1),
        Column("summary", "summary"),
    ]
    notes = [note for row in rows if (note := row["warning"] or row["refused"])]
    output.show(json, rows, Table("", columns, rows), *notes)


@app.command("fetch")
def fetch_(
    name: Annotated[str, Argument(metavar="NAME", help="A name of the catalog")],
    source_folder: Annotated[
        Path | None,
        Option("--from", help="Take the files from this folder", show_default="the network"),
    ] = None,
    sha256: Annotated[
        list[str] | None,
        Option(
            metavar="[FILE=]HEX",
            help="The checksum that a file must have; may be repeated",
            show_default="as published, or as it came first",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Fetch a graph of the catalog into the cache folder.

    The variable RELTUCKER_HOME names another cache folder. Where no checksum of a file is known,
    the one of what came first is shown and kept, and a later file that differs is refused.

    Example: reltucker data fetch fb15k-237
    """
    from reltucker.graph.catalog import ENTRIES, fetch

    progress = sys.stderr.isatty()
    folder = fetch(name, source_folder=source_folder, sha256=sha256 or (), progress=progress)
    document: dict[str, Any] = {"name": name, "folder": str(folder)}
    lines = [f"{name} is in {folder}"]
    if unverified := ENTRIES[name].unverified():
        document |= {"unverified": unverified, "pins": str(ENTRIES[name].pins_path)}
        lines += [
            "no checksum is known for these files; compare what came with what others have, and "
            "pin it elsewhere by --sha256 FILE=HEX:",
            *(f"  {digest}  {file}" for file, digest in unverified.items()),
            f"they are kept in {ENTRIES[name].pins_path}, and a file that differs is refused",
        ]
    output.show(json, document, *lines)


@app.command("describe")
def describe_(
    graph: options.Graph,
    labels: options.Labels = None,
    columns: options.Columns = None,
    max_memory: options.MaxMemory = None,
    seed: Annotated[int, Option(help="Seed of the split of a single file")] = 0,
    json: options.Json = False,
) -> None:
    """Count what is in a graph.

    Shows the splits, unseen entities, kinds of relations, degrees, and relations that are
    symmetric, inverse to each other or contained in another. Of a prepared graph, every file is
    compared with its checksum.

    Example: reltucker data describe triples.tsv
    """
    from reltucker.graph import describe_graph, is_prepared, load_graph, verify_prepared

    read = options.given({"columns": columns, "max_memory": max_memory})
    loaded = load_graph(graph, labels=labels, seed=seed, **read)
    if is_prepared(Path(graph)):
        verify_prepared(Path(graph))
    description = describe_graph(loaded)
    output.show(json, description, *_tables(description))


@app.command("prepare")
def prepare_(
    graph: options.Graph,
    out: Annotated[Path, Option(help="The folder to write; it must be missing or empty")],
    memory: Annotated[
        str,
        Option(metavar="LIMIT", help="A share of the machine's memory, or a size such as 8GB"),
    ] = "0.25",
    labels: options.Labels = None,
    columns: options.Columns = None,
    language: options.Language = "en",
    seed: Annotated[int, Option(help="Seed of the split of a single file")] = 0,
    json: options.Json = False,
) -> None:
    """Read and index a graph once, so that it opens at once.

    Every command that takes a graph takes the folder. Tables are read in batches, and what is
    held meanwhile stays below the limit; processes that open the folder share its memory.

    Example: reltucker data prepare triples.tsv --out prepared --memory 8GB
    """
    from reltucker.graph import SPLITS, prepare_graph

    made = prepare_graph(
        graph,
        out,
        labels=labels,
        language=language,
        seed=seed,
        columns=columns,
        memory=memory,
        progress=True,
    )
    triples = {split: len(made.split(split)) for split in SPLITS}
    document = {
        "folder": str(out),
        "name": made.name,
        "entities": len(made.entities),
        "relations": len(made.relations),
        "triples": triples,
        "counts": dict(made.counts),
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
    }
    sizes = ", ".join(f"{count:,} {split}" for split, count in triples.items())
    output.show(
        json,
        document,
        f"{out} holds {made.name}: {document['entities']:,} entities, "
        f"{document['relations']:,} relations, {sizes} triples; {document['bytes']:,} bytes",
        f"next: reltucker train {out}",
    )


def _tables(d: dict[str, Any]) -> list[Any]:
    from reltucker.report import Column, Table

    triples = [
        {"what": "all", **d["triples"]},
        {"what": "with both entities in train", **d["seen_triples"]},
    ]
    sizes = {
        "entities": d["entities"],
        "  of them not in train": d["unseen_entities"],
        "relations": d["relations"],
        **{key.replace("_", " "): count for key, count in d["counts"].items()},
        **{f"relations of kind {kind}": count for kind, count in d["relation_kinds"].items()},
    }
    what, count = Column("", "what"), Column("count", "value", ",d")
    relation, share = Column("relation", "relation"), Column("share", "share", ".1%")
    pair = [relation, Column("other relation", "other"), share]
    frequent = [
        Column("relation", "label"),
        Column("triples", "triples", ",d"),
        Column("kind", "kind"),
        Column("objects per subject", "objects_per_subject", ".2f"),
        Column("subjects per object", "subjects_per_object", ".2f"),
    ]
    connected = [Column("entity", "label"), Column("degree", "degree", ",d")]
    splits = [Column(split, split, ",d") for split in d["triples"]]
    tables = (
        (f"Triples of {d['name']}", [what, *splits], triples),
        ("Sizes", [what, count], _rows(sizes)),
        ("Entity degree (in train)", [what, Column("", "value", ",.1f")], _rows(d["degree"])),
        ("Most frequent relations", frequent, d["most_frequent_relations"]),
        ("Most connected entities", connected, d["most_connected_entities"]),
        ("Symmetric relations: (i, k, j) comes with (j, k, i)", [relation, share], d["symmetric"]),
        ("Inverse relations: (i, k, j) comes with (j, other, i)", pair, d["inverse"]),
        ("Contained relations: (i, k, j) comes with (i, other, j)", pair, d["contained"]),
    )
    return [Table(title, columns, rows) for title, columns, rows in tables if rows]


def _rows(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"what": what, "value": value} for what, value in values.items()]
