"""SRT: a free core with a gate on every entry (Sec. autosparse, Eq. sparse)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout, sparse_mixing_backward, sparse_mixing_forward
from reltucker.model.cores.core import CoreOptions
from reltucker.model.cores.entries import HeldEntries
from reltucker.model.cores.matrices import MatrixCore, default_relation_dim, mixed
from reltucker.model.dropout import NONE, dropped
from reltucker.model.hard_concrete import HardConcrete
from reltucker.model.initial import Draw


class GateOptions(CoreOptions):
    """What SRT can be told; the defaults are the paper's."""

    l0_weight: float = Field(
        0.1,
        ge=0,
        description="lambda of the L0 penalty",
        json_schema_extra={"equation": "lambda / S sum_ijl P(z_ijl > 0), S batches in an epoch"},
    )
    warm_up_epochs: int = Field(
        25,
        ge=0,
        description="epochs without the penalty",
        json_schema_extra={"equation": "lambda = 0"},
    )
    temperature: float = Field(
        2 / 3,
        gt=0,
        description="of the gates",
        json_schema_extra={"equation": "beta: s = sigmoid((log u - log(1 - u) + a) / beta)"},
    )
    stretch_low: float = Field(
        -0.1,
        lt=0,
        description="lower end of a gate",
        json_schema_extra={"equation": "gamma: z = min(1, max(0, s (zeta - gamma) + gamma))"},
    )
    stretch_high: float = Field(
        1.1,
        gt=1,
        description="upper end of a gate",
        json_schema_extra={"equation": "zeta, as above"},
    )
    location_mean: float = Field(
        3.0,
        description="of the initial locations",
        json_schema_extra={"equation": "a ~ N(mean, deviation^2)"},
    )
    location_deviation: float = Field(
        1.0,
        ge=0,
        description="of the initial locations",
        json_schema_extra={"equation": "as above"},
    )
    retire_below: float = Field(
        0.05,
        ge=0.0,
        lt=1.0,
        description="P(gate > 0) below which an entry may be retired",
        json_schema_extra={"equation": "P(z > 0) = sigmoid(a - beta log(-gamma / zeta))"},
    )
    sparse_below: float = Field(
        0.02, ge=0.0, le=1.0, description="share of entries below which the core is held sparse"
    )


