"""A full test ranking under all protocols against the time of its score products alone."""

from typing import Any

import torch

from benchmarks.machine import seconds
from reltucker.evaluation import rank_split
from reltucker.evaluation.ranking import SCORE_BLOCK_BYTES
from reltucker.graph import KnowledgeGraph
from reltucker.training import Recipe, build_model


def measure_ranking(graph: KnowledgeGraph, recipe: Recipe) -> dict[str, Any]:
    """Both directions of every test triple; the answer index is built beforehand, as in training.

    The products alone: one row of scores for each of the 2 n queries, in the blocks that ranking
    uses. Ranking itself scores each distinct query once, so it may need less than that.
    """
    model = build_model(recipe, len(graph.entities), len(graph.relations))
    model.reset(torch.Generator().manual_seed(0))
    model.requires_grad_(False)
    for direction in ("object", "subject"):
        graph.answers(direction)
    entities = model.E.detach()
    rows = 2 * len(graph.test)
    block = max(16, SCORE_BLOCK_BYTES // (4 * len(entities)))
    queries = torch.randn(block, entities.shape[1])
    buffer = torch.empty(block, len(entities))

    def products() -> None:
        for _ in range(rows // block):
            torch.mm(queries, entities.t(), out=buffer)
        left = rows % block
        torch.mm(queries[:left], entities.t(), out=buffer[:left])

    alone = seconds(products, repeats=3)
    whole = seconds(lambda: rank_split(model, graph, "test"), repeats=3)
    return {
        "settings": recipe.model.model_dump(exclude_none=True),
        "queries": rows,
        "seconds": whole,
        "seconds_of_products": alone,
        "ratio_to_products": whole / alone,
    }
