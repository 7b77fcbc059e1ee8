"""A plan: all that determines a study. It is stored with the study and given to every worker."""

import hashlib
import json
from bisect import bisect_left
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from pydantic import BaseModel, ConfigDict

from reltucker.choices import ObjectiveName as ObjectiveName
from reltucker.choices import PrunerName as PrunerName
from reltucker.choices import SamplerName as SamplerName
from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.search.budget import Bounds, bounds_of, within_budget
from reltucker.search.space import Adjustment, adjusted, extremes, grid_of
from reltucker.training import Recipe

SIZES = ("model.entity_dim", "model.relation_dim")


class Plan(BaseModel):
    """The base recipe, the space and how it is searched. A study goes on with its own plan only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: str
    """A digest of the graph's names and of its train and valid triples."""
    entities: int
    relations: int
    recipe: Recipe
    space: dict[str, str]
    """Optuna's distributions as JSON, by dotted key."""
    adjustments: list[Adjustment]
    sampler: SamplerName
    pruner: PrunerName
    objective: ObjectiveName
    max_parameters: int | None
    seed: int

    def distributions(self) -> dict[str, BaseDistribution]:
        """The space for Optuna."""
        return {key: json_to_distribution(text) for key, text in self.space.items()}

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
        points = grid_of(self.distributions())
        if self.max_parameters is None:
            return points
        fits: dict[tuple[Any, ...], bool] = {}
        for point in points:
            sizes = tuple(point.get(key) for key in SIZES)
            if sizes not in fits:
                fits[sizes] = self.recipe_for(point)[0] is not None
        return [point for point in points if fits[tuple(point.get(key) for key in SIZES)]]

    def largest(self) -> int:
        """The effective parameters of the largest model of the space: the worst that can be."""
        sizes = {
            key: max(extremes(distribution))
            for key, distribution in self.distributions().items()
            if key in SIZES
        }
        recipe = adjusted(self.recipe, sizes, self.adjustments)
        return bounds_of(recipe, self.entities, self.relations).most

    def differences(self, other: "Plan") -> list[str]:
        """The names of what two plans have different."""
        return [name for name in type(self).model_fields if self._text(name) != other._text(name)]

    def _text(self, name: str) -> str:
        return json.dumps(self.model_dump(mode="json")[name], sort_keys=True)


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be searched, before anything is written."""
    if not plan.space:
        raise RecipeError("there is nothing to search: every setting of the space is given")
    if plan.objective == "skyline":
        if plan.sampler == "paper":
            raise RecipeError(
                "--sampler paper has one objective; use tpe, gp, random or grid with "
                "--objective skyline"
            )
        if plan.pruner != "none":
            raise RecipeError("--objective skyline cannot prune; leave --pruner out")
    if plan.sampler in ("paper", "grid"):
        grid_of(plan.distributions())


def digest(graph: KnowledgeGraph) -> str:
    """Tells graphs apart by all that a trial sees of them: names, train and valid."""
    sha = hashlib.sha256()
    for vocabulary in (graph.entities, graph.relations):
        sha.update("\n".join(vocabulary.names.to_list()).encode("utf-8", "surrogatepass"))
    for split in (graph.train, graph.valid):
        sha.update(np.ascontiguousarray(split).tobytes())
    return sha.hexdigest()


def narrowed(plan: Plan) -> Plan:
    """The plan without the sizes that cannot keep to the limit, however small the other one is."""
    if plan.max_parameters is None:
        return plan
    distributions = plan.distributions()
    keys = [key for key in SIZES if key in distributions]
    smallest = {key: min(extremes(distributions[key])) for key in keys}
    recipe, bounds = plan.recipe_for(smallest)
    if recipe is None:
        raise RecipeError(
            f"--max-parameters {plan.max_parameters:,}: the smallest model of the space has "
            f"{bounds.least:,}; give the space smaller sizes"
        )
    for key in keys:
        distribution = distributions[key]

        def fits(value: int, key: str = key) -> bool:
            return plan.recipe_for({**smallest, key: value})[0] is not None

        if isinstance(distribution, CategoricalDistribution):
            kept = [value for value in distribution.choices if fits(int(value or 0))]
            distributions[key] = CategoricalDistribution(kept)
        elif isinstance(distribution, IntDistribution):
            low, step = distribution.low, distribution.step
            steps = range((distribution.high - low) // step + 1)
            count = bisect_left(steps, True, key=lambda n: not fits(low + n * step))
            high = low + (count - 1) * step
            distributions[key] = IntDistribution(low, high, distribution.log, step)
    space = {key: distribution_to_json(value) for key, value in distributions.items()}
    return plan.model_copy(update={"space": space})
