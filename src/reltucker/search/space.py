"""Spaces: which settings are searched, and between which values; typed, and checked by key."""

import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from optuna import Trial
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reltucker.errors import RecipeError
from reltucker.model import CORES
from reltucker.training import Recipe

SHIPPED = Path(__file__).parent / "spaces"
PAPER_GRAPHS = ("fb15k-237", "wn18rr")
LARGEST_GRID = 1_000_000

Scalar = bool | int | float | str
Bound = int | float | Literal["relations"]
Distribution = CategoricalDistribution | IntDistribution | FloatDistribution


class Parameter(BaseModel):
    """The values of one setting: a list of them, or all between two bounds.

    A bound `"relations"` is the number of relations of the graph.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    values: list[Scalar] | None = Field(None, min_length=1)
    low: Bound | None = None
    high: Bound | None = None
    log: bool = False
    step: int | float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("give both low and high")
        if (self.low is None) == (self.values is None):
            raise ValueError("give either values = [...] or low = ... and high = ...")
        if self.values is not None and (self.log or self.step is not None):
            raise ValueError("log and step belong to low and high, not to values")
        if self.log and self.step is not None:
            raise ValueError("give either log or step")
        return self

    def distribution(self, is_integer: bool, relations: int) -> Distribution:
        """The same for Optuna, in a graph with so many relations; ValueError where it is empty."""

        def number(value: Any) -> Any:
            return relations if value == "relations" else value

        if self.values is not None:
            return CategoricalDistribution(list(dict.fromkeys(map(number, self.values))))
        low, high = number(self.low), number(self.high)
        if self.high == "relations":
            high = max(low, high)
        if low > high:
            raise ValueError(f"low = {low} is above high = {high}")
        if not is_integer:
            return FloatDistribution(low, high, self.log, self.step)
        step = 1 if self.step is None else self.step
        if any(value != int(value) for value in (low, high, step)):
            raise ValueError("low, high and step must be whole numbers")
        return IntDistribution(low, high - (high - low) % step, self.log, int(step))


class Adjustment(BaseModel):
    """Settings that follow from others: where all of `where` holds, `set` is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: dict[str, Scalar] = Field(min_length=1)
    set: dict[str, Scalar] = Field(min_length=1)


