"""Regions: parts of a space with settings of their own, and how large models in them may be.

A space with regions is searched by first choosing the region, then the settings that it leaves
open. So a setting is only ever drawn where it has an effect.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from optuna.distributions import CategoricalDistribution, IntDistribution
from pydantic import BaseModel, ConfigDict, Field, model_validator

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES
from reltucker.search.graph_sizes import GraphSizes
from reltucker.search.parameter import (
    Distribution,
    Parameter,
    Scalar,
    StoredDistribution,
    distributions_of,
    extremes,
    nearest,
)
from reltucker.training import Recipe, check

REGION = "region"
"""What Optuna calls the choice of a region."""

SIZES = ("model.entity_dim", "model.relation_dim")

FIRST_EPOCHS = 2
"""So many epochs of the largest models of a region fit into the first share of a trial."""

UNTIMED_SECONDS = 600.0
"""What a trial may take for its first epochs where the search has no limit of time."""

STEPS, FEWEST_STEPS = 50, 4
"""Of an epoch, with which a search begins; and at the least."""

Section = Literal["model", "core", "train"]


class RegionTable(BaseModel):
    """A table [[region]] of a space file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    least_entities: int = 0
    settings: dict[Section, dict[str, Scalar]] = {}
    space: dict[Section, dict[str, Parameter]]

    @model_validator(mode="after")
    def _has_starts(self) -> "RegionTable":
        for key, parameter in flat(self.space).items():
            if parameter.start is None:
                raise ValueError(f"{self.name}: {key} needs a start")
        return self


class PlannedRegion(BaseModel):
    """A region for one graph: what is set in it, what is searched, and from where on."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    settings: dict[str, Scalar]
    space: dict[str, StoredDistribution]
    start: dict[str, Scalar]


@dataclass(frozen=True)
class Region:
    """Settings by dotted key, set or searched; for graphs with enough entities."""

    name: str
    settings: Mapping[str, Scalar]
    parameters: Mapping[str, Parameter]
    least_entities: int = 0

    @classmethod
    def of(cls, table: RegionTable, common: Mapping[Section, Mapping[str, Scalar]]) -> "Region":
        """From the table of a file, with what holds for all regions."""
        parameters = flat(table.space)
        settings = {**flat(common), **flat(table.settings)}
        fixed = {key: value for key, value in settings.items() if key not in parameters}
        return cls(table.name, fixed, parameters, table.least_entities)

    def without(self, keys: set[str]) -> "Region":
        """The region with some settings left to the recipe."""
        return replace(
            self,
            settings={k: v for k, v in self.settings.items() if k not in keys},
            parameters={k: v for k, v in self.parameters.items() if k not in keys},
        )


def flat(sections: Mapping[Section, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of sections by dotted key."""
    return {f"{section}.{key}": v for section, keys in sections.items() for key, v in keys.items()}


def regions_of_model(regions: Sequence[Region], model: str) -> list[Region]:
    """The regions of a model; of one that has none, those of models that learn as much of their
    core and need no options for it."""
    own = [region for region in regions if region.settings.get("model.name") == model]
    if own:
        return own
    learns = CORES[model].learns

    def is_like(region: Region) -> bool:
        name = str(region.settings.get("model.name", model))
        has_options = any(k.startswith("core.") for k in (*region.settings, *region.parameters))
        return CORES[name].learns == learns and not has_options

    return [region for region in regions if is_like(region)]


def plan_regions(
    regions: Sequence[Region],
    recipe: Recipe,
    graph: KnowledgeGraph,
    seconds: float | None,
    source: str,
) -> dict[str, PlannedRegion]:
    """The regions that make sense for a graph, where a trial begins with so many seconds.

    `recipe` has what the user has set. A region that this does not go with is left out, and so is
    one whose smallest models are too slow, unless all are.
    """
    seconds = UNTIMED_SECONDS if seconds is None else seconds
    sizes = GraphSizes.of(graph)
    found: dict[str, PlannedRegion] = {}
    costs: dict[str, float] = {}
    refusals: list[RecipeError] = []
    for region in regions:
        if len(graph.entities) < region.least_entities:
            continue
        try:
            planned = _planned(region, recipe, graph, sizes, seconds, source)
        except RecipeError as error:
            refusals.append(error)
            continue
        smallest = {key: extremes(among)[0] for key, among in planned.space.items() if key in SIZES}
        own = recipe.with_values({**planned.settings, **planned.start, **smallest})
        found[region.name], costs[region.name] = planned, sizes.epoch_seconds(own)
    if not found:
        raise refusals[0] if refusals else RecipeError(f"{source}: no region is for such a graph")
    quick = {name: region for name, region in found.items() if costs[name] <= seconds}
    fastest = min(costs, key=lambda name: costs[name])
    return quick or {fastest: found[fastest]}


def _planned(
    region: Region,
    recipe: Recipe,
    graph: KnowledgeGraph,
    sizes: GraphSizes,
    seconds: float,
    source: str,
) -> PlannedRegion:
    """The region on a graph; RecipeError where a value of it cannot be trained."""
    space = distributions_of(region.parameters, len(graph.relations), f"{source}: {region.name}")
    start: dict[str, Scalar] = {
        key: nearest(region.parameters[key].start, among) for key, among in space.items()
    }

    def own(changes: Mapping[str, Any]) -> Recipe:
        return recipe.with_values({**region.settings, **start, **changes}, source)

    _fit_batches(space, start, sizes.items(own({}).train.objective_class))
    for key in SIZES:
        among = space.get(key)
        if not isinstance(among, IntDistribution):
            continue

        def is_slow(size: int, key: str = key) -> bool:
            return FIRST_EPOCHS * sizes.epoch_seconds(own({key: size})) > seconds

        values = range(among.low, among.high + 1, among.step)
        high = values[max(0, bisect_left(values, True, key=is_slow) - 1)]
        space[key] = IntDistribution(among.low, high, among.log, among.step)
        start[key] = nearest(start[key], space[key])
    for key, values_of in space.items():
        for value in (start[key], *extremes(values_of)):
            check(own({key: value}), graph)
    return PlannedRegion(settings=dict(region.settings), space=space, start=start)


def _fit_batches(space: dict[str, Distribution], start: dict[str, Scalar], items: int) -> None:
    """Let a small graph have steps enough: without the largest batches, beginning with small."""
    key = "train.batch_size"
    sizes = space.get(key)
    if isinstance(sizes, CategoricalDistribution):
        choices: list[Any] = sorted(sizes.choices, key=int)
        fitting = [size for size in choices if size * FEWEST_STEPS <= items] or choices[:1]
        small = [size for size in fitting if size * STEPS <= items] or fitting[:1]
        space[key] = CategoricalDistribution(fitting)
        start[key] = min(int(start[key]), small[-1])
