"""Effective sizes: how many non-zero free parameters (nnfp) a model really has (Eq. effective)."""

from dataclasses import asdict, dataclass
from typing import Literal

import torch

from reltucker.model.relational_tucker import RelationalTucker

View = Literal["fixed", "constrained"]

SPARSE = 0.5
"""A learned core with a larger share of its entries is not called sparse."""


@dataclass(frozen=True)
class Sizes:
    """nnfp of each part, and the figures that the paper derives from them."""

    nnfp_core: int
    nnfp_relations: int
    nnfp_entities: int
    relations: int
    core_density: float
    nnfp_normalisation: int = 0

    @property
    def effective_relation_size(self) -> float:
        """d_r* = (nnfp(G) + nnfp(R)) / K."""
        return (self.nnfp_core + self.nnfp_relations) / self.relations

    @property
    def effective_parameters(self) -> int:
        """nnfp(G) + nnfp(R) + nnfp(E), and the weights and biases of a batch normalisation."""
        factors = self.nnfp_core + self.nnfp_relations + self.nnfp_entities
        return factors + self.nnfp_normalisation

    def to_dict(self) -> dict[str, int | float]:
        """All figures, JSON-ready."""
        return {
            **asdict(self),
            "effective_relation_size": self.effective_relation_size,
            "effective_parameters": self.effective_parameters,
        }


@torch.no_grad()
def sizes_of(model: RelationalTucker, view: View = "fixed") -> Sizes:
    """Count the non-zero free parameters of a model in either view.

    In the constrained-core view R is the identity and has no free parameter. The slices of a
    bilinear model have as many free parameters as its relation embeddings, however often each
    stands in M_k, so its effective sizes are those of the fixed-core view. A learned core has free
    mixing matrices there.
    """
    core = model.core
    entities = int(model.peers.total(torch.count_nonzero(model.E)))
    relations = int(torch.count_nonzero(model.R))
    norm = 0 if model.norm is None else model.norm.free_parameters()
    if view == "fixed":
        parts = core.free_entries(), relations, entities
        return Sizes(*parts, model.relations, core.density(), norm)
    nonzero, free = core.mixing_entries(model.R)
    density = nonzero / (len(model.R) * core.entity_dim**2)
    return Sizes(free, 0, entities, model.relations, density, norm)
