"""Pseudo-negatives: entities drawn without replacement that take the place of the true one."""

import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.kernels import draw_distinct


def check_negatives(count: int, population: int) -> None:
    """Refuse to draw more entities without replacement than there are beside the true one."""
    if count > population - 1:
        raise RecipeError(
            f"train.negatives = {count}: only {population} entities occur in train, so at most "
            f"{population - 1} can be drawn without replacement"
        )


def draw_candidates(true: Tensor, count: int, population: int, key: int) -> Tensor:
    """(B,) true entities to (B, 1 + count) candidates: the true one, then `count` others.

    The others are distinct, never the true one, and uniform among the entities below `population`
    (those that occur in train). The result is a function of `key`.
    """
    check_negatives(count, population)
    others = draw_distinct(len(true), count, population - 1, key).to(true.device)
    # Numbers from the true one on move up by one: uniform over all entities but the true one.
    others += others >= true.unsqueeze(1)
    return torch.cat([true.unsqueeze(1), others], dim=1)
