"""Budgets: counts as people write them, sizes before training, spaces that keep to a limit."""

from pathlib import Path

import pytest
import torch
from optuna.distributions import CategoricalDistribution, IntDistribution

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES, sizes_of
from reltucker.search.budget import bounds_of, parse_count, within_budget
from reltucker.training import build_model
from tests.conftest import core_settings
from tests.search.conftest import quick_plan, quick_recipe


@pytest.mark.parametrize(
    ("text", "count"),
    [("3M", 3_000_000), ("1.5m", 1_500_000), ("250k", 250_000), ("800,000", 800_000), ("7", 7)],
)
def test_counts(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "M", "-3M", "3 MB", "0", "1e6"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(RecipeError, match="--max-parameters"):
        parse_count(text)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("model", sorted(CORES))
def test_sizes_are_known_before_training(model: str, reciprocal: bool) -> None:
    recipe = quick_recipe(model__reciprocal=reciprocal).with_values(core_settings(model, 8))
    built = build_model(recipe, 30, 4)
    built.reset(torch.Generator().manual_seed(0), 0.3)
    built.eval()
    bounds = bounds_of(recipe, 30, 4)
    effective = sizes_of(built).effective_parameters
    if model == "srt":
        assert bounds.least < effective <= bounds.most
        assert bounds.most - bounds.least == 8 * 8 * built.core.relation_dim
    else:
        assert bounds.least == bounds.most == effective


def test_a_sparse_core_gets_the_density_that_fits() -> None:
    recipe = quick_recipe(model__name="srt", model__relation_dim=4)
    bounds = bounds_of(recipe, 30, 4)
    assert bounds == (30 * 8 + 4 * 4, 30 * 8 + 4 * 4 + 8 * 8 * 4)
    limited = within_budget(recipe, bounds, bounds.least + 64)
    assert limited is not None
    assert limited.train.max_density == 0.25
    assert within_budget(recipe, bounds, bounds.most) == recipe
    assert within_budget(recipe, bounds, bounds.least) is None
    stricter = recipe.with_values({"train.max_density": 0.1})
    assert within_budget(stricter, bounds, bounds.least + 64) == stricter


def test_the_space_loses_the_sizes_that_cannot_fit(graph: KnowledgeGraph) -> None:
    each = len(graph.entities) + len(graph.relations)
    listed = {"model.entity_dim": {"values": [4, 8, 16]}}
    plan = quick_plan(graph, space=listed, max_parameters=8 * each)
    assert plan.space["model.entity_dim"] == CategoricalDistribution([4, 8])
    ranged = {"model.entity_dim": {"low": 2, "high": 20, "step": 3}}
    plan = quick_plan(graph, space=ranged, max_parameters=10 * each)
    assert plan.space["model.entity_dim"] == IntDistribution(2, 8, step=3)
    with pytest.raises(RecipeError, match="the smallest model of the space has"):
        quick_plan(graph, space=listed, max_parameters=3 * each)


def test_the_grid_keeps_to_the_limit(graph: KnowledgeGraph, tmp_path: Path) -> None:
    space = {"model.entity_dim": {"values": [4, 8]}, "model.relation_dim": {"values": [1, 8]}}
    recipe = quick_recipe(model__name="drt")
    sizes = {
        (dim, relation_dim): 33 * dim + 4 * relation_dim + dim * dim * relation_dim
        for dim in (4, 8)
        for relation_dim in (1, 8)
    }
    plan = quick_plan(graph, recipe=recipe, space=space, sampler="grid", max_parameters=400)
    fitting = {sizes_ for sizes_, count in sizes.items() if count <= 400}
    assert {(p["model.entity_dim"], p["model.relation_dim"]) for p in plan.grid()} == fitting
    assert len(fitting) == 3
