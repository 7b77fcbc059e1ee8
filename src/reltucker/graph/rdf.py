"""RDF files: N-Triples, N-Quads, Turtle and RDF/XML, as triples of resources."""

import io
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

from reltucker.errors import GraphError
from reltucker.graph.tables import LITERAL_LABELS, TRIPLES, NameTable, from_frame, read_bytes

FORMATS = {
    ".nt": RdfFormat.N_TRIPLES,
    ".nq": RdfFormat.N_QUADS,
    ".ttl": RdfFormat.TURTLE,
    ".rdf": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
}

LABEL_PROPERTIES = {
    "http://www.w3.org/2004/02/skos/core#prefLabel": 0,
    "http://www.w3.org/2000/01/rdf-schema#label": 1,
}

# 128 random bits in hexadecimal; leading zeros are not written, so a few may be shorter.
_GENERATED_ID = re.compile(rb"[a-f][0-9a-f]{19,31}")


def read_rdf(path: Path, rdf_format: RdfFormat) -> NameTable:
    """The triples between IRIs and blank nodes; those with a literal are counted and left out, but
    for labels, which are kept apart.

    An IRI is its plain text, a blank node `_:id`; named graphs are ignored. The parser gives nodes
    without a label a random id. Those are numbered as they come, so that they are the same at every
    reading, and under the file's name, for in another file they are other nodes.
    """
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    written = {found.decode() for found in _GENERATED_ID.findall(content)}
    numbers: dict[str, int] = {}

    def name(node: object) -> str | None:
        if isinstance(node, NamedNode):
            return node.value
        if not isinstance(node, BlankNode):
            return None
        label = node.value
        if label in written or not _GENERATED_ID.fullmatch(label.encode()):
            return f"_:{label}"
        return f"_:{path.name}#{numbers.setdefault(label, len(numbers) + 1)}"

    columns: tuple[list[str], ...] = ([], [], [])
    subjects, relations, objects = columns
    labels: list[tuple[str, str, str, int]] = []
    literals = 0
    try:
        for quad in parse(content, format=rdf_format):
            subject, object_ = name(quad.subject), name(quad.object)
            rank = LABEL_PROPERTIES.get(quad.predicate.value)
            if subject is not None and rank is not None and isinstance(quad.object, Literal):
                label = quad.object
                labels.append((subject, label.value, label.language or "", rank))
            # A literal, or a triple term of RDF 1.2, is a value and not an entity.
            elif subject is None or object_ is None:
                literals += 1
            else:
                subjects.append(subject)
                relations.append(quad.predicate.value)
                objects.append(object_)
    except (SyntaxError, ValueError) as cause:
        line = getattr(cause, "lineno", None) or _line_of_error(content, rdf_format)
        reason = str(cause.args[0] if cause.args else cause).splitlines()[0]
        reason = re.sub(r"^Parser error at line [^:]*: ", "", reason)
        raise GraphError(
            f"{path}, line {line}: not valid {rdf_format.name} ({reason}); "
            "correct the line or the file's suffix"
        ) from cause
    frame = pl.DataFrame(columns, schema=dict.fromkeys(TRIPLES, pl.String), orient="col")
    found = pl.DataFrame(labels, schema=LITERAL_LABELS, orient="row")
    return replace(from_frame(frame, TRIPLES, str(path)), literals=literals, labels=found)


def _line_of_error(content: bytes, rdf_format: RdfFormat) -> int:
    """The line at which parsing stops, found by handing the parser one line at a time."""
    lines = _OneLineReader(content)
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
