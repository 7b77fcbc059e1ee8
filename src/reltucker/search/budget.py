"""Budgets: how many effective parameters a recipe's model may have, before it is trained."""

import re
from typing import NamedTuple

import torch

from reltucker.errors import RecipeError
from reltucker.training import Recipe, build_model

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_count(text: str) -> int:
    """A number of parameters as a person writes it: 3M, 250k, 1.5M, 800000."""
    match = re.fullmatch(r"(\d[\d_,]*(?:\.\d+)?)\s*([kmg]?)", text.strip().lower())
    if match is None:
        raise RecipeError(f"--max-parameters {text}: write a number such as 3M, 250k or 800000")
    count = round(float(re.sub("[_,]", "", match[1])) * _UNITS[match[2]])
    if count < 1:
        raise RecipeError(f"--max-parameters {text}: at least one parameter is needed")
    return count


class Bounds(NamedTuple):
    """The least and the most effective parameters that a model may end with.

    They differ only where the core is learned sparse, by the number of its entries.
    """

    least: int
    most: int


def bounds_of(recipe: Recipe, entities: int, relations: int) -> Bounds:
    """nnfp(E) + nnfp(R) + nnfp(G) with no entry zero by chance, without holding the model."""
    with torch.device("meta"):
        model = build_model(recipe, entities, relations)
    least, most = model.core.entry_range()
    embeddings = model.E.numel() + model.R.numel()
    return Bounds(embeddings + least, embeddings + most)


def within_budget(recipe: Recipe, bounds: Bounds, limit: int) -> Recipe | None:
    """The recipe such that its model keeps to the limit, or None where it cannot.

    A core that is learned sparse may begin dense: `train.max_density` lets only those epochs
    count in which it is sparse enough.
    """
    if bounds.most <= limit:
        return recipe
    if bounds.least == bounds.most or bounds.least >= limit:  # one entry of a core must stay
        return None
    density = (limit - bounds.least) / (bounds.most - bounds.least)
    wanted = recipe.train.max_density or 1.0
    return recipe.with_values({"train.max_density": min(density, wanted)})
