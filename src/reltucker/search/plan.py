"""A plan: all that determines a search. It is stored with the study and given to every worker."""

import hashlib
from bisect import bisect_left
from functools import cache
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.study import StudyDirection
from pydantic import BaseModel, ConfigDict

from reltucker.choices import ObjectiveName, PrunerName, SamplerName
from reltucker.errors import GraphError, RecipeError, StudyError
from reltucker.graph import KnowledgeGraph
from reltucker.search.budget import Bounds, bounds_of, within_budget
from reltucker.search.parameter import (
    Distribution,
    StoredDistribution,
    extremes,
    nearest,
    suggest,
)
from reltucker.search.presets import filled
from reltucker.search.regions import REGION, SIZES, PlannedRegion, plan_regions
from reltucker.search.space import Adjustment, Space, adjusted, grid_of
from reltucker.training import Recipe, check

RANDOM_POINTS = 8
GUIDED_POINTS = 4
"""Of the paper's sampler, for each entity size."""

DEFAULT_TRIALS = 30
LARGEST_DEFAULT_GRID = 1_000


class Plan(BaseModel):
    """The base recipe, the space and how it is searched. A study goes on with its own plan only."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    graph: str
    """A digest of the graph's names and of its train and valid triples."""
    entities: int
    relations: int
    recipe: Recipe
    space: dict[str, StoredDistribution]
    """By dotted key; with regions that of the region alone."""
    regions: dict[str, PlannedRegion] = {}
    share: float | None = None
    """Seconds that a trial of a timed search begins with; sizes were chosen for it."""
    adjustments: list[Adjustment]
    sampler: SamplerName
    pruner: PrunerName
    objective: ObjectiveName
    max_parameters: int | None
    seed: int

    def directions(self) -> list[StudyDirection]:
        """High MRR; for the skyline few parameters, too."""
        small = [StudyDirection.MINIMIZE] if self.objective == "skyline" else []
        return [StudyDirection.MAXIMIZE, *small]

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Draw the settings of a trial by dotted key; those of a region by its name, too."""
        values = {key: suggest(trial, key, among) for key, among in self.space.items()}
        region = values.get(REGION)
        for key, among in self.regions[region].space.items() if region else ():
            values[key] = suggest(trial, f"{region}/{key}", among)
        return values

    def starts(self) -> list[dict[str, Any]]:
        """Where the search begins, as Optuna names it: one point in each region."""
        return [
            {REGION: name, **{f"{name}/{key}": value for key, value in region.start.items()}}
            for name, region in self.regions.items()
        ]

    def keys(self) -> list[str]:
        """The dotted keys of all that is searched."""
        inner = (key for region in self.regions.values() for key in region.space)
        return list(dict.fromkeys([*self.space, *inner]))

    def recipe_for(self, values: dict[str, Any]) -> tuple[Recipe | None, Bounds]:
        """The recipe of a trial and the sizes that its model may have.

        There is no recipe where no model of these settings keeps to the limit.
        """
        region = values.get(REGION)
        if region is not None:
            own = {key: value for key, value in values.items() if key != REGION}
            values = {**self.regions[region].settings, **own}
        recipe = adjusted(self.recipe, values, self.adjustments)
        bounds = bounds_of(recipe, self.entities, self.relations)
        if self.max_parameters is None:
            return recipe, bounds
        return within_budget(recipe, bounds, self.max_parameters), bounds

    def grid(self) -> list[dict[str, Any]]:
        """Every point of the grid whose model can keep to the limit."""
        points = grid_of(self.space)
        if self.max_parameters is None:
            return points
        keys = [key for key in SIZES if key in self.space]

        @cache
        def fits(sizes: tuple[int, ...]) -> bool:
            return self.recipe_for(dict(zip(keys, sizes, strict=True)))[0] is not None

        return [point for point in points if fits(tuple(point[key] for key in keys))]

    def largest(self) -> int:
        """The effective parameters of the largest model of the space: the worst that can be."""

        def largest(space: dict[str, Distribution], values: dict[str, Any]) -> int:
            sizes = {key: max(extremes(space[key])) for key in SIZES if key in space}
            return self.recipe_for({**values, **sizes})[1].most

        inner = [largest(r.space, {REGION: name, **r.start}) for name, r in self.regions.items()]
        return max(inner) if inner else largest(self.space, {})

    def check_same(self, earlier: "Plan", where: str) -> None:
        """Refuse to go on with another plan than the search was begun with."""
        names = type(self).model_fields
        different = [name for name in names if getattr(self, name) != getattr(earlier, name)]
        if different:
            raise StudyError(
                f"{where} was begun with another {' and '.join(different)}; go on with the same, "
                "or begin a new search with another --out (and --study)"
            )

    def trial_count(self, trials: int | None) -> int:
        """How many trials are run: what was asked for, but no more than there are grid points."""
        if self.sampler not in ("paper", "grid"):
            return DEFAULT_TRIALS if trials is None else trials
        grid = self.grid()
        if trials is None and self.sampler == "paper":
            groups = {point.get("model.entity_dim") for point in grid}
            trials = len(groups) * (RANDOM_POINTS + GUIDED_POINTS)
        if trials is None and len(grid) > LARGEST_DEFAULT_GRID:
            raise StudyError(
                f"the grid has {len(grid):,} points; say by --trials how many of them to try"
            )
        return len(grid) if trials is None else min(trials, len(grid))


def make_plan(
    recipe: Recipe,
    space: Space,
    graph: KnowledgeGraph,
    sampler: SamplerName,
    pruner: PrunerName = "none",
    objective: ObjectiveName = "mrr",
    *,
    max_parameters: int | None = None,
    seed: int = 0,
    share: float | None = None,
) -> Plan:
    """The plan of a search; what cannot be searched is refused before anything is written."""
    if not graph.is_seen(graph.valid).any():
        raise GraphError(
            f"{graph.name}: a search needs validation triples whose entities occur in train"
        )
    recipe = filled(recipe, graph)
    regions = {}
    if space.regions:
        regions = plan_regions(space.regions, recipe, graph, share, space.source)
        distributions: dict[str, Distribution] = {REGION: CategoricalDistribution(list(regions))}
    else:
        distributions = space.distributions(recipe, len(graph.relations))
    if not distributions:
        raise RecipeError("there is nothing to search: every setting of the space is given")
    if objective == "skyline" and sampler == "paper":
        raise RecipeError(
            "--sampler paper has one objective; use tpe, gp, random or grid with "
            "--objective skyline"
        )
    if objective == "skyline" and pruner != "none":
        raise RecipeError("--objective skyline cannot prune; leave --pruner out")
    plan = Plan(
        graph=digest(graph),
        entities=len(graph.entities),
        relations=len(graph.relations),
        recipe=recipe,
        space=distributions,
        regions=regions,
        share=share,
        adjustments=list(space.adjustments),
        sampler=sampler,
        pruner=pruner,
        objective=objective,
        max_parameters=max_parameters,
        seed=seed,
    )
    if sampler in ("paper", "grid"):
        grid_of(distributions)
    if regions:
        return _narrowed_regions(plan)
    first = {key: extremes(among)[0] for key, among in distributions.items()}
    check(adjusted(recipe, first, space.adjustments), graph)
    for key, among in distributions.items():
        for value in extremes(among):
            plan.recipe_for({**first, key: value})  # a model that cannot be built is refused
    return plan.model_copy(update={"space": _narrowed(plan, plan.space, {})})


def digest(graph: KnowledgeGraph) -> str:
    """Tells graphs apart by all that a trial sees of them: names, train and valid."""
    sha = hashlib.sha256()
    for vocabulary in (graph.entities, graph.relations):
        sha.update("\n".join(vocabulary.names.to_list()).encode("utf-8", "surrogatepass"))
    for split in (graph.train, graph.valid):
        sha.update(np.ascontiguousarray(split).tobytes())
    return sha.hexdigest()


def _narrowed_regions(plan: Plan) -> Plan:
    """The plan without the sizes and the regions that cannot keep to the limit."""
    kept: dict[str, PlannedRegion] = {}
    refusal = None
    for name, region in plan.regions.items():
        try:
            space = _narrowed(plan, region.space, {**region.start, REGION: name})
        except RecipeError as error:
            refusal = refusal or error
            continue
        start = {key: nearest(value, space[key]) for key, value in region.start.items()}
        kept[name] = region.model_copy(update={"space": space, "start": start})
    if refusal is not None and not kept:
        raise refusal
    space = {REGION: CategoricalDistribution(list(kept))}
    return plan.model_copy(update={"space": space, "regions": kept})


def _narrowed(
    plan: Plan, space: dict[str, Distribution], values: dict[str, Any]
) -> dict[str, Distribution]:
    """The space without the sizes that cannot keep to the limit, however small the other one is;
    `values` are those of its other settings."""
    if plan.max_parameters is None:
        return space
    space = dict(space)
    smallest = {key: min(extremes(space[key])) for key in SIZES if key in space}
    recipe, bounds = plan.recipe_for({**values, **smallest})
    if recipe is None:
        raise RecipeError(
            f"--max-parameters {plan.max_parameters:,}: the smallest model of the space has "
            f"{bounds.least:,}; give the space smaller sizes"
        )
    for key in smallest:
        sizes = space[key]

        def is_over(value: Any, key: str = key) -> bool:
            return plan.recipe_for({**values, **smallest, key: value})[0] is None

        if isinstance(sizes, CategoricalDistribution):
            kept = [value for value in sizes.choices if not is_over(value)]
            space[key] = CategoricalDistribution(kept)
        elif isinstance(sizes, IntDistribution):
            among = range(sizes.low, sizes.high + 1, sizes.step)
            high = among[bisect_left(among, True, key=is_over) - 1]
            space[key] = IntDistribution(sizes.low, high, sizes.log, sizes.step)
    return space
