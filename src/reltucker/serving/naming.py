"""Names and labels of triples to ids."""

from os import PathLike

import numpy as np
import numpy.typing as npt

from reltucker.errors import NameNotFoundError, ReltuckerError
from reltucker.graph import Direction, KnowledgeGraph, TripleSource, Vocabulary, read_names

POSITIONS: tuple[Direction, ...] = ("subject", "relation", "object")


def parse_triples(
    graph: KnowledgeGraph, triples: TripleSource, *, unseen: bool = False
) -> npt.NDArray[np.int64]:
    """Named triples to ids (n, 3): rows one by one, a polars or pandas frame, or a file.

    A cell is a name or, where no name is like it, a label. The first row with an unknown name is
    told with the nearest names; so is a name that stands in valid or test only, unless `unseen`.
    """
    frame = read_names(triples)
    ids = np.empty((len(frame), 3), dtype=np.int64)
    limits = np.empty(3, dtype=np.int64)
    for column, position in enumerate(POSITIONS):
        vocabulary, seen = _names_of(graph, position)
        ids[:, column] = vocabulary.locate(frame[position])
        limits[column] = len(vocabulary) if unseen else seen
    bad = (ids < 0) | (ids >= limits)
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1))
        row, column = int(rows[0]), int(np.argmax(bad[rows[0]]))
        place = f"{triples}, row" if isinstance(triples, str | PathLike) else "row"
        try:
            find_id(graph, POSITIONS[column], frame.row(row)[column], unseen=unseen)
        except NameNotFoundError as error:
            more = f" (and {len(rows) - 1:,} more rows like it)" if len(rows) > 1 else ""
            raise NameNotFoundError(f"{place} {row + 1}: {error}{more}") from None
    return ids


def find_id(graph: KnowledgeGraph, position: Direction, text: str, *, unseen: bool = False) -> int:
    """The id of one name or label at a position of a triple."""
    if not isinstance(text, str):
        raise ReltuckerError(
            f"the {position} {str(text)[:80]!r} is of type {type(text).__name__}; give a name"
        )
    vocabulary, seen = _names_of(graph, position)
    number = vocabulary.find(text)
    if number >= seen and not unseen:
        raise NameNotFoundError(
            f"the {vocabulary.kind} {text[:120]!r} stands in valid or test only; nothing was "
            "learned about it, so there is nothing to predict"
        )
    return number


def _names_of(graph: KnowledgeGraph, position: Direction) -> tuple[Vocabulary, int]:
    """The vocabulary of a position, and how many of its names are in train."""
    if position == "relation":
        return graph.relations, graph.seen_relations
    return graph.entities, graph.seen_entities
