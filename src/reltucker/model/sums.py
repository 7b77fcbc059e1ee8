"""Sums of models: the factors of several decompositions side by side."""

from collections.abc import Sequence

import torch
from torch import nn

from reltucker.model.cores import MergedCore
from reltucker.model.normalisation import QueryNorm
from reltucker.model.relational_tucker import RelationalTucker


@torch.no_grad()
def weighted_sum(models: Sequence[RelationalTucker], weights: Sequence[float]) -> RelationalTucker:
    """The model whose scores are w_1 s_1 + w_2 s_2 + ..., for use.

    E = (E_1 | E_2 | ...), R = (w_1 R_1 | w_2 R_2 | ...), and the cores stand along the diagonal of
    G: a score is linear in r_k, so that a weight has its place there. Batch normalisation works on
    single coordinates, and stands side by side as well. The models have the same entities and
    relations, and inverse relations in all or in none; their cores are shared, not copied.
    """
    first = models[0]
    core = MergedCore([model.core for model in models])
    summed = RelationalTucker(0, first.relations, core, reciprocal=first.reciprocal)
    weighted = [weight * model.R for model, weight in zip(models, weights, strict=True)]
    summed.E = nn.Parameter(torch.cat([model.E for model in models], dim=1))
    summed.R = nn.Parameter(torch.cat(weighted, dim=1))
    if any(model.norm is not None for model in models):
        norms = [model.norm or QueryNorm.identity(model.core.entity_dim) for model in models]
        summed.norm = QueryNorm.side_by_side([norm.to(first.E) for norm in norms], weights)
    return summed.eval().requires_grad_(False)
