"""Initial values of parameters."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Initial = Literal["normal", "uniform"]

Draw = Callable[[Tensor, float], None]
"""Fills a tensor with values of mean zero and the given standard deviation."""


ROWS_AT_ONCE = 1 << 16
"""A multiple of 16, in steps of which torch draws."""


def draw_rows(draw: Draw, rows: Tensor, held: slice, count: int, deviation: float) -> None:
    """Draw a matrix of `count` rows, of which some are held: the same numbers, whoever holds
    them."""
    if len(rows) == count:
        draw(rows, deviation)
        return
    for begin in range(0, count, ROWS_AT_ONCE):
        # The last rows are drawn with those before them: fewer than 16 numbers have a way apart.
        end = count if count - begin < 2 * ROWS_AT_ONCE else begin + ROWS_AT_ONCE
        part = rows.new_empty(end - begin, rows.shape[1])
        draw(part, deviation)
        first, last = max(begin, held.start), min(end, held.stop)
        if first < last:
            with torch.no_grad():
                rows[first - held.start : last - held.start] = part[first - begin : last - begin]
        if end == count:
            return


def drawing(kind: Initial, generator: torch.Generator) -> Draw:
    """Draws from a normal or a uniform distribution."""

    def normal(tensor: Tensor, deviation: float) -> None:
        nn.init.normal_(tensor, 0.0, deviation, generator=generator)

    def uniform(tensor: Tensor, deviation: float) -> None:
        bound = deviation * 3**0.5
        nn.init.uniform_(tensor, -bound, bound, generator=generator)

    return normal if kind == "normal" else uniform
