"""Rows of a batch grouped by relation, so that M_k is built once for each distinct relation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reltucker.kernels import (
    Dropout,
    add_rows,
    apply_dropout,
    grouped_queries_backward,
    grouped_queries_forward,
    has_loops,
)


@dataclass(frozen=True)
class RelationGroups:
    """B rows, ordered by the size of their relation's group, then by relation.

    relations : (U,) the distinct relations, in the order of their groups
    index     : (B,) the group of each row; non-decreasing
    starts    : (U + 1,) the first row of each group, and B
    order     : (B,) the permutation that brought the caller's rows into this order
    segments  : (size, count) for each run of `count` groups that have `size` rows each. Rows and
                groups of a segment are contiguous, so one batched product serves it without copies.
    """

    relations: Tensor
    index: Tensor
    starts: Tensor
    order: Tensor
    segments: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, relations: Tensor) -> "RelationGroups":
        """Group rows with the given relation ids (B,)."""
        distinct, inverse, sizes = torch.unique(relations, return_inverse=True, return_counts=True)
        by_size = torch.argsort(sizes, stable=True)
        place = torch.empty_like(by_size)
        place[by_size] = torch.arange(len(by_size), device=by_size.device)
        group_of_row = place[inverse]
        order = torch.argsort(group_of_row, stable=True)
        ordered_sizes = sizes[by_size]
        starts = torch.nn.functional.pad(torch.cumsum(ordered_sizes, 0), (1, 0))
        values, counts = torch.unique_consecutive(ordered_sizes, return_counts=True)
        segments = tuple(zip(values.tolist(), counts.tolist(), strict=True))
        return cls(distinct[by_size], group_of_row[order], starts, order, segments)

    def both_products(
        self, matrices: Tensor, subjects: Tensor, objects: Tensor, dropout: Dropout
    ) -> tuple[Tensor, Tensor]:
        """(U, d, d), (B, d), (B, d) to x_b^T M_u and M_u y_b, differentiable, with dropout on M."""
        apply: Callable[..., tuple[Tensor, Tensor]] = _BothProducts.apply
        return apply(matrices, subjects, objects, self, dropout)

    def products(self, matrices: Tensor, rows: Tensor, dropout: Dropout) -> Tensor:
        """(U, d, d), (B, d) to x_b^T M_u, differentiable, with dropout on M."""
        apply: Callable[..., Tensor] = _Products.apply
        return apply(matrices, rows, self, dropout)

    def spread(self, values: Tensor) -> Tensor:
        """(U, ...) to the value of each row's group (B, ...), differentiable. The gradient is
        summed row by row: that of an index has no fixed order on several threads."""
        apply: Callable[..., Tensor] = _Spread.apply
        return apply(values, self.index)

    def plain_products(self, matrices: Tensor, rows: Tensor) -> Tensor:
        """x_b^T M_u for every row b of group u, one batched product for each segment."""
        rows = rows.contiguous()
        out = torch.empty_like(rows)
        row = group = 0
        width = rows.shape[1]
        for size, count in self.segments:
            part = slice(row, row + size * count)
            torch.bmm(
                rows[part].view(count, size, width),
                matrices[group : group + count],
                out=out[part].view(count, size, width),
            )
            row, group = row + size * count, group + count
        return out

    def outer_products(self, left: Tensor, right: Tensor) -> Tensor:
        """sum of x_b y_b^T over the rows of each group: (B, d), (B, d) to (U, d, d)."""
        left, right = left.contiguous(), right.contiguous()
        width = left.shape[1]
        out = left.new_empty(len(self.relations), width, width)
        row = group = 0
        for size, count in self.segments:
            part = slice(row, row + size * count)
            torch.bmm(
                left[part].view(count, size, width).transpose(1, 2),
                right[part].view(count, size, width),
                out=out[group : group + count],
            )
            row, group = row + size * count, group + count
        return out


class _BothProducts(torch.autograd.Function):
    """Rows x_b of group u to x_b^T M_u and rows y_b to M_u y_b, with one gradient for M.

    Autograd over slices of M would fill a full zero gradient for every slice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mixing: Tensor,
        subjects: Tensor,
        objects: Tensor,
        groups: RelationGroups,
        dropout: Dropout,
    ) -> tuple[Tensor, Tensor]:
        ctx.groups, ctx.dropout = groups, dropout
        ctx.save_for_backward(mixing, subjects, objects)
        if has_loops(mixing):
            return grouped_queries_forward(mixing, subjects, objects, groups.starts, dropout)
        masked = mixing * dropout.mask(mixing)
        return (
            groups.plain_products(masked, subjects),
            groups.plain_products(masked.transpose(1, 2), objects),
        )

    @staticmethod
    def backward(
        ctx: Any, object_gradient: Tensor, subject_gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        mixing, subjects, objects = ctx.saved_tensors
        groups: RelationGroups = ctx.groups
        if has_loops(mixing):
            gradients = grouped_queries_backward(
                mixing,
                subjects,
                objects,
                groups.starts,
                ctx.dropout,
                object_gradient.contiguous(),
                subject_gradient.contiguous(),
            )
            return *gradients, None, None
        mask = ctx.dropout.mask(mixing)
        masked = mixing * mask
        # dM_u = sum_b x_b (dq_b)^T for the object queries + dq_b y_b^T for the subject queries.
        for_mixing = groups.outer_products(subjects, object_gradient)
        for_mixing += groups.outer_products(subject_gradient, objects)
        return (
            for_mixing.mul_(mask),
            groups.plain_products(masked.transpose(1, 2), object_gradient),
            groups.plain_products(masked, subject_gradient),
            None,
            None,
        )


class _Spread(torch.autograd.Function):
    """Values of groups to rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:
        ctx.count = len(values)
        ctx.save_for_backward(index)
        return values[index]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        total = gradient.new_zeros(ctx.count, *gradient.shape[1:])
        return add_rows(total, index, gradient.contiguous()), None


class _Products(torch.autograd.Function):
    """Rows x_b of group u to x_b^T M_u, where M is masked by the dropout on the way."""

    @staticmethod
    def forward(
        ctx: Any, matrices: Tensor, rows: Tensor, groups: RelationGroups, dropout: Dropout
    ) -> Tensor:
        ctx.groups, ctx.dropout = groups, dropout
        if dropout.rate > 0.0:
            matrices = apply_dropout(matrices.contiguous(), dropout)
        ctx.save_for_backward(matrices, rows)
        return groups.plain_products(matrices, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        matrices, rows = ctx.saved_tensors
        groups: RelationGroups = ctx.groups
        for_matrices = groups.outer_products(rows, gradient)
        if ctx.dropout.rate > 0.0:
            apply_dropout(for_matrices, ctx.dropout, for_matrices)
        for_rows = groups.plain_products(matrices.transpose(1, 2), gradient)
        return for_matrices, for_rows, None, None
