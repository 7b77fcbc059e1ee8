"""What `search` was given: a graph or a space file, and options that fix some settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reltucker.errors import RecipeError
from reltucker.search.plan import SamplerName
from reltucker.search.space import PAPER_GRAPHS, Space
from reltucker.training import Recipe


def recipe_and_space(
    argument: str,
    space: str | None,
    sampler: SamplerName,
    values: Mapping[str, Any],
    assignments: Sequence[str],
) -> tuple[Recipe, Space]:
    """The base recipe and the space. A setting that an option gives is not searched.

    `argument` is a graph, or a recipe file (.toml) with the table [space]; `space` names a shipped
    space or another file, of which only the space is taken. By default that is the space of the
    recipe file, else the paper's grid where the paper's sampler meets one of its graphs, else the
    default space.
    """
    recipe, found = Recipe().with_values({"graph.source": argument}), None
    if Path(argument).suffix.lower() == ".toml":
        recipe, found = Space.load(Path(argument))
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
