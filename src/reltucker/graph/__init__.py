"""A knowledge graph comes in: readers, vocabulary, splits, answer index, catalog, families."""

from reltucker.graph.answers import COLUMNS, AnswerIndex, AnswerRows, Direction, IntArray
from reltucker.graph.building import GraphWarning
from reltucker.graph.description import KINDS, describe_graph, relation_kinds
from reltucker.graph.extending import Extension, extend, keep_splits, warn_of_trained
from reltucker.graph.knowledge_graph import (
    GRAPH_FILES,
    SPLITS,
    KnowledgeGraph,
    SplitName,
    has_checksums,
)
from reltucker.graph.labels import DEFAULT_LANGUAGE, read_labels
from reltucker.graph.loading import load_graph
from reltucker.graph.prepared import is_prepared, verify_prepared
from reltucker.graph.preparing import prepare_graph
from reltucker.graph.sources import GraphSource, TripleSource, frame_of, read_names
from reltucker.graph.tables import NAME_LIST
from reltucker.graph.vocabulary import Vocabulary

__all__ = [
    "COLUMNS",
    "DEFAULT_LANGUAGE",
    "GRAPH_FILES",
    "KINDS",
    "NAME_LIST",
    "SPLITS",
    "AnswerIndex",
    "AnswerRows",
    "Direction",
    "Extension",
    "GraphSource",
    "GraphWarning",
    "IntArray",
    "KnowledgeGraph",
    "SplitName",
    "TripleSource",
    "Vocabulary",
    "describe_graph",
    "extend",
    "frame_of",
    "has_checksums",
    "is_prepared",
    "keep_splits",
    "load_graph",
    "prepare_graph",
    "read_labels",
    "read_names",
    "relation_kinds",
    "verify_prepared",
    "warn_of_trained",
]