class GatedCore(MatrixCore):
    """g_ijl = v_ijl z_ijl with values v and hard-concrete gates z whose locations are learned.

    While training, gates are drawn anew for every step, and lambda sum P(z > 0) is added to the
    loss, lambda = l0_weight / steps of an epoch after `warm_up_epochs`, 0 before. In evaluation
    gates are deterministic, with exact zeros.

    At the beginning of an epoch, entries with P(z > 0) < retire_below are off with near certainty;
    once fewer than `sparse_below` of all are left without them, they are retired for good, and
    from then on M_k is built from the remaining ones alone.
    """

    name = "srt"
    title = "SRT"
    learns = "pattern"
    Options = GateOptions

    def __init__(self, entity_dim: int, relation_dim: int, options: GateOptions) -> None:
        super().__init__(entity_dim, relation_dim)
        self.options = options
        self.distribution = HardConcrete(
            options.temperature, options.stretch_low, options.stretch_high
        )
        self.held = HeldEntries(entity_dim, relation_dim)
        self.values = nn.Parameter(torch.empty(self.held.size))
        self.locations = nn.Parameter(torch.empty(self.held.size))
        self._key = 0
        self._penalty: Tensor | None = None
        self._penalty_weight = 0.0
        self._final: tuple[Any, Tensor] | None = None

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """d_r is free; by default no more than there are relations, nor more than d_e."""
        relation_dim = default_relation_dim(entity_dim, relation_dim, relations)
        return cls(entity_dim, relation_dim, GateOptions(**options))

    def reset(self, draw: Draw) -> None:
        """Values as in DRT; locations with mean and deviation as set."""
        draw(self.values, (self.entity_dim * self.relation_dim) ** -0.5)
        draw(self.locations, self.options.location_deviation)
        with torch.no_grad():
            self.locations.add_(self.options.location_mean)

    # -- the three questions --------------------------------------------------------------------

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """M_k = sum_l r_kl (V_l * Z_l): (U, d_r) to (U, d_e, d_e)."""
        weights, held = self._weights(), self.held
        if held.is_sparse:
            apply: Callable[..., Tensor] = _SparseProduct.apply
            square = self.entity_dim**2
            matrices = apply(relations, weights, held.slices, held.places, square)
            matrices = dropped(matrices, dropout)
        else:
            matrices = mixed(relations, weights.view(self.relation_dim, -1), dropout)
        return matrices.view(len(relations), self.entity_dim, self.entity_dim)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """t_l = sum over the entries held of g_ijl e_i e_j."""
        weights, d = self._weights(), self.entity_dim
        if not self.held.is_sparse:
            outer = (subjects.unsqueeze(2) * objects.unsqueeze(1)).flatten(1)
            return outer @ weights.view(self.relation_dim, -1).t()
        rows, columns = self.held.places // d, self.held.places % d
        products = subjects.index_select(1, rows) * objects.index_select(1, columns) * weights
        out = subjects.new_zeros(len(subjects), self.relation_dim)
        return out.index_add(1, self.held.slices, products)

    def _weights(self) -> Tensor:
        """v z of the entries held; drawn in training, deterministic in evaluation, where they are
        kept until they change, unless someone wants their gradient."""
        if self.training:
            weights, self._penalty = self.distribution.gated(self.values, self.locations, self._key)
            return weights
        if torch.is_grad_enabled() and (self.values.requires_grad or self.locations.requires_grad):
            return self.values * self.distribution.gates(self.locations)
        state = [(p.dtype, p.device, p.data_ptr(), p._version) for p in self.parameters()]
        if self._final is None or self._final[0] != state:
            with torch.no_grad():
                weights = self.values * self.distribution.gates(self.locations)
            self._final = state, weights
        return self._final[1]

    # -- training -------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Gates are drawn in training and deterministic in evaluation."""
        self._final = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which take no part in what autograd has recorded."""
        return {**self.__dict__, "_penalty": None, "_final": None}

    def begin_epoch(self, epoch: int, steps: int) -> Tensor | None:
        """Set lambda, and retire entries; returns which of the entries held so far stay."""
        options = self.options
        self._penalty_weight = options.l0_weight / steps if epoch > options.warm_up_epochs else 0.0
        if epoch <= options.warm_up_epochs:
            return None
        with torch.no_grad():
            active = self.distribution.active_probability(self.locations) >= options.retire_below
            if not active.any():
                raise RecipeError(
                    f"core.l0_weight = {options.l0_weight}: every gate of the core has closed by "
                    f"epoch {epoch}; lower it"
                )
            kept = self.held.survivors(active, options.sparse_below)
            if kept is not None:
                self._hold(self.held.of(kept), self.values[kept], self.locations[kept])
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

    # -- storage and sizes ----------------------------------------------------------------------

    def _hold(self, numbers: Tensor, values: Tensor, locations: Tensor) -> None:
        """Hold these entries only."""
        self.values = nn.Parameter(values.detach().clone())
        self.locations = nn.Parameter(locations.detach().clone())
        self.held.set(numbers)
        self._final = None

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Hold the entries of a checkpoint, before its values are copied."""
        numbers = state["held.numbers"].to(self.values.device)
        self.held.check(numbers)
        blank = self.values.new_empty(len(numbers) or self.held.size)
        self._hold(numbers, blank, blank)

    def serving_state(self) -> dict[str, Tensor]:
        """The active entries and their weights, nothing else."""
        with torch.no_grad():
            weights = self.values * self.distribution.gates(self.locations)
            active = torch.nonzero(weights).squeeze(1)
            return {"entries": self.held.of(active), "weights": weights[active]}

    def load_serving_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `serving_state`: gates that are open for good."""
        entries, weights = (state[name].to(self.values.device) for name in ("entries", "weights"))
        held = self.held
        held.check(entries)
        if weights.shape != entries.shape:
            raise ValueError("entries and weights of the core differ in number")
        order = held.by_place(entries)
        entries, weights = entries[order], weights[order].to(self.values.dtype)
        if len(entries) >= self.options.sparse_below * held.size or not len(entries):
            dense = weights.new_zeros(held.size)
            dense[entries] = weights
            entries, weights = entries[:0], dense
        self._hold(entries, weights, torch.full_like(weights, torch.inf))

    @torch.no_grad()
    def start_from(self, state: Mapping[str, Tensor]) -> None:
        """The same weights behind gates that can be learned: those of active entries at the mean
        of initial locations, others closed as far. Entries that were retired stay so."""
        self.load_serving_state(state)
        weights, mean = self.values, self.options.location_mean
        locations = torch.where(weights != 0, mean, -mean)
        # However far gates are open there, the products are the weights.
        gates = self.distribution.gates(locations)
        self.values.copy_(torch.where(weights != 0, weights / gates.clamp_min(1e-3), 0.0))
        self.locations.copy_(locations)

    def nonzero_entries(self) -> int:
        """How many entries are active, with deterministic gates."""
        return len(self.serving_state()["weights"])

    def nonzero_by_slice(self) -> Tensor:
        """How many entries of each slice are active."""
        slices = self.serving_state()["entries"] // self.entity_dim**2
        return torch.bincount(slices, minlength=self.relation_dim)

    def explicit(self) -> dict[str, Tensor]:
        """The active entries by their places."""
        state, d = self.serving_state(), self.entity_dim
        l, place = state["entries"] // d**2, state["entries"] % d**2
        return {"i": place // d, "j": place % d, "l": l, "value": state["weights"]}

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r) with deterministic gates."""
        state, d = self.serving_state(), self.entity_dim
        flat = self.values.new_zeros(self.held.size)
        flat[state["entries"]] = state["weights"]
        return flat.view(self.relation_dim, d, d).permute(1, 2, 0).contiguous()


class _SparseProduct(torch.autograd.Function):
    """R and the entries of a sparse core to M (U, d_e^2)."""

    @staticmethod
    def forward(
        ctx: Any, relations: Tensor, weights: Tensor, slices: Tensor, places: Tensor, size: int
    ) -> Tensor:
        ctx.save_for_backward(relations, weights, slices, places)
        return sparse_mixing_forward(relations, weights, slices, places, size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        relations, weights, slices, places = ctx.saved_tensors
        for_relations, for_weights = sparse_mixing_backward(
            relations, weights, slices, places, gradient.contiguous()
        )
        return for_relations, for_weights, None, None, None
