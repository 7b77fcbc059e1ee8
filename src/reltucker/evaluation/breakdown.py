"""Metrics apart by relation, by kind of relation, or by direction."""

from typing import Any

import numpy as np

from reltucker.choices import Breakdown as Breakdown
from reltucker.evaluation.ranking import ENTITY_DIRECTIONS, Ranking
from reltucker.graph import KINDS, KnowledgeGraph, relation_kinds


def break_down(ranking: Ranking, graph: KnowledgeGraph, by: Breakdown) -> list[dict[str, Any]]:
    """One entry for each relation, kind or direction that has queries, JSON-ready.

    Relations come by the number of their triples, largest first. Those without training triples
    have the kind "unseen", so that the groups hold every query once.
    """
    relations = ranking.triples[:, 1]
    if by == "direction":
        return [
            {"direction": direction, **_protocols(ranking, direction=direction)}
            for direction in ENTITY_DIRECTIONS
        ]
    if by == "kind":
        kinds = np.asarray(relation_kinds(graph))
        present = kinds[relations]
        return [
            {"kind": kind, **_protocols(ranking, where=present == kind)}
            for kind in KINDS
            if np.any(present == kind)
        ]
    distinct, counts = np.unique(relations, return_counts=True)
    return [
        {
            "relation": graph.relations.name(k),
            "label": graph.relations.label(k),
            **_protocols(ranking, where=relations == k),
        }
        for k in distinct[np.argsort(-counts, kind="stable")]
    ]


def _protocols(ranking: Ranking, **chosen: Any) -> dict[str, Any]:
    return {name: m.to_dict() for name, m in ranking.metrics(**chosen).items()}
