"""Mixing matrices from a sparse core, and their gradients."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from reltucker.kernels.compiled import compiled, has_loops, run, share_of, spread


def sparse_mixing_forward(
    relations: Tensor, weights: Tensor, slices: Tensor, places: Tensor, size: int
) -> Tensor:
    """M[u, p] = sum of R[u, slices[n]] weights[n] over the entries n with places[n] = p.

    (U, d_r), (n,), (n,), (n,) to (U, size); entries stand in the order of their places.
    """
    if has_loops(relations):
        out = relations.new_zeros(len(relations), size)
        tensors = (relations, weights, slices, places, out)
        run(_forward, _forward_spread, *tensors)
        return out
    return relations.new_zeros(len(relations), size).index_add_(
        1, places, relations[:, slices] * weights
    )


def sparse_mixing_backward(
    relations: Tensor, weights: Tensor, slices: Tensor, places: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients for R and for the weights, given that of M (U, size)."""
    if has_loops(relations):
        for_relations = torch.zeros_like(relations)
        partial = weights.new_zeros(numba.get_num_threads(), len(weights))
        tensors = (relations, weights, slices, places, gradient, for_relations, partial)
        run(_backward, _backward_spread, *tensors)
        return for_relations, partial.sum(dim=0)
    at = gradient[:, places]
    for_relations = torch.zeros_like(relations).index_add_(1, slices, at * weights)
    return for_relations, (at * relations[:, slices]).sum(dim=0)


@compiled
def _forward(
    chunk: int, chunks: int, relations: Any, weights: Any, slices: Any, places: Any, out: Any
) -> None:
    begin, end = share_of(relations.shape[0], chunk, chunks)
    for u in range(begin, end):
        r, m = relations[u], out[u]
        for n in range(weights.size):
            m[places[n]] += r[slices[n]] * weights[n]


@spread
def _forward_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _forward(np.int64(chunk), chunks, *arguments)


@compiled
def _backward(
    chunk: int,
    chunks: int,
    relations: Any,
    weights: Any,
    slices: Any,
    places: Any,
    gradient: Any,
    for_relations: Any,
    partial: Any,
) -> None:
    own = partial[chunk]
    begin, end = share_of(relations.shape[0], chunk, chunks)
    for u in range(begin, end):
        r, g, d = relations[u], gradient[u], for_relations[u]
        for n in range(weights.size):
            h = g[places[n]]
            own[n] += r[slices[n]] * h
            d[slices[n]] += weights[n] * h


@spread
def _backward_spread(chunks: int, *arguments: Any) -> None:
    for chunk in numba.prange(chunks):
        _backward(np.int64(chunk), chunks, *arguments)
