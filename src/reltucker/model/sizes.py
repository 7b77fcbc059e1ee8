"""Effective sizes: how many non-zero free parameters (nnfp) a model really has."""

from dataclasses import asdict, dataclass

import torch

from reltucker.model.relational_tucker import RelationalTucker


@dataclass(frozen=True)
class Sizes:
    """nnfp of each part, and the figures that the paper derives from them."""

    nnfp_core: int
    nnfp_relations: int
    nnfp_entities: int
    relations: int

    @property
    def effective_relation_size(self) -> float:
        """d_r* = (nnfp(G) + nnfp(R)) / K."""
        return (self.nnfp_core + self.nnfp_relations) / self.relations

    @property
    def effective_parameters(self) -> int:
        """nnfp(G) + nnfp(R) + nnfp(E)."""
        return self.nnfp_core + self.nnfp_relations + self.nnfp_entities

    def to_dict(self) -> dict[str, int | float]:
        """All figures, JSON-ready."""
        return {
            **asdict(self),
            "effective_relation_size": self.effective_relation_size,
            "effective_parameters": self.effective_parameters,
        }


def sizes_of(model: RelationalTucker) -> Sizes:
    """Count the non-zero free parameters of a model."""
    return Sizes(
        nnfp_core=model.core.free_entries(),
        nnfp_relations=int(torch.count_nonzero(model.R)),
        nnfp_entities=int(torch.count_nonzero(model.E)),
        relations=model.R.shape[0],
    )
