"""Spaces: which settings are searched, and between which values; typed, and checked by key."""

import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reltucker.errors import RecipeError
from reltucker.model import CORES
from reltucker.search.parameter import (
    Distribution,
    Parameter,
    Scalar,
    distributions_of,
    extremes,
    grid_values,
)
from reltucker.search.regions import Region, RegionTable, Section, flat, regions_of_model
from reltucker.training import Recipe, names_recipe, recipe_file

SHIPPED = Path(__file__).parent / "spaces"
PAPER_GRAPHS = ("fb15k-237", "wn18rr")
LARGEST_GRID = 1_000_000
NAMES = ("default", "simple", "paper")
WITH_REGIONS = ("tpe", "random")
"""Samplers for spaces in which some settings exist only beside others."""


class Adjustment(BaseModel):
    """Settings that follow from others: where all of `where` holds, `set` is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: dict[str, Scalar] = Field(min_length=1)
    set: dict[str, Scalar] = Field(min_length=1)


class _Tables(BaseModel):
    """What a space file has besides a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    space: dict[Section, dict[str, Parameter]] = {}
    adjust: list[Adjustment] = []
    common: dict[Section, dict[str, Scalar]] = {}
    region: list[RegionTable] = []


@dataclass(frozen=True)
class Space:
    """Searched settings by dotted key, and the settings that follow from them; or regions, one of
    which is chosen first."""

    source: str
    parameters: Mapping[str, Parameter]
    adjustments: Sequence[Adjustment] = ()
    regions: Sequence[Region] = ()

    @classmethod
    def load(cls, path: Path) -> tuple[Recipe, "Space | None"]:
        """A space file is a recipe with a further table [space], or with tables [[region]]; without
        them there is no space."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"{path}: there is no such space file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RecipeError(f"{path}: not a readable TOML file ({error})") from None
        own = {key: content.pop(key) for key in _Tables.model_fields if key in content}
        try:
            tables = _Tables.model_validate(own)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            reason = first["msg"].removeprefix("Value error, ")
            raise RecipeError(f"{path}: {key}: {reason[:1].lower()}{reason[1:]}") from None
        recipe = Recipe.of(content, str(path)).with_paths_beside(path.parent)
        parameters = flat(tables.space)
        regions = [Region.of(table, tables.common) for table in tables.region]
        if parameters and regions:
            raise RecipeError(f"{path}: give either [space] or [[region]] tables")
        if len({region.name for region in regions}) < len(regions):
            raise RecipeError(f"{path}: two regions have the same name")
        if not parameters and not regions:
            return recipe, None
        if any("model.name" in each for each in (parameters, *(r.parameters for r in regions))):
            raise RecipeError(
                f"{path}: space.model.name: give each model a [[region]], or name one by --model"
            )
        for key, parameter in parameters.items():
            if parameter.start is not None:
                raise RecipeError(f"{path}: space.{key}.start: only a [[region]] has a start")
        return recipe, cls(str(path), parameters, tuple(tables.adjust), tuple(regions))

    @classmethod
    def shipped(cls, name: str, graph: str, model: str, *, as_grid: bool) -> "Space":
        """A space that comes with the program: `default` with its regions; or `simple` or `paper`,
        without what `model` lacks.

        The paper has grids for SRT, DRT and ComplEx; the other fixed cores take ComplEx's.
        """
        if name == "paper":
            if graph not in PAPER_GRAPHS:
                raise RecipeError(
                    f"--space paper: the paper has grids for {' and '.join(PAPER_GRAPHS)}, not for "
                    f"{graph!r}; use another --space or a space file of your own"
                )
            path = SHIPPED / f"paper-{graph}-{model}.toml"
            if not path.exists():
                path = SHIPPED / f"paper-{graph}-complex.toml"
        else:
            path = SHIPPED / (f"{name}-grid.toml" if as_grid else f"{name}.toml")
        _, space = cls.load(path)
        assert space is not None, path
        if space.regions:
            return replace(space, source=name)
        core = CORES[model]
        options = {f"core.{option}" for option in core.Options.model_fields}
        unfit = {key for key in space.parameters if key.startswith("core.")} - options
        if not _takes_any_relation_dim(model):
            unfit.add("model.relation_dim")
        return replace(space.without(unfit), source=name)

    def without(self, keys: set[str]) -> "Space":
        """The space with some settings no longer searched."""
        kept = {key: value for key, value in self.parameters.items() if key not in keys}
        regions = tuple(region.without(keys) for region in self.regions)
        return replace(self, parameters=kept, regions=regions)

    def given(self, keys: set[str], model: str) -> "Space":
        """The space for a recipe in which these settings are set, perhaps that of the model."""
        regions = self.regions
        if "model.name" in keys:
            regions = tuple(regions_of_model(regions, model))
        return replace(self, regions=regions).without(keys)

    def distributions(self, recipe: Recipe, relations: int) -> dict[str, Distribution]:
        """The space for Optuna; a key or value that a recipe cannot take is refused by name."""
        source = f"{self.source}: space"
        found = distributions_of(self.parameters, relations, source)
        for key, distribution in found.items():
            for value in extremes(distribution):
                recipe.with_values({key: value}, source)
        for adjustment in self.adjustments:
            recipe.with_values({**adjustment.where, **adjustment.set}, f"{self.source}: adjust")
        return found


def _takes_any_relation_dim(model: str) -> bool:
    """Whether d_r is free, and any number will do."""
    try:
        CORES[model].build(32, 1, 1)
    except (RecipeError, ValueError):
        return False
    return True


def recipe_and_space(
    argument: str,
    space: str | None,
    sampler: str,
    values: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    graph: str | None = None,
) -> tuple[Recipe, Space]:
    """The base recipe and the space. A setting that an option gives is not searched.

    `argument` is a graph, or a recipe, by file or name, perhaps with a space, whose graph `graph`
    may replace; `space` names a shipped space or another file, of which only the space is taken. By
    default that is the space of the file, else the paper's grid where the paper's sampler meets one
    of its graphs, else `default`. Samplers that know no regions, and recipe files, whose settings
    the regions would replace, take `simple`; so does a model that has no region.
    """
    recipe, found = Recipe().with_values({"graph.source": argument}), None
    is_file = names_recipe(argument)
    if is_file:
        recipe, found = Space.load(recipe_file(argument))
        recipe = recipe if graph is None else recipe.on(graph)
    elif graph is not None:
        raise RecipeError(f"--graph {graph}: it is for a recipe, and {argument} is a graph")
    recipe = recipe.with_values(dict(values), "option").changed(assignments, "--set")
    if recipe.graph.source is None:
        raise RecipeError(
            f"{argument}: graph.source is missing; name a catalog entry, file or folder"
        )
    given = {*values, *(assignment.partition("=")[0].strip() for assignment in assignments)}
    if space is not None and Path(space).suffix.lower() == ".toml":
        _, found = Space.load(Path(space))
        if found is None:
            raise RecipeError(f"{space}: the table [space] is missing")
    elif space is not None or found is None:
        is_published = sampler == "paper" and recipe.graph.source in PAPER_GRAPHS
        usual = "simple" if is_file or sampler not in WITH_REGIONS else "default"
        name = space or ("paper" if is_published else usual)
        if name not in NAMES:
            raise RecipeError(f"--space {name}: there are {', '.join(NAMES)} and files (.toml)")
        as_grid = sampler in ("paper", "grid") and name != "default"
        source, model = recipe.graph.source, recipe.model.name
        found = Space.shipped(name, source, model, as_grid=as_grid)
        if name == "default" and not found.given(given, model).regions:
            found = Space.shipped("simple", source, model, as_grid=False)
    if found.regions and sampler not in WITH_REGIONS:
        raise RecipeError(
            f"--sampler {sampler} knows no regions; use {' or '.join(WITH_REGIONS)}, or --space "
            "simple"
        )
    return recipe, found.given(given, recipe.model.name)


def adjusted(
    recipe: Recipe, values: Mapping[str, Any], adjustments: Sequence[Adjustment]
) -> Recipe:
    """The recipe with the values of a trial, and with what follows from them."""
    recipe = recipe.with_values(dict(values), "trial")
    for adjustment in adjustments:
        if all(recipe.value(key) == value for key, value in adjustment.where.items()):
            recipe = recipe.with_values(dict(adjustment.set), "trial")
    return recipe


def grid_of(distributions: Mapping[str, Distribution]) -> list[dict[str, Any]]:
    """Every combination of the values, the last setting changing fastest."""
    axes = {key: grid_values(key, d) for key, d in distributions.items()}
    size = math.prod(len(values) for values in axes.values())
    if size > LARGEST_GRID:
        raise RecipeError(f"the grid has {size:,} points; at most {LARGEST_GRID:,} can be listed")
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]
