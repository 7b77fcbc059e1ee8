"""What a fit costs: time, memory, and the operations that its model needs."""

from typing import Any

import numpy as np
import torch

from reltucker.evaluation import ENTITY_DIRECTIONS
from reltucker.graph import KnowledgeGraph
from reltucker.graph.answers import AnswerIndex, Direction, IntArray
from reltucker.model import RelationalTucker
from reltucker.training import Recipe


def cost_of(
    recipe: Recipe, result: dict[str, Any], model: RelationalTucker, graph: KnowledgeGraph
) -> dict[str, Any]:
    """The cost of a fit, JSON-ready: `result` is what its training ended with, `model` what it
    kept. Seconds and bytes are those that training noted; older runs do not have the bytes."""
    memory = result.get("peak_memory_bytes")
    epoch, query = epoch_operations(recipe, model, graph), query_operations(model)
    return {
        **{key: int(result[key]) for key in ("epochs", "best_epoch")},
        **{key: float(result[key]) for key in ("seconds_per_epoch", "seconds")},
        "peak_memory_bytes": memory,
        "peak_mebibytes": None if memory is None else memory / 2**20,
        "epoch_operations": epoch,
        "epoch_gigaoperations": epoch / 1e9,
        "query_operations": query,
        "query_megaoperations": query / 1e6,
    }


def epoch_operations(recipe: Recipe, model: RelationalTucker, graph: KnowledgeGraph) -> float:
    """Floating-point operations of a training epoch that the kept model needs.

    2 (multiply, add) x 3 (forward, two gradients) x (D nnz(G) + Q nnz(M) + Q C d_e)

    for the Q questions of an epoch, two for each triple or each distinct one once: M_k is built for
    the D distinct relations of all batches (only where the core is learned), and a question scores
    C candidates. An item (a triple or a question) is in a batch of B of the n with probability
    B / n, so that D = n / B sum_k (1 - (1 - B / n)^(n_k)) over the rows k of R.
    """
    settings = recipe.train
    triples = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    if settings.objective_class.items == "questions":
        by_way = [_questions(graph, way, settings.answers_at_once) for way in ENTITY_DIRECTIONS]
        items = np.concatenate(by_way) if model.reciprocal else by_way[0] + by_way[1]
        n, questions = items.sum(), items.sum()
    else:
        items = np.tile(triples, 2) if model.reciprocal else triples
        n, questions = triples.sum(), 2 * triples.sum()
    share = min(1.0, settings.batch_size / n)
    distinct = 1 / share * float(np.sum(1 - (1 - share) ** items))
    candidates = settings.objective_class.candidates(settings, len(graph.entities))
    building = distinct * model.core.free_entries()
    asking = questions * mixing_entries(model)
    scoring = questions * candidates * model.core.entity_dim
    return 6.0 * float(building + asking + scoring)


def _questions(graph: KnowledgeGraph, way: Direction, at_once: int | None) -> IntArray:
    """How often an epoch of k_vs_all asks about each relation, one way."""
    relations = len(graph.relations)
    index = AnswerIndex.build(way, [graph.train], len(graph.entities), relations)
    answers = np.diff(index.offsets)
    times = np.ones_like(answers) if at_once is None else -(-answers // at_once)
    return np.bincount(index.keys % relations, times, minlength=relations)


def query_operations(model: RelationalTucker) -> float:
    """Floating-point operations to rank all N entities for one query, M_k being at hand:
    2 (nnz(M) + N d_e)."""
    return 2.0 * (mixing_entries(model) + model.E.numel())


@torch.no_grad()
def mixing_entries(model: RelationalTucker) -> float:
    """nnz(M): how many entries of a mixing matrix are not zero, on average over relations."""
    core = model.core
    if not core.free_entries():  # every entry of a fixed G has a place of its own in M_k
        return float(core.nonzero_entries())
    if core.density() == 1.0:
        return float(core.entity_dim**2)
    counts = [int(torch.count_nonzero(core.mixing_matrices(r[None]))) for r in model.R]
    return sum(counts) / len(counts)
