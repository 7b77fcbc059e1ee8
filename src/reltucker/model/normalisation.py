"""Batch normalisation of queries, as in TuckER."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from reltucker.peers import ALONE, Peers


class QueryNorm(nn.Module):
    """Normalises the given entity's row before, and the query after the product with M_k."""

    def __init__(self, entity_dim: int, peers: Peers = ALONE) -> None:
        super().__init__()
        self.peers = peers
        self.before = nn.BatchNorm1d(entity_dim)
        self.after = nn.BatchNorm1d(entity_dim)

    @classmethod
    def identity(cls, entity_dim: int) -> "QueryNorm":
        """One that changes nothing in evaluation."""
        norm = cls(entity_dim)
        for each in (norm.before, norm.after):
            assert each.running_var is not None
            each.running_var.fill_(1.0 - each.eps)
        return norm

    @classmethod
    @torch.no_grad()
    def side_by_side(cls, norms: Sequence["QueryNorm"], weights: Sequence[float]) -> "QueryNorm":
        """The coordinates of all of them, for queries that are each multiplied with a weight: what
        comes out, b + s (q - m), is w times as large with w b and w m."""
        joined = cls(sum(norm.before.num_features for norm in norms))
        for name in ("before", "after"):
            for key in ("weight", "bias", "running_mean", "running_var"):
                scaled = name == "after" and key in ("bias", "running_mean")
                parts = [
                    getattr(getattr(norm, name), key) * (weight if scaled else 1.0)
                    for norm, weight in zip(norms, weights, strict=True)
                ]
                getattr(getattr(joined, name), key).data = torch.cat(parts)
        return joined

    def given(self, rows: Tensor) -> Tensor:
        """Rows of given entities (B, d_e)."""
        return self._normalised(self.before, rows)

    def query(self, queries: Tensor) -> Tensor:
        """Queries (B, d_e)."""
        return self._normalised(self.after, queries)

    def _normalised(self, norm: nn.BatchNorm1d, rows: Tensor) -> Tensor:
        count = len(rows)
        if norm.training and self.peers.size > 1:
            count = int(self.peers.total(torch.tensor(count, device=rows.device)))
        # A single row has no variance: it is normalised as in evaluation.
        if norm.training and count < 2:
            return torch.nn.functional.batch_norm(
                rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        if norm.training and self.peers.size > 1:
            return _together(norm, rows, count, self.peers)
        normalised: Tensor = norm(rows)
        return normalised

    def query_scale(self) -> Tensor:
        """What a query is multiplied with in evaluation (d_e,)."""
        return _affine(self.after)[0]

    def affine(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Evaluation as s_1 x + t_1 of a given row x and s_2 q + t_2 of a query q: (d_e,) each."""
        return *_affine(self.before), *_affine(self.after)

    def scaled(self, matrix: Tensor) -> Tensor:
        """M_k with the scales of both normalisations, as in evaluation."""
        return _affine(self.before)[0].unsqueeze(1) * matrix * _affine(self.after)[0]

    def free_parameters(self) -> int:
        """nnfp: the weights and biases that are not zero."""
        return sum(int(torch.count_nonzero(p)) for p in self.parameters())


def _together(norm: nn.BatchNorm1d, rows: Tensor, count: int, peers: Peers) -> Tensor:
    """The normalisation of `count` rows in training, of which this process has some."""
    apply: Callable[..., tuple[Tensor, Tensor, Tensor]] = _Standardised.apply
    standard, mean, variance = apply(rows, count, norm.eps, peers)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    with torch.no_grad():
        norm.num_batches_tracked += 1
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
    return standard * norm.weight + norm.bias


class _Standardised(torch.autograd.Function):
    """(x - mean) / deviation by the mean and variance over the rows of all processes."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, count: int, epsilon: float, peers: Peers
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = peers.total(rows.sum(dim=0)) / count
        centred = rows - mean
        variance = peers.total(centred.square().sum(dim=0)) / count
        inverse = torch.rsqrt(variance + epsilon)
        standard = centred * inverse
        ctx.save_for_backward(standard, inverse)
        ctx.count, ctx.peers = count, peers
        ctx.mark_non_differentiable(mean, variance)
        return standard, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        standard, inverse = ctx.saved_tensors
        sums = torch.stack([gradient.sum(dim=0), (gradient * standard).sum(dim=0)])
        means = ctx.peers.total(sums) / ctx.count
        return (gradient - means[0] - standard * means[1]) * inverse, None, None, None


def _affine(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Scale and shift of a normalisation in evaluation."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return scale, norm.bias - scale * norm.running_mean
