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
        return _scale(self.after)

    def scaled(self, matrix: Tensor) -> Tensor:
        """M_k with the scales of both normalisations, as in evaluation."""
        return _scale(self.before).unsqueeze(1) * matrix * _scale(self.after)


def _normalised(norm: nn.BatchNorm1d, rows: Tensor) -> Tensor:
    # A single row has no variance: it is normalised as in evaluation.
    if norm.training and len(rows) < 2:
        return torch.nn.functional.batch_norm(
            rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
    normalised: Tensor = norm(rows)
    return normalised


def _scale(norm: nn.BatchNorm1d) -> Tensor:
    assert norm.running_var is not None
    return norm.weight * torch.rsqrt(norm.running_var + norm.eps)
