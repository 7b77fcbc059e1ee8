"""Several cores side by side: the sum of their models is again an RT decomposition."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout
from reltucker.model import cores as registry  # the names in it are there when one is looked up
from reltucker.model.arrangement import Arrangement
from reltucker.model.cores.core import Core, CoreOptions
from reltucker.model.dropout import NONE, dropped
from reltucker.model.initial import Draw


class Part(CoreOptions):
    """One of the cores, as a recipe of its own would name it."""

    name: str
    entity_dim: int = Field(ge=1)
    relation_dim: int = Field(ge=1)
    options: dict[str, Any] = Field({}, description="of this core")

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.name not in registry.CORES:
            raise ValueError(f"parts: there is no model {self.name!r}")
        try:
            registry.CORES[self.name].Options(**self.options)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"])) or "options"
            raise ValueError(f"parts: {key} of {self.name}: {first['msg']}") from None
        return self


class MergedOptions(CoreOptions):
    """Which cores stand side by side."""

    parts: list[Part] = Field([], description="tables of name, entity_dim, relation_dim, options")

    @model_validator(mode="after")
    def _has_parts(self) -> Self:
        if not self.parts:
            raise ValueError(
                "parts is missing: a merged model is made of trained runs by `reltucker merge`; "
                "choose another model.name to train one"
            )
        return self


class MergedCore(Core):
    """G is block-diagonal: with E = (E_1 | E_2 | ...) and R = (R_1 | R_2 | ...) the score is the
    sum of those of the parts. Every question goes to each part with its own columns, and so does
    everything else. The compact form is r_k, of which each part makes its M_k when it is asked."""

    name = "merged"
    title = "Merged"
    learns = "entries"  # some parts may; how many entries are free, the parts tell
    Options = MergedOptions

    def __init__(self, parts: Sequence[Core]) -> None:
        self.entity_dims = [part.entity_dim for part in parts]
        self.relation_dims = [part.relation_dim for part in parts]
        super().__init__(sum(self.entity_dims), sum(self.relation_dims))
        self.cores = tuple(parts)
        self.parts = nn.ModuleList(parts)

    @classmethod
    def build(
        cls, entity_dim: int, relation_dim: int | None, relations: int, **options: Any
    ) -> Self:
        """d_e and d_r are the sums over the parts."""
        parts = [
            registry.CORES[p.name].build(p.entity_dim, p.relation_dim, relations, **p.options)
            for p in MergedOptions(**options).parts
        ]
        core = cls(parts)
        if (entity_dim, relation_dim or core.relation_dim) != (core.entity_dim, core.relation_dim):
            raise RecipeError(
                f"model.entity_dim = {entity_dim}, model.relation_dim = {relation_dim}: those of "
                f"core.parts add up to {core.entity_dim} and {core.relation_dim}"
            )
        return core

    def side_by_side(self) -> list[Core]:
        """The parts, and those of parts that are merged themselves."""
        return [core for part in self.cores for core in part.side_by_side()]

    def _places(self) -> Iterator[tuple[Core, slice, slice]]:
        """Each part with its coordinates of entities and of relations."""
        i = l = 0
        for part in self.cores:
            yield part, slice(i, i + part.entity_dim), slice(l, l + part.relation_dim)
            i, l = i + part.entity_dim, l + part.relation_dim

    # -- the three questions --------------------------------------------------------------------

    def mixing(self, relations: Tensor, dropout: Dropout = NONE) -> Tensor:
        """r_k; a dropped entry is gone from all places of M_k."""
        return dropped(relations, dropout)

    def queries(self, mixing: Tensor, given: Tensor, arrangement: Arrangement) -> Tensor:
        """(e_i1^T M_k1 | e_i2^T M_k2 | ...), and likewise M_k e_j."""
        r, e = _columns(mixing, self.relation_dims), _columns(given, self.entity_dims)
        asked = zip(self.cores, r, e, strict=True)
        return torch.cat([p.queries(p.mixing(r), e, arrangement) for p, r, e in asked], dim=1)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """Those of the parts, side by side."""
        x, y = _columns(subjects, self.entity_dims), _columns(objects, self.entity_dims)
        asked = zip(self.cores, x, y, strict=True)
        return torch.cat([part.relation_queries(x, y) for part, x, y in asked], dim=1)

    # -- sizes ----------------------------------------------------------------------------------

    def tensor(self) -> Tensor:
        """G (d_e, d_e, d_r) with those of the parts along its diagonal."""
        like = next(self.parameters(), torch.empty(0))
        g = like.new_zeros(self.entity_dim, self.entity_dim, self.relation_dim)
        for part, i, l in self._places():
            g[i, i, l] = part.tensor()
        return g

    def mixing_matrices(self, relations: Tensor) -> Tensor:
        """M_k with those of the parts along its diagonal; G is not made."""
        matrices = relations.new_zeros(len(relations), self.entity_dim, self.entity_dim)
        for part, i, l in self._places():
            matrices[:, i, i] = part.mixing_matrices(relations[:, l])
        return matrices

    def mixing_entries(self, relations: Tensor) -> tuple[int, int]:
        """The sums over the parts."""
        return _sums(part.mixing_entries(relations[:, l]) for part, _, l in self._places())

    def nonzero_by_slice(self) -> Tensor:
        """Those of the parts one after the other."""
        return torch.cat([part.nonzero_by_slice().cpu() for part in self.cores])

    def free_entries(self) -> int:
        """The sum over the parts."""
        return sum(part.free_entries() for part in self.cores)

    def entry_range(self) -> tuple[int, int]:
        """The sums over the parts."""
        return _sums(part.entry_range() for part in self.cores)

    def explicit(self) -> dict[str, Tensor]:
        """The entries of all parts by their places in G."""
        found = []
        for part, i, l in self._places():
            entries = part.explicit()
            if "G" in entries:
                place = torch.nonzero(entries["G"], as_tuple=True)
                entries = {**dict(zip("ijl", place, strict=True)), "value": entries["G"][place]}
            first = {"i": i.start, "j": i.start, "l": l.start}
            found.append({k: v.cpu() + first.get(k, 0) for k, v in entries.items()})
        return {k: torch.cat([entries[k] for entries in found]) for k in ("i", "j", "l", "value")}

    def query_work(self) -> int:
        """The sum over the parts."""
        return sum(part.query_work() for part in self.cores)

    # -- training and storage -------------------------------------------------------------------

    def reset(self, draw: Draw) -> None:
        """Draw the entries of each part."""
        for part in self.cores:
            part.reset(draw)

    def begin_epoch(self, epoch: int, steps: int) -> Tensor | None:
        """Let each part prepare; one of them at the most may come to hold fewer entries."""
        found = [part.begin_epoch(epoch, steps) for part in self.cores]
        kept = [each for each in found if each is not None]
        if len(kept) > 1:
            raise RecipeError(
                "core.parts: two parts that retire entries cannot be trained as one model; "
                "train them apart and merge the runs"
            )
        return kept[0] if kept else None

    def begin_step(self, key: int) -> None:
        """Each part draws by a key of its own."""
        for number, part in enumerate(self.cores):
            part.begin_step(key ^ number)

    def penalty(self) -> tuple[Tensor, float] | None:
        """The weighted sum over the parts."""
        found = [each for part in self.cores if (each := part.penalty()) is not None]
        return (torch.stack([value * w for value, w in found]).sum(), 1.0) if found else None

    def undecayed(self) -> list[nn.Parameter]:
        """Those of all parts."""
        return [parameter for part in self.cores for parameter in part.undecayed()]

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Each part takes the shapes of its tensors."""
        for number, part in enumerate(self.cores):
            part.adopt(_below(f"parts.{number}.", state))

    def serving_state(self) -> dict[str, Tensor]:
        """Those of the parts, by their numbers."""
        states = [part.serving_state() for part in self.cores]
        return {
            f"{n}.{name}": value for n, state in enumerate(states) for name, value in state.items()
        }

    def load_serving_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `serving_state`."""
        for number, part in enumerate(self.cores):
            part.load_serving_state(_below(f"{number}.", state))

    def start_from(self, state: Mapping[str, Tensor]) -> None:
        """Each part from its own."""
        for number, part in enumerate(self.cores):
            part.start_from(_below(f"{number}.", state))

    def squares(self, vectors: Tensor) -> Tensor:
        """As the parts see their coordinates, where the size tells entities from relations."""
        is_entity = vectors.shape[1] == self.entity_dim
        dims = self.entity_dims if is_entity else self.relation_dims
        if self.entity_dim == self.relation_dim and self.entity_dims != self.relation_dims:
            return super().squares(vectors)
        parts = zip(self.cores, _columns(vectors, dims), strict=True)
        return torch.cat([part.squares(columns) for part, columns in parts], dim=1)


def joined(parts: Sequence[Core]) -> Core:
    """The cores side by side; one alone is itself."""
    return parts[0] if len(parts) == 1 else MergedCore(parts)


def _columns(rows: Tensor, dims: list[int]) -> list[Tensor]:
    return [part.contiguous() for part in torch.split(rows, dims, dim=1)]


def _below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _sums(pairs: Iterator[tuple[int, int]]) -> tuple[int, int]:
    first, second = zip(*pairs, strict=True)
    return sum(first), sum(second)
