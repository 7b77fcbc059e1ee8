"""Rows of a batch grouped by relation, so that M_k is built once for each distinct relation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reltucker.kernels import (
    Dropout,
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


class _GroupedProducts(torch.autograd.Function):
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
            grouped_product(subjects, masked, groups),
            grouped_product(objects, masked.transpose(1, 2), groups),
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
        for_subjects = grouped_product(object_gradient, masked.transpose(1, 2), groups)
        for_objects = grouped_product(subject_gradient, masked, groups)
        # dM_u = sum_b x_b (dq_b)^T for the object queries + dq_b y_b^T for the subject queries,
        # as one product of the two kinds of rows side by side.
        left = torch.stack([subjects, subject_gradient], dim=1)
        right = torch.stack([object_gradient, objects], dim=1)
        for_mixing = torch.empty_like(mixing)
        row = group = 0
        width = left.shape[2]
        for size, count in groups.segments:
            rows = slice(row, row + size * count)
            torch.bmm(
                left[rows].view(count, 2 * size, width).transpose(1, 2),
                right[rows].view(count, 2 * size, width),
                out=for_mixing[group : group + count],
            )
            row, group = row + size * count, group + count
        return for_mixing.mul_(mask), for_subjects, for_objects, None, None


def grouped_queries(
    mixing: Tensor, subjects: Tensor, objects: Tensor, groups: RelationGroups, dropout: Dropout
) -> tuple[Tensor, Tensor]:
    """(U, d, d), (B, d), (B, d) to e_i^T M_k (B, d) and M_k e_j (B, d), with dropout on M."""
    apply: Callable[..., tuple[Tensor, Tensor]] = _GroupedProducts.apply
    return apply(mixing, subjects, objects, groups, dropout)


def grouped_product(rows: Tensor, matrices: Tensor, groups: RelationGroups) -> Tensor:
    """x_b^T A_u for every row b of group u: (B, d), (U, d, d) to (B, d); no gradient."""
    rows = rows.contiguous()
    out = torch.empty_like(rows)
    row = group = 0
    width = rows.shape[1]
    for size, count in groups.segments:
        part = slice(row, row + size * count)
        torch.bmm(
            rows[part].view(count, size, width),
            matrices[group : group + count],
            out=out[part].view(count, size, width),
        )
        row, group = row + size * count, group + count
    return out
