"""A knowledge graph comes in: readers, vocabulary, splits, answer index, catalog, families."""

from reltucker.graph.answers import COLUMNS, AnswerIndex, AnswerRows, Direction
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, SplitName
from reltucker.graph.vocabulary import Vocabulary

__all__ = [
    "COLUMNS",
    "SPLITS",
    "AnswerIndex",
    "AnswerRows",
    "Direction",
    "KnowledgeGraph",
    "SplitName",
    "Vocabulary",
]
