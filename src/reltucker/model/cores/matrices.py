"""Cores whose compact form is the mixing matrices M_k themselves."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reltucker.kernels import (
    Dropout,
    apply_dropout,
    grouped_outer_products,
    grouped_products,
)
from reltucker.model.arrangement import Arrangement
from reltucker.model.cores.core import Core


class MatrixCore(Core):
    """A core with M_k (U, d_e, d_e)."""

    has_matrices = True

    def queries(self, mixing: Tensor, given: Tensor, arrangement: Arrangement) -> Tensor:
        """e_i^T M_k and M_k e_j."""
        return matrix_queries(mixing, given, arrangement.starts)

    def query_work(self) -> int:
        """As d_e^2: a product with M_k."""
        return self.entity_dim**2


def matrix_queries(matrices: Tensor, given: Tensor, starts: Tensor) -> Tensor:
    """x^T M_u in the first part of the rows, M_u x in the second: (U, d, d), (Q, d) to (Q, d);
    `starts` (2, U + 1) as in an arrangement."""
    apply: Callable[..., Tensor] = _Queries.apply
    return apply(matrices, given, starts)


class _Queries(torch.autograd.Function):
    """Autograd over slices of M would fill a full zero gradient for every slice."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, given: Tensor, starts: Tensor) -> Tensor:
        matrices, given = matrices.contiguous(), given.contiguous()
        ctx.save_for_backward(matrices, given, starts)
        return grouped_products(matrices, given, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        matrices, given, starts = ctx.saved_tensors
        gradient, n = gradient.contiguous(), int(starts[1, 0])
        # dM_k = sum e_i dq^T over questions for objects, plus sum dq e_j^T over those for subjects.
        left = torch.cat([given[:n], gradient[n:]])
        right = torch.cat([gradient[:n], given[n:]])
        return (
            grouped_outer_products(left, right, starts),
            grouped_products(matrices, gradient, starts, flipped=True),
            None,
        )


def mixed(relations: Tensor, slices: Tensor, dropout: Dropout) -> Tensor:
    """R G after dropout: (U, d_r), (d_r, d_e^2) to (U, d_e^2), differentiable."""
    apply: Callable[..., Tensor] = _Mixed.apply
    return apply(relations, slices, dropout)


class _Mixed(torch.autograd.Function):
    """The product and its gradient are masked where they lie; they are the largest of a step."""

    @staticmethod
    def forward(ctx: Any, relations: Tensor, slices: Tensor, dropout: Dropout) -> Tensor:
        ctx.dropout = dropout
        ctx.save_for_backward(relations, slices)
        matrices = relations @ slices
        return apply_dropout(matrices, dropout, matrices) if dropout.rate else matrices

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        relations, slices = ctx.saved_tensors
        gradient = gradient.contiguous()
        if ctx.dropout.rate:
            apply_dropout(gradient, ctx.dropout, gradient)
        for_relations = gradient @ slices.t() if ctx.needs_input_grad[0] else None
        return for_relations, relations.t() @ gradient, None


def default_relation_dim(entity_dim: int, relation_dim: int | None, relations: int) -> int:
    """d_r where a core leaves it free: no more than there are relations, nor more than d_e."""
    return min(relations, entity_dim) if relation_dim is None else relation_dim
