"""What a core is: the one thing in which the models of this family differ."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from reltucker.kernels import Dropout
from reltucker.model.arrangement import Arrangement
from reltucker.model.dropout import NONE
from reltucker.model.initial import Draw


class CoreOptions(BaseModel):
    """A recipe's section [core]: what the chosen core can be told. Most take nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Core(nn.Module, ABC):
    """A core tensor G of shape (d_e, d_e, d_r), fixed or learned (Eq. relationaltucker).

    It answers one question for each mode of the tensor; what follows is a product with E or R:
    (subject, relation) to a query over objects, (relation, object) to a query over subjects, and
    (subject, object) to a query over relations. `mixing` is the core's own compact form of the
    mixing matrices M_k = G x_3 r_k, built once for each distinct relation of a batch.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The model's name as the paper writes it."""
    learns: ClassVar[Literal["nothing", "entries", "pattern"]]
    """Of the core: nothing where it is fixed, so that d_r follows from d_e and all free parameters
    of a relation are in r_k; its entries; or also which of its entries exist."""
    has_matrices: ClassVar[bool] = False
    """Whether the compact form holds M_k as matrices, or as the blocks on its diagonal."""
    Options: ClassVar[type[CoreOptions]] = CoreOptions

    def __init__(self, entity_dim: int, relation_dim: int) -> None:
        super().__init__()
        self.entity_dim = entity_dim
        self.relation_dim = relation_dim

    @classmethod
    @abstractmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """The core for a recipe's sizes and options and a graph with so many relations."""

    def extra_repr(self) -> str:
        """The sizes, as torch shows modules."""
        return f"entity_dim={self.entity_dim}, relation_dim={self.relation_dim}"

    # -- the three questions --------------------------------------------------------------------

    @abstractmethod
    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """Relation embeddings (U, d_r) to the compact form of their M_k (U, ...), with dropout."""

    @abstractmethod
    def queries(self, mixing: Tensor, given: Tensor, arrangement: Arrangement) -> Tensor:
        """Compact M_k (U, ...) and the rows of given entities (Q, d_e), in the order of the
        arrangement, to e_i^T M_k over objects and M_k e_j over subjects (Q, d_e)."""

    @abstractmethod
    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """G x_1 e_i x_2 e_j over relations: (B, d_e), (B, d_e) to (B, d_r)."""

    # -- sizes ----------------------------------------------------------------------------------

    @abstractmethod
    def tensor(self) -> Tensor:
        """The explicit core G (d_e, d_e, d_r), entry by entry as in the paper."""

    @abstractmethod
    def nonzero_by_slice(self) -> Tensor:
        """How many entries of each slice G_l are not zero, be they fixed or learned: (d_r,)."""

    def nonzero_entries(self) -> int:
        """How many entries of G are not zero."""
        return int(self.nonzero_by_slice().sum())

    def free_entries(self) -> int:
        """nnfp(G): how many entries of the core are free parameters and not zero."""
        return 0 if self.learns == "nothing" else self.nonzero_entries()

    def entry_range(self) -> tuple[int, int]:
        """The least and the most free entries that the core may end with."""
        most = 0 if self.learns == "nothing" else self.entity_dim**2 * self.relation_dim
        return (0 if self.learns == "pattern" else most), most

    def density(self) -> float:
        """The share of entries of G that are not zero."""
        return self.nonzero_entries() / (self.entity_dim**2 * self.relation_dim)

    def mixing_matrices(self, relations: Tensor) -> Tensor:
        """Explicit M_k = sum_l r_kl G_l: (U, d_r) to (U, d_e, d_e)."""
        return torch.einsum("ijl,ul->uij", self.tensor().to(relations), relations)

    def mixing_entries(self, relations: Tensor) -> tuple[int, int]:
        """Over the M_k of relations (U, d_r): how many entries are not zero, and how many free
        parameters they have. In a fixed core these are the entries of r_k, however often each
        stands in M_k."""
        # Relation by relation: all mixing matrices at once may not fit into memory.
        nonzero = sum(int(torch.count_nonzero(self.mixing_matrices(r[None]))) for r in relations)
        free = int(torch.count_nonzero(relations)) if self.learns == "nothing" else nonzero
        return nonzero, free

    def side_by_side(self) -> "list[Core]":
        """The cores that stand along the diagonal of this one; itself where there are none."""
        return [self]

    def explicit(self) -> dict[str, Tensor]:
        """G for other tools: as `G` (d_e, d_e, d_r), or where it is sparse as the entries
        `i`, `j`, `l` (0-based) and `value`."""
        return {"G": self.tensor()}

    def query_work(self) -> int:
        """How the work from a given entity's row to its query grows, M_k being there: as d_e where
        M_k has a few entries in a row."""
        return self.entity_dim

    # -- hooks of training and storage; most cores need none of them ----------------------------

    def reset(self, draw: Draw) -> None:
        """Draw the learned entries anew; a fixed core has none."""

    def begin_epoch(self, epoch: int, steps: int) -> Tensor | None:
        """Prepare for an epoch (1, 2, ...) of so many steps. A core that now holds fewer entries
        returns which of those held before stay, for its parameters of that length."""
        return None

    def begin_step(self, key: int) -> None:
        """Prepare for a step; what is random in the core is a function of `key`."""

    def penalty(self) -> tuple[Tensor, float] | None:
        """A differentiable scalar that is added to the loss, and its weight."""
        return None

    def undecayed(self) -> list[nn.Parameter]:
        """Parameters that weight decay must leave alone."""
        return []

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Take the shapes of a checkpoint's tensors, before they are copied."""

    def serving_state(self) -> dict[str, Tensor]:
        """What is needed to use the core after training."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def load_serving_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `serving_state`; raises RuntimeError or ValueError where it cannot be."""
        self.load_state_dict(dict(state))

    def start_from(self, state: Mapping[str, Tensor]) -> None:
        """Begin training with what another core of this kind and size has learned, given by its
        `serving_state`."""
        self.load_serving_state(state)

    def squares(self, vectors: Tensor) -> Tensor:
        """Squared magnitudes of the coordinates of entities or relations, (B, d) to (B, m); a core
        whose coordinates belong together in pairs gives one for each pair."""
        return vectors.square()
