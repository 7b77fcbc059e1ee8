"""Every recipe that ships can be read and builds the model that it names."""

from pathlib import Path

import pytest
import torch

from reltucker.graph.catalog import ENTRIES
from reltucker.training import Recipe, build_model

RECIPES = sorted((Path(__file__).parents[1] / "recipes").rglob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_valid(path: Path) -> None:
    recipe = Recipe.load(path)
    assert recipe.graph.source in ENTRIES
    with torch.device("meta"):
        model = build_model(recipe, 10, 237)
    assert model.core.name == recipe.model.name


def test_there_are_recipes() -> None:
    assert RECIPES
