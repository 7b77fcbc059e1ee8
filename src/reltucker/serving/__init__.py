"""A model is used: prediction, scores of triples, explanations, export."""

from reltucker.serving.candidates import Limits, limits_of
from reltucker.serving.discovery import discover
from reltucker.serving.explanation import Explanation, ScoreParts, explain, score_parts
from reltucker.serving.export import FORMATS, Embeddings, ExportFormat, export_embeddings
from reltucker.serving.naming import POSITIONS, find_id, parse_triples
from reltucker.serving.prediction import (
    UNKNOWN,
    Question,
    answer,
    parse_question,
    parse_questions,
    sort_out,
)
from reltucker.serving.relation_links import relation_links
from reltucker.serving.scoring import probabilities, score_triples
from reltucker.serving.similarity import duplicates, similar

__all__ = [
    "FORMATS",
    "POSITIONS",
    "UNKNOWN",
    "Embeddings",
    "Explanation",
    "ExportFormat",
    "Limits",
    "Question",
    "ScoreParts",
    "answer",
    "discover",
    "duplicates",
    "explain",
    "export_embeddings",
    "find_id",
    "limits_of",
    "parse_question",
    "parse_questions",
    "parse_triples",
    "probabilities",
    "relation_links",
    "score_parts",
    "score_triples",
    "similar",
    "sort_out",
]
