"""SRT: a free core with a gate on every entry, so that training decides which entries exist."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from reltucker.errors import RecipeError
from reltucker.kernels import HardConcrete, gated_backward, gated_forward
from reltucker.kernels.sparse import sparse_mixing_backward, sparse_mixing_forward
from reltucker.model.cores.core import MatrixCore, default_relation_dim
from reltucker.model.initial import Draw


class GatedCore(MatrixCore):
    """g_ijl = v_ijl z_ijl with values v and hard-concrete gates z whose locations are learned.

    While training, gates are drawn anew for every step, and lambda sum P(z > 0) is added to the
    loss, lambda = l0_weight / steps of an epoch after `warm_up_epochs`, 0 before. In evaluation
    gates are deterministic, with exact zeros.

    Entries are held flat, l * d_e^2 + i * d_e + j. At first all are there (`entries` is empty).
    At the beginning of an epoch, entries with P(z > 0) < retire_below are off with near certainty;
    once fewer than `sparse_below` of all are left without them, they are retired for good, and
    from then on M_k is built from the remaining ones alone.
    """

    name = "srt"
    title = "SRT"
    learns = "pattern"
    options = frozenset(
        {
            "l0_weight",
            "warm_up_epochs",
            "temperature",
            "stretch_low",
            "stretch_high",
            "location_mean",
            "location_deviation",
            "retire_below",
            "sparse_below",
        }
    )

    entries: Tensor
    slices: Tensor
    places: Tensor

    def __init__(
        self,
        entity_dim: int,
        relation_dim: int,
        *,
        l0_weight: float = 0.1,
        warm_up_epochs: int = 25,
        temperature: float = 2 / 3,
        stretch_low: float = -0.1,
        stretch_high: float = 1.1,
        location_mean: float = 3.0,
        location_deviation: float = 1.0,
        retire_below: float = 0.05,
        sparse_below: float = 0.02,
    ) -> None:
        super().__init__(entity_dim, relation_dim)
        self.l0_weight = l0_weight
        self.warm_up_epochs = warm_up_epochs
        self.distribution = HardConcrete(temperature, stretch_low, stretch_high)
        self.location_mean = location_mean
        self.location_deviation = location_deviation
        self.retire_below = retire_below
        self.sparse_below = sparse_below
        self.values = nn.Parameter(torch.empty(self.size))
        self.locations = nn.Parameter(torch.empty(self.size))
        self._set_entries(torch.empty(0, dtype=torch.long))
        self._key = 0
        self._penalty: Tensor | None = None
        self._penalty_weight = 0.0
        self._final: Tensor | None = None

    @property
    def size(self) -> int:
        """How many entries the core has in all."""
        return self.relation_dim * self.entity_dim**2

    @property
    def is_sparse(self) -> bool:
        """Whether only some entries are held."""
        return len(self.entries) > 0

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """d_r is free; by default no more than there are relations, nor more than d_e."""
        return cls(entity_dim, default_relation_dim(entity_dim, relation_dim, relations), **options)

    def reset(self, draw: Draw) -> None:
        """Values as in DRT; locations with mean and deviation as set."""
        draw(self.values, (self.entity_dim * self.relation_dim) ** -0.5)
        draw(self.locations, self.location_deviation)
        with torch.no_grad():
            self.locations.add_(self.location_mean)

    # -- training -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Gates are drawn in training and deterministic in evaluation."""
        self._final = None
        return super().train(mode)

    def begin_epoch(self, epoch: int, steps: int) -> Tensor | None:
        """Set lambda, and retire entries; returns which of the entries held so far stay."""
        self._penalty_weight = self.l0_weight / steps if epoch > self.warm_up_epochs else 0.0
        if epoch <= self.warm_up_epochs:
            return None
        with torch.no_grad():
            active = self.distribution.active_probability(self.locations) >= self.retire_below
            kept = torch.nonzero(active).squeeze(1)
            if not len(kept):
                raise RecipeError(
                    f"core.l0_weight = {self.l0_weight}: every gate of the core has closed by "
                    f"epoch {epoch}; lower it"
                )
            if len(kept) == len(active) or len(kept) >= self.sparse_below * self.size:
                return None
            entries = self.entries[kept] if self.is_sparse else kept
            if not self.is_sparse:
                order = self._by_place(entries)
                kept, entries = kept[order], entries[order]
            self._hold(entries, self.values[kept], self.locations[kept])
        return kept

    def begin_step(self, key: int) -> None:
        """Draw other gates from now on."""
        self._key = key

    def penalty(self) -> tuple[Tensor, float] | None:
        """The expected L0 norm of the gates drawn last, differentiable, and its weight."""
        assert self._penalty is not None
        return self._penalty, self._penalty_weight

    def undecayed(self) -> list[nn.Parameter]:
        """Locations: weight decay would draw gates to one half open."""
        return [self.locations]

    def mixing(self, relations: Tensor) -> Tensor:
        """M_k = sum_l r_kl (V_l * Z_l): (U, d_r) to (U, d_e, d_e)."""
        weights = self._weights()
        if self.is_sparse:
            apply: Callable[..., Tensor] = _SparseProduct.apply
            square = self.entity_dim**2
            matrices = apply(relations, weights, self.slices, self.places, square)
        else:
            matrices = relations @ weights.view(self.relation_dim, -1)
        return matrices.view(len(relations), self.entity_dim, self.entity_dim)

    def _weights(self) -> Tensor:
        """v z of the entries held; drawn in training, deterministic and kept in evaluation."""
        if self.training:
            apply: Callable[..., tuple[Tensor, Tensor]] = _Gated.apply
            weights, self._penalty = apply(
                self.values, self.locations, self._key, self.distribution
            )
            return weights
        if self._final is None:
            with torch.no_grad():
                self._final = self.values * self.distribution.gates(self.locations)
        return self._final

    # -- entries ------------------------------------------------------------------------------

    def _hold(self, entries: Tensor, values: Tensor, locations: Tensor) -> None:
        """Hold these entries only."""
        self.values = nn.Parameter(values.detach().clone())
        self.locations = nn.Parameter(locations.detach().clone())
        self._set_entries(entries)
        self._final = None

    def _set_entries(self, entries: Tensor) -> None:
        square = self.entity_dim**2
        self.register_buffer("entries", entries)
        self.register_buffer("slices", entries // square, persistent=False)
        self.register_buffer("places", entries % square, persistent=False)

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Hold the entries of a checkpoint, before its values are copied."""
        entries = state["entries"].to(self.values.device)
        if len(entries):
            self._check_entries(entries)
            blank = self.values.new_empty(len(entries))
            self._hold(entries, blank, blank)

    def serving_state(self) -> dict[str, Tensor]:
        """The active entries and their weights, nothing else."""
        with torch.no_grad():
            weights = self.values * self.distribution.gates(self.locations)
            active = torch.nonzero(weights).squeeze(1)
            entries = self.entries[active] if self.is_sparse else active
            return {"entries": entries, "weights": weights[active]}

    def load_serving_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `serving_state`: gates that are open for good."""
        entries, weights = (state[name].to(self.values.device) for name in ("entries", "weights"))
        self._check_entries(entries)
        if weights.shape != entries.shape:
            raise ValueError("entries and weights of the core differ in number")
        order = self._by_place(entries)
        entries, weights = entries[order], weights[order].to(self.values.dtype)
        if len(entries) >= self.sparse_below * self.size or not len(entries):
            dense = weights.new_zeros(self.size)
            dense[entries] = weights
            entries, weights = entries[:0], dense
        self._hold(entries, weights, torch.full_like(weights, torch.inf))

    def _by_place(self, entries: Tensor) -> Tensor:
        """The order of their places in M_k, so that it is filled from front to back."""
        square = self.entity_dim**2
        return torch.argsort((entries % square) * self.relation_dim + entries // square)

    def _check_entries(self, entries: Tensor) -> None:
        if entries.dtype != torch.long or entries.dim() != 1:
            raise ValueError("the entries of the core are not a list of whole numbers")
        if len(entries) and (entries.min() < 0 or entries.max() >= self.size):
            raise ValueError("the core has entries outside of its sizes")
        if len(torch.unique(entries)) != len(entries):
            raise ValueError("the core has entries that stand twice")

    def nonzero_entries(self) -> int:
        """How many entries are active, with deterministic gates."""
        return len(self.serving_state()["weights"])

    def nonzero_by_slice(self) -> Tensor:
        """How many entries of each slice are active."""
        slices = self.serving_state()["entries"] // self.entity_dim**2
        return torch.bincount(slices, minlength=self.relation_dim)

    def explicit(self) -> dict[str, Tensor]:
        """The active entries by their places."""
        state = self.serving_state()
        square, d = self.entity_dim**2, self.entity_dim
        place = state["entries"] % square
        return {
            "i": place // d,
            "j": place % d,
            "l": state["entries"] // square,
            "value": state["weights"],
        }

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r) with deterministic gates."""
        state = self.serving_state()
        flat = self.values.new_zeros(self.size)
        flat[state["entries"]] = state["weights"]
        d = self.entity_dim
        return flat.view(self.relation_dim, d, d).permute(1, 2, 0).contiguous()

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """t_l = sum over the entries held of g_ijl e_i e_j."""
        weights, d = self._weights(), self.entity_dim
        if not self.is_sparse:
            outer = (subjects.unsqueeze(2) * objects.unsqueeze(1)).flatten(1)
            return outer @ weights.view(self.relation_dim, -1).t()
        rows, columns = self.places // d, self.places % d
        products = subjects.index_select(1, rows) * objects.index_select(1, columns) * weights
        out = subjects.new_zeros(len(subjects), self.relation_dim)
        return out.index_add(1, self.slices, products)


class _Gated(torch.autograd.Function):
    """Values and locations to gated values and their expected L0 norm."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, locations: Tensor, key: int, distribution: HardConcrete
    ) -> tuple[Tensor, Tensor]:
        weights, expected, decay = gated_forward(values, locations, key, distribution)
        ctx.key, ctx.distribution = key, distribution
        ctx.save_for_backward(values, locations, decay)
        return weights, expected

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, penalty: Tensor) -> tuple[Tensor | None, ...]:
        values, locations, decay = ctx.saved_tensors
        for_values, for_locations = gated_backward(
            values,
            locations,
            decay,
            ctx.key,
            ctx.distribution,
            gradient.contiguous(),
            float(penalty),
        )
        return for_values, for_locations, None, None


class _SparseProduct(torch.autograd.Function):
    """R and the entries of a sparse core to M (U, d_e^2)."""

    @staticmethod
    def forward(
        ctx: Any, relations: Tensor, weights: Tensor, slices: Tensor, places: Tensor, size: int
    ) -> Tensor:
        ctx.save_for_backward(relations, weights, slices, places)
        return sparse_mixing_forward(relations, weights, slices, places, size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        relations, weights, slices, places = ctx.saved_tensors
        for_relations, for_weights = sparse_mixing_backward(
            relations, weights, slices, places, gradient.contiguous()
        )
        return for_relations, for_weights, None, None, None
