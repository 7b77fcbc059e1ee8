"""Labels: what to show to a person for a name, from a table (id, name) or from RDF literals."""

from pathlib import Path

import polars as pl

from reltucker.errors import GraphError
from reltucker.graph.rdf import FORMATS as RDF_FORMATS
from reltucker.graph.rdf import read_rdf
from reltucker.graph.sources import read_names
from reltucker.graph.tables import LABELS, bad_names, stem_and_suffix

DEFAULT_LANGUAGE = "en"


def read_labels(path: Path, language: str = DEFAULT_LANGUAGE) -> pl.DataFrame:
    """The labels of a file, columns id and name, one for each id: a table, or an RDF file with
    rdfs:label or skos:prefLabel literals."""
    suffix = stem_and_suffix(path)[1]
    if suffix not in RDF_FORMATS or not path.is_file():
        suffixes = tuple(RDF_FORMATS)
        return read_names(path, LABELS, suffixes).unique("id", keep="first", maintain_order=True)
    found = in_language(read_rdf(path, RDF_FORMATS[suffix]).labels, language)
    if found.is_empty():
        raise GraphError(f"{path} has no rdfs:label or skos:prefLabel that could be shown")
    return found


def in_language(literals: pl.DataFrame, language: str = DEFAULT_LANGUAGE) -> pl.DataFrame:
    """One label for each id among literals (id, name, language, property).

    In the language asked for (`de` takes `de-AT` too), else without a language, else in any; and
    among those skos:prefLabel before rdfs:label, then whichever comes first.
    """
    tag, own = language.lower(), pl.col("language").str.to_lowercase()
    distance = (
        pl.when(own == tag)
        .then(0)
        .when(own.str.starts_with(f"{tag}-"))
        .then(1)
        .when(own == "")
        .then(2)
        .otherwise(3)
    )
    return (
        literals.filter(~bad_names(pl.col("name")))
        .sort(distance, "property", maintain_order=True)
        .unique("id", keep="first", maintain_order=True)
        .select("id", "name")
    )
