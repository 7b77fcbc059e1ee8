"""The way in for every graph: a catalog name, a file, a folder, a frame, or triples."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from reltucker.arguments import checked
from reltucker.errors import GraphError
from reltucker.graph.building import build_graph
from reltucker.graph.catalog import ENTRIES, located, suggestion
from reltucker.graph.extending import keep_splits
from reltucker.graph.families import families
from reltucker.graph.knowledge_graph import KnowledgeGraph
from reltucker.graph.labels import DEFAULT_LANGUAGE, read_labels
from reltucker.graph.prepared import is_prepared, open_prepared
from reltucker.graph.sources import (
    GraphSource,
    read_file,
    read_folder,
    read_rows,
    read_splits,
)
from reltucker.graph.tables import DEFAULT_MEMORY, Reading, stem_and_suffix


@checked()
def load_graph(
    source: GraphSource,
    *,
    labels: str | PathLike[str] | None = None,
    language: str = DEFAULT_LANGUAGE,
    seed: int = 0,
    columns: str | None = None,
    max_memory: str = DEFAULT_MEMORY,
    before: KnowledgeGraph | None = None,
) -> KnowledgeGraph:
    """The knowledge graph of a catalog name, a folder, a file, a frame, triples, or splits.

    A name of the catalog wins over a file of the same name; `./name` or a Path is always a path.
    A folder that `prepare_graph` made is opened as it is, with the splits that it has. Another one
    holds train and, if it has them, valid and test, each in any format, and may hold labels; RDF
    files may hold theirs among the triples (rdfs:label, skos:prefLabel), and where there are
    several, those in `language` are taken. A dict has the keys train and, if wanted, valid and
    test. Anything else is one set of triples, split 80/10/10 by `seed` so that train knows every
    entity and relation; those that stood in the graph `before` keep their split. Ids follow the
    order of first appearance, so the same triples always get the same ids.

    `columns` tells which columns of tables and frames are which, where their names do not: either
    'relation,subject,object', the order in which they stand, or the names or numbers (from 1) of
    those that hold subject, relation and object, such as 'who,what,whom' or '1,3,4'. What would
    take more than `max_memory` is refused: a share of the machine's memory, or a size such as 8GB.
    """
    reading = Reading(columns, max_memory)
    labels_file = None if labels is None else Path(labels)
    if isinstance(source, Mapping):
        return build_graph(read_splits(source, reading), "graph", labels_file, language=language)
    if not isinstance(source, str | PathLike):
        rows = read_rows(source, reading=reading)
        graph = build_graph({"train": rows}, "graph", labels_file, seed, language)
        return graph if before is None else keep_splits(graph, before)
    if isinstance(source, str) and source in ENTRIES and ENTRIES[source].is_built_in:
        if labels is not None:
            raise GraphError(f"the names of {source} are readable as they are; omit the labels")
        return families(seed)
    path, name = locate(source)
    if path.is_dir() and is_prepared(path):
        known = None if labels_file is None else read_labels(labels_file, language)
        return open_prepared(path, known)
    if path.is_dir():
        tables, own_labels = read_folder(path, reading)
        return build_graph(tables, name, labels_file or own_labels, language=language)
    table = read_file(path, reading=reading)
    graph = build_graph({"train": table}, name, labels_file, seed, language)
    return graph if before is None else keep_splits(graph, before)


def locate(source: str | PathLike[str]) -> tuple[Path, str]:
    """The file or folder of a path or of a name of the catalog, and what its graph is called."""
    if isinstance(source, str) and source in ENTRIES:
        return located(source), source
    path = Path(source)
    if not os.path.exists(path):
        raise GraphError(
            f"{str(source)[:200]!r} is neither a file or folder nor a graph of the catalog; "
            f"{suggestion(str(source))}"
        )
    return path, path.resolve().name if path.is_dir() else stem_and_suffix(path)[0]
