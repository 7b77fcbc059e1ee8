"""A model is used: prediction and export."""

from reltucker.serving.export import FORMATS, ExportFormat, export_embeddings
from reltucker.serving.prediction import UNKNOWN, Question, answer, parse_question

__all__ = [
    "FORMATS",
    "UNKNOWN",
    "ExportFormat",
    "Question",
    "answer",
    "export_embeddings",
    "parse_question",
]
