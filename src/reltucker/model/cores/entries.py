"""Which entries of a sparse core are held, as flat numbers l d_e^2 + i d_e + j."""

import torch
from torch import Tensor, nn


class HeldEntries(nn.Module):
    """All entries of G at first (`numbers` is empty); later some of them, by their places in M_k,
    so that it is filled from front to back."""

    numbers: Tensor
    slices: Tensor
    places: Tensor

    def __init__(self, entity_dim: int, relation_dim: int) -> None:
        super().__init__()
        self.entity_dim = entity_dim
        self.relation_dim = relation_dim
        self.set(torch.empty(0, dtype=torch.long))

    @property
    def size(self) -> int:
        """How many entries the core has in all."""
        return self.relation_dim * self.entity_dim**2

    @property
    def is_sparse(self) -> bool:
        """Whether only some entries are held."""
        return len(self.numbers) > 0

    def set(self, numbers: Tensor) -> None:
        """Hold these from now on; all of them, where none are given."""
        square = self.entity_dim**2
        self.register_buffer("numbers", numbers)
        self.register_buffer("slices", numbers // square, persistent=False)
        self.register_buffer("places", numbers % square, persistent=False)

    def of(self, kept: Tensor) -> Tensor:
        """The numbers of the entries that stand at these positions among those held."""
        return self.numbers[kept] if self.is_sparse else kept

    def survivors(self, active: Tensor, share: float) -> Tensor | None:
        """Where the active (n,) among the entries held are fewer than this share of all: their
        positions, in the order in which they are held from now on."""
        kept = torch.nonzero(active).squeeze(1)
        if len(kept) == len(active) or len(kept) >= share * self.size:
            return None
        return kept if self.is_sparse else kept[self.by_place(kept)]

    def by_place(self, numbers: Tensor) -> Tensor:
        """The order of their places in M_k."""
        square = self.entity_dim**2
        return torch.argsort((numbers % square) * self.relation_dim + numbers // square)

    def check(self, numbers: Tensor) -> None:
        """Refuse what cannot be entries of this core, with a ValueError."""
        if numbers.dtype != torch.long or numbers.dim() != 1:
            raise ValueError("the entries of the core are not a list of whole numbers")
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.size):
            raise ValueError("the core has entries outside of its sizes")
        if len(torch.unique(numbers)) != len(numbers):
            raise ValueError("the core has entries that stand twice")
