"""RDF files: N-Triples, N-Quads, Turtle and RDF/XML, as triples of resources."""

import io
import re
from functools import partial
from pathlib import Path

import polars as pl
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

from reltucker.errors import GraphError
from reltucker.graph.streaming import Budget
from reltucker.graph.tables import (
    BATCH,
    LITERAL_LABELS,
    TRIPLES,
    NameTable,
    Reading,
    check_names,
    read_pieces,
)

FORMATS = {
    ".nt": RdfFormat.N_TRIPLES,
    ".nq": RdfFormat.N_QUADS,
    ".ttl": RdfFormat.TURTLE,
    ".rdf": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
}

ALL_WRITTEN = (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS)
"""Formats in which every blank node has a label."""

LABEL_PROPERTIES = {
    "http://www.w3.org/2004/02/skos/core#prefLabel": 0,
    "http://www.w3.org/2000/01/rdf-schema#label": 1,
}

BYTES_OF_LABEL = 400
"""What a label takes beside its text."""

LONGEST_STATEMENT = 1 << 24
"""Bytes without a triple after which a file is taken for a damaged one."""

LONGEST_ID = 32
# 128 random bits in hexadecimal; leading zeros are not written, so a few may be shorter.
_GENERATED_ID = re.compile(rb"[a-f][0-9a-f]{19,31}")


def read_rdf(path: Path, rdf_format: RdfFormat, reading: Reading | None = None) -> NameTable:
    """The triples between IRIs and blank nodes, as categoricals; those with a literal are counted
    and left out, but for labels, which are kept apart.

    An IRI is its plain text, a blank node `_:id`; named graphs are ignored. The parser gives nodes
    without a label a random id. Those are numbered as they come, so that they are the same at every
    reading, and under the file's name, for in another file they are other nodes.
    """
    budget = Budget(path, reading or Reading())
    written: set[str] | None = None
    numbers: dict[str, int] = {}

    def name(node: object) -> str | None:
        if isinstance(node, NamedNode):
            return node.value
        if not isinstance(node, BlankNode):
            return None
        nonlocal written
        label = node.value
        if rdf_format in ALL_WRITTEN or not _GENERATED_ID.fullmatch(label.encode()):
            return f"_:{label}"
        if written is None:
            written = _written_ids(path)
        if label in written:
            return f"_:{label}"
        return f"_:{path.name}#{numbers.setdefault(label, len(numbers) + 1)}"

    parts = [pl.DataFrame(schema=dict.fromkeys(TRIPLES, pl.Categorical))]
    rows: list[tuple[str, str, str]] = []
    content = _Content(path)
    labels: list[tuple[str, str, str, int]] = []
    literals = 0
    try:
        for quad in parse(content, format=rdf_format):
            content.unparsed = 0
            subject, object_ = name(quad.subject), name(quad.object)
            rank = LABEL_PROPERTIES.get(quad.predicate.value)
            if subject is not None and rank is not None and isinstance(quad.object, Literal):
                label = quad.object
                labels.append((subject, label.value, label.language or "", rank))
                budget.beside += BYTES_OF_LABEL + len(label.value)
                if len(labels) % BATCH == 0:
                    budget.check()
            # A literal, or a triple term of RDF 1.2, is a value and not an entity.
            elif subject is None or object_ is None:
                literals += 1
            else:
                rows.append((subject, quad.predicate.value, object_))
                if len(rows) == BATCH:
                    parts.append(budget.kept(_frame(rows)))
                    rows = []
    except MemoryError as cause:  # of the parser's buffer
        raise content.endless() from cause
    except (SyntaxError, ValueError) as cause:
        line = getattr(cause, "lineno", None) or _line_of_error(path, rdf_format)
        reason = str(cause.args[0] if cause.args else cause).splitlines()[0]
        reason = re.sub(r"^Parser error at line [^:]*: ", "", reason)
        raise GraphError(
            f"{path}, line {line}: not valid {rdf_format.name} ({reason}); "
            "correct the line or the file's suffix"
        ) from cause
    if rows:
        parts.append(budget.kept(_frame(rows)))
    frame = pl.concat(parts, rechunk=True)
    examine = partial(_examine, frame, path)
    found = pl.DataFrame(labels, schema=LITERAL_LABELS, orient="row")
    return NameTable(frame, str(path), examine, literals, found)


def _frame(rows: list[tuple[str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(TRIPLES, pl.String), orient="row")


def _examine(frame: pl.DataFrame, path: Path) -> None:
    texts = frame.select(pl.all().cast(pl.String))
    check_names(texts, f"{path}, row", range(1, 1 + len(texts)))


def _written_ids(path: Path) -> set[str]:
    """What stands in a file and looks like a generated id."""
    found: set[bytes] = set()
    rest = b""
    for piece in read_pieces(path):
        found.update(_GENERATED_ID.findall(rest + piece))
        rest = piece[-LONGEST_ID:]
    return {each.decode() for each in found}


class _Content(io.BytesIO):
    """The decompressed content of a file for the parser; a statement that does not end is
    refused."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.pieces = read_pieces(path)
        self.piece = io.BytesIO(next(self.pieces, b"").removeprefix(b"\xef\xbb\xbf"))
        self.unparsed = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes."""
        part = self.piece.read(size)
        if not part:
            self.piece = io.BytesIO(next(self.pieces, b""))
            part = self.piece.read(size)
        self.unparsed += len(part)
        if self.unparsed > LONGEST_STATEMENT:
            raise self.endless()
        return part

    def endless(self) -> GraphError:
        """What to say of a statement that does not end."""
        return GraphError(
            f"{self.path} has no whole triple in {LONGEST_STATEMENT >> 20} MiB; it is damaged, or "
            "in another format"
        )


def _line_of_error(path: Path, rdf_format: RdfFormat) -> int:
    """The line at which parsing stops, found by handing the parser one line at a time."""
    lines = _OneLineReader(b"".join(read_pieces(path)).removeprefix(b"\xef\xbb\xbf"))
    try:
        for _ in parse(lines, format=rdf_format):
            pass
    except (SyntaxError, ValueError):
        pass
    return max(lines.number, 1)


class _OneLineReader(io.BytesIO):
    """Reads at most to the end of a line, and counts the lines."""

    number = 0

    def read(self, size: int | None = -1, /) -> bytes:
        line = self.readline(-1 if size is None else size)
        self.number += line.endswith(b"\n") or (bool(line) and self.tell() == len(self.getvalue()))
        return line
