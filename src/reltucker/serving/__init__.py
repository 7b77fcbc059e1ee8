"""A model is used: prediction, scores of triples, explanations, export."""

from reltucker.serving.explanation import Explanation, ScoreParts, explain, score_parts
from reltucker.serving.export import FORMATS, ExportFormat, export_embeddings
from reltucker.serving.naming import POSITIONS, find_id, parse_triples
from reltucker.serving.prediction import UNKNOWN, Question, answer, parse_question
from reltucker.serving.scoring import probabilities, score_triples

__all__ = [
    "FORMATS",
    "POSITIONS",
    "UNKNOWN",
    "Explanation",
    "ExportFormat",
    "Question",
    "ScoreParts",
    "answer",
    "explain",
    "export_embeddings",
    "find_id",
    "parse_question",
    "parse_triples",
    "probabilities",
    "score_parts",
    "score_triples",
]