class _Tables(BaseModel):
    """What a space file has besides a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    space: dict[Literal["model", "core", "train"], dict[str, Parameter]] = {}
    adjust: list[Adjustment] = []


@dataclass(frozen=True)
class Space:
    """Searched settings by dotted key, and the settings that follow from them."""

    source: str
    parameters: Mapping[str, Parameter]
    adjustments: Sequence[Adjustment] = ()

    @classmethod
    def load(cls, path: Path) -> tuple[Recipe, "Space | None"]:
        """A space file is a recipe with a further table [space]; without it there is no space."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"{path}: there is no such space file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RecipeError(f"{path}: not a readable TOML file ({error})") from None
        own = {key: content.pop(key) for key in ("space", "adjust") if key in content}
        try:
            tables = _Tables.model_validate(own)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            reason = first["msg"].removeprefix("Value error, ")
            raise RecipeError(f"{path}: {key}: {reason[:1].lower()}{reason[1:]}") from None
        recipe = Recipe.of(content, str(path)).with_paths_beside(path.parent)
        parameters = {
            f"{section}.{key}": parameter
            for section, keys in tables.space.items()
            for key, parameter in keys.items()
        }
        if not parameters:
            return recipe, None
        if "model.name" in parameters:
            raise RecipeError(
                f"{path}: space.model.name: one model is searched at a time; name it by --model"
            )
        return recipe, cls(str(path), parameters, tuple(tables.adjust))

    @classmethod
    def shipped(cls, name: str, graph: str, model: str, *, as_grid: bool) -> "Space":
        """A space that comes with the program: `paper` or `default`, without what `model` lacks.

        The paper has grids for SRT, DRT and ComplEx; the other fixed cores take ComplEx's.
        """
        if name == "paper":
            if graph not in PAPER_GRAPHS:
                raise RecipeError(
                    f"--space paper: the paper has grids for {' and '.join(PAPER_GRAPHS)}, not for "
                    f"{graph!r}; use --space default or a space file of your own"
                )
            path = SHIPPED / f"paper-{graph}-{model}.toml"
            if not path.exists():
                path = SHIPPED / f"paper-{graph}-complex.toml"
        else:
            path = SHIPPED / ("default-grid.toml" if as_grid else "default.toml")
        _, space = cls.load(path)
        assert space is not None, path
        core = CORES[model]
        options = {f"core.{option}" for option in core.Options.model_fields}
        unfit = {key for key in space.parameters if key.startswith("core.")} - options
        if core.learns == "nothing":  # where d_r is not free
            unfit.add("model.relation_dim")
        return replace(space.without(unfit), source=name)

    def without(self, keys: set[str]) -> "Space":
        """The space with some settings no longer searched."""
        kept = {key: value for key, value in self.parameters.items() if key not in keys}
        return replace(self, parameters=kept)

    def distributions(self, recipe: Recipe, relations: int) -> dict[str, Distribution]:
        """The space for Optuna; a key or value that a recipe cannot take is refused by name."""
        found: dict[str, Distribution] = {}
        for key, parameter in self.parameters.items():
            source = f"{self.source}: space"
            try:
                distribution = parameter.distribution(_is_integer(key), relations)
            except ValueError as error:
                raise RecipeError(f"{source}.{key}: {error}") from None
            for value in extremes(distribution):
                recipe.with_values({key: value}, source)
            found[key] = distribution
        for adjustment in self.adjustments:
            recipe.with_values({**adjustment.where, **adjustment.set}, f"{self.source}: adjust")
        return found


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

    `argument` is a graph, or a recipe file (.toml) with the table [space], whose graph `graph` may
    replace; `space` names a shipped space or another file, of which only the space is taken. By
    default that is the space of the recipe file, else the paper's grid where the paper's sampler
    meets one of its graphs, else the default space.
    """
    recipe, found = Recipe().with_values({"graph.source": argument}), None
    if Path(argument).suffix.lower() == ".toml":
        recipe, found = Space.load(Path(argument))
        recipe = recipe if graph is None else recipe.on(graph)
    elif graph is not None:
        raise RecipeError(f"--graph {graph}: it is for a file (.toml), and {argument} is a graph")
    recipe = recipe.with_values(dict(values)).changed(assignments)
    if recipe.graph.source is None:
        raise RecipeError(
            f"{argument}: graph.source is missing; name a catalog entry, file or folder"
        )
    if space is not None and Path(space).suffix.lower() == ".toml":
        _, found = Space.load(Path(space))
        if found is None:
            raise RecipeError(f"{space}: the table [space] is missing")
    elif space is not None or found is None:
        is_published = sampler == "paper" and recipe.graph.source in PAPER_GRAPHS
        name = space or ("paper" if is_published else "default")
        if name not in ("paper", "default"):
            raise RecipeError(f"--space {name}: there are paper, default and files (.toml)")
        as_grid = sampler in ("paper", "grid")
        found = Space.shipped(name, recipe.graph.source, recipe.model.name, as_grid=as_grid)
    given = {*values, *(assignment.partition("=")[0].strip() for assignment in assignments)}
    return recipe, found.without(given)


def adjusted(
    recipe: Recipe, values: Mapping[str, Any], adjustments: Sequence[Adjustment]
) -> Recipe:
    """The recipe with the values of a trial, and with what follows from them."""
    recipe = recipe.with_values(dict(values), "trial")
    for adjustment in adjustments:
        if all(recipe.value(key) == value for key, value in adjustment.where.items()):
            recipe = recipe.with_values(dict(adjustment.set), "trial")
    return recipe


def suggest(trial: Trial, key: str, among: Distribution) -> Any:
    """Ask Optuna for the value of one setting."""
    if isinstance(among, CategoricalDistribution):
        return trial.suggest_categorical(key, among.choices)
    draw: Any = trial.suggest_int if isinstance(among, IntDistribution) else trial.suggest_float
    return draw(key, among.low, among.high, step=among.step, log=among.log)


def grid_values(key: str, among: Distribution) -> list[Any]:
    """All values of one setting, in order; a continuous one has none to list."""
    if isinstance(among, CategoricalDistribution):
        return list(among.choices)
    if isinstance(among, IntDistribution) and not among.log:
        return list(range(among.low, among.high + 1, among.step))
    if isinstance(among, FloatDistribution) and among.step is not None:
        steps = round((among.high - among.low) / among.step)
        return [among.low + step * among.step for step in range(steps + 1)]
    raise RecipeError(
        f"space.{key}: this sampler needs a grid; give values = [...], or low, high and step"
    )


def grid_of(distributions: Mapping[str, Distribution]) -> list[dict[str, Any]]:
    """Every combination of the values, the last setting changing fastest."""
    axes = {key: grid_values(key, d) for key, d in distributions.items()}
    size = math.prod(len(values) for values in axes.values())
    if size > LARGEST_GRID:
        raise RecipeError(f"the grid has {size:,} points; at most {LARGEST_GRID:,} can be listed")
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]


def extremes(among: Distribution) -> list[Any]:
    """All values of a list, the bounds of a range."""
    if isinstance(among, CategoricalDistribution):
        return list(among.choices)
    return [among.low, among.high]


def _is_integer(key: str) -> bool:
    """Whether a setting of the recipe takes whole numbers only; one that is none does not."""
    section, _, name = key.partition(".")
    if section == "core":
        options = (core.Options.model_fields for core in CORES.values())
        fields = {option: field for each in options for option, field in each.items()}
    else:
        fields = type(getattr(Recipe(), section)).model_fields
    if name not in fields:
        return False
    kind = fields[name].annotation
    kinds = get_args(kind) or (kind,)
    return int in kinds and float not in kinds
