"""Which weights make the best sum of models, by validation triples."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from reltucker.errors import GraphError
from reltucker.evaluation import rank_weighted_sums, sampled
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.progress import track
from reltucker.training.validation import is_possible

SAMPLE = 5_000
"""On so many validation triples at the most weights are chosen."""

STEPS = (4.0, 2.0, 2.0, 2**0.5, 2**0.5, 2**0.25, 2**0.25)
"""Factors by which one weight is changed, round by round."""

SPREAD_TRIPLES = 200
"""On so many triples the spread of a model's scores is measured."""

Weights = npt.NDArray[np.float64]


def choose_weights(
    models: Sequence[RelationalTucker], graph: KnowledgeGraph, *, progress: bool = True
) -> tuple[list[float], list[float]]:
    """Weights (they sum to 1) for the sum of models with a high validation MRR, protocol `seen`,
    and the MRR of each model alone on the same triples, below which that of the sum never is.

    The start is the best of: each model alone, and all of them with equal spread of their scores.
    Then one weight at a time is changed by a factor, or set to 0, or to what it was at first.
    """
    if not is_possible(graph):
        raise GraphError(
            f"{graph.name} has no validation triples whose entities and relation occur in train, "
            "by which weights could be chosen; give them as weights"
        )
    triples = sampled(graph.valid[graph.is_seen(graph.valid)], SAMPLE)
    equal = 1.0 / np.array([score_spread(model, triples) for model in models])
    total = 2 * len(triples) * (1 + len(STEPS))
    with track("choosing weights", total, "queries", progress) as advance:

        def judge(candidates: Weights) -> Weights:
            rankings = rank_weighted_sums(
                models, candidates, graph, "valid", triples=triples, advance=advance
            )
            return np.array([ranking.metrics()["seen"].mrr for ranking in rankings])

        start = np.stack([*(np.diag(equal)), equal])
        found = judge(start)
        alone = found[:-1].tolist()
        best, mrr = start[found.argmax()], found.max()
        settled = 0.0
        for step in STEPS:
            if step == settled:
                continue  # the same neighbours, none of which was better
            candidates = _neighbours(best, equal, step)
            found = judge(candidates)
            if found.max() > mrr:
                best, mrr = candidates[found.argmax()], found.max()
            else:
                settled = step
    return (best / best.sum()).tolist(), alone


def _neighbours(weights: Weights, equal: Weights, step: float) -> Weights:
    """Weight vectors (C, P) that differ from `weights` in one place, and not only by their sum."""
    found: dict[tuple[float, ...], Weights] = {}
    for part, weight in enumerate(weights):
        for changed in (weight * step, weight / step, 0.0, equal[part], equal[part] / step):
            candidate = weights.copy()
            candidate[part] = changed
            if candidate.any():
                key = tuple((candidate / candidate.sum()).round(9).tolist())
                found.setdefault(key, candidate)
    return np.stack(list(found.values()))


def score_spread(model: RelationalTucker, triples: npt.NDArray[np.int32]) -> float:
    """The mean standard deviation of the scores of all objects, over some questions."""
    chosen = torch.from_numpy(sampled(triples, SPREAD_TRIPLES)).long().to(model.E.device)
    queries = model.queries("object", chosen[:, 0], chosen[:, 1])
    spread = float((queries @ model.candidates("object").t()).std(dim=1).mean())
    return spread if math.isfinite(spread) and spread > 0 else 1.0
