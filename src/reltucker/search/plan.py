"""A plan: all that determines a search. It is stored with the study and given to every worker."""

import hashlib
from bisect import bisect_left
from functools import cache
from typing import Annotated, Any

import numpy as np
from optuna.distributions import (
    CategoricalDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from optuna.study import StudyDirection
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from reltucker.choices import ObjectiveName, PrunerName, SamplerName
from reltucker.errors import GraphError, RecipeError, StudyError
from reltucker.graph import KnowledgeGraph
from reltucker.search.budget import Bounds, bounds_of, within_budget
from reltucker.search.presets import filled
from reltucker.search.space import Adjustment, Distribution, Space, adjusted, extremes, grid_of
from reltucker.training import Recipe, check

SIZES = ("model.entity_dim", "model.relation_dim")

RANDOM_POINTS = 8
GUIDED_POINTS = 4
"""Of the paper's sampler, for each entity size."""

DEFAULT_TRIALS = 30
LARGEST_DEFAULT_GRID = 1_000


def _distribution(value: Any) -> Any:
    return json_to_distribution(value) if isinstance(value, str) else value


class Plan(BaseModel):
    """The base recipe, the space and how it is searched. A study goes on with its own plan only."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    graph: str
    """A digest of the graph's names and of its train and valid triples."""
    entities: int
    relations: int
    recipe: Recipe
    space: dict[
        str,
        Annotated[
            Distribution, BeforeValidator(_distribution), PlainSerializer(distribution_to_json)
        ],
    ]
    """Optuna's distributions by dotted key, in JSON as Optuna writes them."""
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

    def recipe_for(self, values: dict[str, Any]) -> tuple[Recipe | None, Bounds]:
        """The recipe of a trial and the sizes that its model may have.

        There is no recipe where no model of these settings keeps to the limit.
        """
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
        sizes = {key: max(extremes(self.space[key])) for key in SIZES if key in self.space}
        recipe = adjusted(self.recipe, sizes, self.adjustments)
        return bounds_of(recipe, self.entities, self.relations).most

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
) -> Plan:
    """The plan of a search; what cannot be searched is refused before anything is written."""
    if not graph.is_seen(graph.valid).any():
        raise GraphError(
            f"{graph.name}: a search needs validation triples whose entities occur in train"
        )
    recipe = filled(recipe, graph)
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
        adjustments=list(space.adjustments),
        sampler=sampler,
        pruner=pruner,
        objective=objective,
        max_parameters=max_parameters,
        seed=seed,
    )
    if sampler in ("paper", "grid"):
        grid_of(distributions)
    first = {key: extremes(among)[0] for key, among in distributions.items()}
    check(adjusted(recipe, first, space.adjustments), graph)
    for key, among in distributions.items():
        for value in extremes(among):
            plan.recipe_for({**first, key: value})  # a model that cannot be built is refused
    return _narrowed(plan)


def digest(graph: KnowledgeGraph) -> str:
    """Tells graphs apart by all that a trial sees of them: names, train and valid."""
    sha = hashlib.sha256()
    for vocabulary in (graph.entities, graph.relations):
        sha.update("\n".join(vocabulary.names.to_list()).encode("utf-8", "surrogatepass"))
    for split in (graph.train, graph.valid):
        sha.update(np.ascontiguousarray(split).tobytes())
    return sha.hexdigest()


def _narrowed(plan: Plan) -> Plan:
    """The plan without the sizes that cannot keep to the limit, however small the other one is."""
    if plan.max_parameters is None:
        return plan
    space = dict(plan.space)
    smallest = {key: min(extremes(space[key])) for key in SIZES if key in space}
    recipe, bounds = plan.recipe_for(smallest)
    if recipe is None:
        raise RecipeError(
            f"--max-parameters {plan.max_parameters:,}: the smallest model of the space has "
            f"{bounds.least:,}; give the space smaller sizes"
        )
    for key in smallest:
        sizes = space[key]

        def is_over(value: Any, key: str = key) -> bool:
            return plan.recipe_for({**smallest, key: value})[0] is None

        if isinstance(sizes, CategoricalDistribution):
            kept = [value for value in sizes.choices if not is_over(value)]
            space[key] = CategoricalDistribution(kept)
        elif isinstance(sizes, IntDistribution):
            values = range(sizes.low, sizes.high + 1, sizes.step)
            high = values[bisect_left(values, True, key=is_over) - 1]
            space[key] = IntDistribution(sizes.low, high, sizes.log, sizes.step)
    return plan.model_copy(update={"space": space})
