"""Batch normalisation of queries, as in TuckER."""

import torch
from torch import Tensor, nn


class QueryNorm(nn.Module):
    """Normalises the given entity's row before, and the query after the product with M_k."""

    def __init__(self, entity_dim: int) -> None:
        super().__init__()
        self.before = nn.BatchNorm1d(entity_dim)
        self.after = nn.BatchNorm1d(entity_dim)

    def given(self, rows: Tensor) -> Tensor:
        """Rows of given entities (B, d_e)."""
        return _normalised(self.before, rows)

    def query(self, queries: Tensor) -> Tensor:
        """Queries (B, d_e)."""
        return _normalised(self.after, queries)

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


def _normalised(norm: nn.BatchNorm1d, rows: Tensor) -> Tensor:
    # A single row has no variance: it is normalised as in evaluation.
    if norm.training and len(rows) < 2:
        return torch.nn.functional.batch_norm(
            rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
    normalised: Tensor = norm(rows)
    return normalised


def _affine(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Scale and shift of a normalisation in evaluation."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return scale, norm.bias - scale * norm.running_mean
