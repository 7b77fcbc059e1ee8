"""Every recipe that ships can be read and builds the model that it names."""

from pathlib import Path

import pytest
import torch

from reltucker.graph.catalog import ENTRIES
from reltucker.search import Space
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


PAPER = Path(__file__).parents[1] / "recipes" / "paper"
ROWS = [
    "fb15k-237-complex-200",
    "fb15k-237-complex-600",
    "fb15k-237-drt-100-237",
    "fb15k-237-srt-100",
    "fb15k-237-srt-200",
    "wn18rr-complex-100",
    "wn18rr-complex-200",
    "wn18rr-complex-600",
    "wn18rr-drt-200-11",
    "wn18rr-srt-200-7",
]
"""Rows of the paper's main and baseline tables."""


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_paper_keeps_to_its_grid_and_protocol(name: str) -> None:
    recipe = Recipe.load(PAPER / f"{name}.toml")
    graph, model = recipe.graph.source, recipe.model
    assert graph is not None
    sizes = [str(model.entity_dim)]
    if model.relation_dim not in (None, model.entity_dim):
        sizes.append(str(model.relation_dim))
    assert name == "-".join([graph, model.name, *sizes])
    space = Space.shipped("paper", graph, model.name, as_grid=True)
    settings = recipe.model_dump()
    for key, parameter in space.parameters.items():
        section, _, setting = key.partition(".")
        assert parameter.values is not None
        assert settings[section][setting] in parameter.values, key
    train = recipe.train
    defaults = Recipe().train  # which are the paper's
    for setting in ("objective", "loss", "negatives", "optimizer", "regularizer"):
        assert getattr(train, setting) == getattr(defaults, setting), setting
    assert train.patience >= defaults.patience
    assert train.batch_size == (256 if (model.name, model.entity_dim) == ("srt", 200) else 500)
    assert not model.reciprocal
