"""Dropout on a tensor, differentiable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reltucker.kernels import Dropout, apply_dropout


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: Dropout) -> Tensor:
        ctx.dropout = dropout
        return apply_dropout(x, dropout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return apply_dropout(gradient.contiguous(), ctx.dropout), None


def dropped(x: Tensor, dropout: Dropout) -> Tensor:
    """x times the mask of `dropout`."""
    if dropout.rate == 0.0:
        return x
    apply: Callable[..., Tensor] = _Dropped.apply
    return apply(x.contiguous(), dropout)


NONE = Dropout.none()


@dataclass(frozen=True)
class QueryDropout:
    """The masks on the way to a query."""

    relations: Dropout = NONE
    """On the rows of R."""
    mixing: Dropout = NONE
    """On the compact form of M_k."""
    given: Dropout = NONE
    """On the rows of given entities."""
    queries: Dropout = NONE
    """On the queries."""

    def of_part(
        self, questions: Tensor, asked: int, relations: Tensor, known: int
    ) -> "QueryDropout":
        """The same masks for some questions, by their numbers among `asked`, with some of the
        distinct relations, by their numbers among `known`."""
        return QueryDropout(
            relations=self.relations.of_rows(relations, known),
            mixing=self.mixing.of_rows(relations, known),
            given=self.given.of_rows(questions, asked),
            queries=self.queries.of_rows(questions, asked),
        )


NO_DROPOUT = QueryDropout()
