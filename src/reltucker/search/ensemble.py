"""Which trials make a better model together than the best does alone, by validation triples."""

import itertools
from typing import Any

import numpy as np

from reltucker.evaluation import rank_weighted_sums, sampled
from reltucker.graph import KnowledgeGraph
from reltucker.search.folder import SearchFolder
from reltucker.search.outcome import Outcome
from reltucker.search.regions import REGION
from reltucker.training import BEST, RunFolder, ranking_seconds, score_spread, trained_model

CANDIDATES, OF_A_REGION, LARGEST = 8, 3, 4
"""So many trials are looked at, at most so many of a region, and so many are merged."""

GAIN = 0.002
"""By so much a further trial must raise the validation MRR."""

TRIPLES = 5_000
"""Validation triples that are looked at, at the most."""

PASSES = 12
"""Rankings of these triples that choosing trials and their weights takes, about."""


def candidates(folder: SearchFolder, outcome: Outcome) -> list[dict[str, Any]]:
    """The best trials, best first, that can be merged with the best one: here, and with reciprocal
    relations if it has them. Few are of one region, since others know other things."""
    rows = sorted(outcome.complete, key=lambda row: -row["mrr"])
    found: list[dict[str, Any]] = []
    wanted: bool | None = None
    for row in rows:
        run = RunFolder(folder.trial(row))
        if not run.exists() or not run.has(BEST) or run.result() is None:
            continue
        reciprocal = run.recipe().model.reciprocal
        wanted = reciprocal if wanted is None else wanted
        alike = sum(other.get(REGION) == row.get(REGION) for other in found)
        if reciprocal == wanted and (alike < OF_A_REGION or REGION not in row):
            found.append(row)
    return found[:CANDIDATES] if found and found[0] is rows[0] else []


def choose_trials(
    folder: SearchFolder, outcome: Outcome, graph: KnowledgeGraph, seconds: float
) -> list[dict[str, Any]]:
    """The trials to merge, the best one first; it alone where no other raises the validation MRR
    enough, or where there is no time to try it. `graph` has no test triples.

    One trial after the other is added: always the one with which the sum of scores, each of equal
    spread, is best.
    """
    rows = candidates(folder, outcome)
    models = [trained_model(RunFolder(folder.trial(row)), graph) for row in rows]
    triples = sampled(graph.valid[graph.is_seen(graph.valid)], TRIPLES)
    costs = itertools.accumulate(PASSES * ranking_seconds(m, len(triples)) for m in models)
    count = sum(cost <= seconds for cost in costs)
    rows, models = rows[:count], models[:count]
    if count < 2:
        return rows[:1]
    equal = 1.0 / np.array([score_spread(model, triples) for model in models])
    chosen, best = [0], -1.0
    while len(chosen) < min(count, LARGEST):
        others = [n for n in range(count) if n not in chosen]
        sums = [chosen, *([*chosen, other] for other in others)]
        weights = np.array([np.where(np.isin(np.arange(count), s), equal, 0.0) for s in sums])
        rankings = rank_weighted_sums(models, weights, graph, "valid", triples=triples)
        found = [ranking.metrics()["seen"].mrr for ranking in rankings]
        best = max(best, found[0])
        most = int(np.argmax(found[1:]))
        if found[1 + most] < best + GAIN:
            break
        chosen.append(others[most])
        best = found[1 + most]
    return [rows[n] for n in chosen]
