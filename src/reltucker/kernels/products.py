"""Products of queries with many entities, the bulk of the work of training and ranking.

    scores    : S = Q E^T              queries Q (q, d), entities E (n, d), S (q, n)
    gradients : dE = dS^T Q, dQ = dS E

On the CPU they are taken in blocks of entities, over rows of S that begin at whole cache lines: a
product whose rows are longer than a page and begin anywhere runs at two thirds of the speed. In
bfloat16, where processors have instructions for it, products alone are rounded to eight bits; sums
over d, scores, softmax and all parameters stay in single precision, and so do sums over blocks.
"""

from typing import Literal

import torch
from torch import Tensor

Precision = Literal["float32", "bfloat16"]

LINE = 16
"""Numbers of single precision in a cache line."""

BLOCK = 1024
"""Entities in a block, at the least."""

BLOCK_SCORES = 2**20
"""Scores in a block of few queries."""


def score_rows(buffer: Tensor, rows: int, columns: int) -> Tensor:
    """The first numbers of a flat buffer as scores (rows, columns), for `scores_into`."""
    width = padded(columns)
    return buffer[: rows * width].view(rows, width)[:, :columns]


def padded(columns: int) -> int:
    """How many numbers of a buffer a row of scores takes."""
    return -(-columns // LINE) * LINE


def new_scores(queries: Tensor, entities: Tensor) -> Tensor:
    """Memory for the scores of these queries over these entities."""
    rows, columns = len(queries), len(entities)
    return score_rows(queries.new_empty(rows * padded(columns)), rows, columns)


def scores_into(
    scores: Tensor, queries: Tensor, entities: Tensor, precision: Precision = "float32"
) -> Tensor:
    """S = Q E^T in place."""
    if precision == "float32":
        for block in _blocks(queries, entities):
            torch.mm(queries, entities[block].t(), out=scores[:, block])
        return scores
    q = queries.bfloat16()
    for block in _blocks(queries, entities):
        scores[:, block] = torch.mm(q, entities[block].bfloat16().t())
    return scores


def gradients_into(
    d_entities: Tensor,
    d_scores: Tensor,
    queries: Tensor,
    entities: Tensor,
    precision: Precision = "float32",
) -> Tensor:
    """dE = dS^T Q in place; returns dQ = dS E."""
    if precision == "float32":
        torch.mm(d_scores.t(), queries, out=d_entities)
        return torch.mm(d_scores, entities)
    q, d_queries = queries.bfloat16(), torch.zeros_like(queries)
    for block in _blocks(queries, entities):
        d = d_scores[:, block].bfloat16()
        d_entities[block] = torch.mm(d.t(), q)
        d_queries += torch.mm(d, entities[block].bfloat16())
    return d_queries


def _blocks(queries: Tensor, entities: Tensor) -> list[slice]:
    count = len(entities)
    size = max(BLOCK, BLOCK_SCORES // max(1, len(queries)))
    size = size if entities.device.type == "cpu" else max(1, count)
    return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]
