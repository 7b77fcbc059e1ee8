"""Spaces: the paper's grids, the default space, files of a user and their mistakes."""

from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES
from reltucker.search.space import SHIPPED, Space, adjusted, grid_of, recipe_and_space
from reltucker.training import Recipe
from tests.search.conftest import quick_plan, quick_recipe

DROPOUTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
TRAINING = {
    "train.entity_dropout": DROPOUTS,
    "train.mixing_dropout": DROPOUTS,
    "train.learning_rate": [0.5, 0.1, 0.05, 0.01, 0.005, 0.001],
    "train.weight_decay": [1e-4, 1e-5, 1e-6, 0.0],
}
RELATION_DIMS = {"fb15k-237": [100, 160, 200, 237, 300], "wn18rr": [7, 11, 14]}

SEARCHED = sorted(set(CORES) - {"merged"})
"""A merged model is made of trained ones; there is nothing to search for."""


def values_of(space: Space) -> dict[str, Any]:
    return {key: parameter.values for key, parameter in space.parameters.items()}


@pytest.mark.parametrize("graph", RELATION_DIMS)
@pytest.mark.parametrize("model", SEARCHED)
def test_the_paper_has_a_grid_for_every_model_and_data_set(graph: str, model: str) -> None:
    space = Space.shipped("paper", graph, model, as_grid=True)
    expected: dict[str, Any] = {**TRAINING, "model.entity_dim": [50, 100, 200]}
    if model in ("srt", "drt"):
        expected["model.relation_dim"] = RELATION_DIMS[graph]
    else:
        expected["model.entity_dim"] = [50, 100, 200, 600]
    if model == "srt":
        expected["core.l0_weight"] = [0.5, 0.1, 0.01]
    assert values_of(space) == expected
    recipe = Recipe().with_values({"model.name": model})
    relations = {"fb15k-237": 237, "wn18rr": 11}[graph]
    assert set(space.distributions(recipe, relations)) == set(expected)


def test_srt_of_size_200_has_the_paper_s_smaller_batches() -> None:
    space = Space.shipped("paper", "wn18rr", "srt", as_grid=True)
    recipe = Recipe().with_values({"model.name": "srt"})
    sizes = {
        dim: adjusted(recipe, {"model.entity_dim": dim}, space.adjustments).train.batch_size
        for dim in (50, 100, 200)
    }
    assert sizes == {50: 500, 100: 500, 200: 256}


def test_the_paper_has_no_grid_for_other_graphs() -> None:
    with pytest.raises(RecipeError, match="fb15k-237 and wn18rr, not for 'families'"):
        Space.shipped("paper", "families", "drt", as_grid=True)


@pytest.mark.parametrize("as_grid", [False, True])
@pytest.mark.parametrize("model", SEARCHED)
def test_the_simple_space_fits_every_model(model: str, as_grid: bool) -> None:
    space = Space.shipped("simple", "anything", model, as_grid=as_grid)
    assert ("model.relation_dim" in space.parameters) == (model in ("drt", "srt"))
    assert ("core.l0_weight" in space.parameters) == (model == "srt")
    recipe = Recipe().with_values({"model.name": model})
    found = space.distributions(recipe, relations=40)
    if as_grid:
        assert len(grid_of(found)) >= 100
    elif model == "drt":
        assert found["model.relation_dim"] == IntDistribution(4, 40)


def test_every_shipped_file_is_read() -> None:
    for path in SHIPPED.glob("*.toml"):
        assert Space.load(path)[1] is not None


def test_a_space_file_is_a_recipe_with_a_space(tmp_path: Path, graph_files: Path) -> None:
    path = graph_files.parent / "mine.toml"
    path.write_text(
        "[graph]\nsource = 'small'\n[model]\nname = 'drt'\n"
        "[space.model]\nentity_dim = { low = 8, high = 33, step = 8 }\n"
        "relation_dim = { values = [2, 'relations'] }\n"
        "[space.train]\nweight_decay = { low = 0, high = 1 }\n"
        "learning_rate = { low = 1e-3, high = 0.5, log = true }\n"
    )
    recipe, space = recipe_and_space(str(path), None, "tpe", {}, ["train.epochs=7"])
    assert recipe.graph.source == str(graph_files)
    assert recipe.train.epochs == 7
    assert space.distributions(recipe, relations=4) == {
        "model.entity_dim": IntDistribution(8, 32, step=8),
        "model.relation_dim": CategoricalDistribution([2, 4]),
        "train.weight_decay": FloatDistribution(0, 1),
        "train.learning_rate": FloatDistribution(1e-3, 0.5, log=True),
    }


def test_a_setting_that_is_given_is_not_searched() -> None:
    _, space = recipe_and_space("families", "simple", "tpe", {}, ["model.entity_dim=16"])
    assert "model.entity_dim" not in space.parameters
    assert "train.learning_rate" in space.parameters


def test_the_paper_s_sampler_takes_the_paper_s_grid_where_there_is_one() -> None:
    _, published = recipe_and_space("wn18rr", None, "paper", {}, [])
    assert published.parameters["model.relation_dim"].values == [7, 11, 14]
    _, other = recipe_and_space("families", None, "paper", {}, [])
    assert other.parameters["model.relation_dim"].values == [8, 16, 64, "relations"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[space.model]\nentity_dm = {values = [1]}", "no setting 'model.entity_dm'.*entity_dim"),
        ("[space.model]\nentity_dim = {values = [0]}", "model.entity_dim = 0"),
        ("[space.model]\nentity_dim = {values = []}", "space.model.entity_dim.values"),
        ("[space.model]\nentity_dim = {low = 1}", "space.model.entity_dim.*both low and high"),
        ("[space.model]\nentity_dim = {low = 9, high = 8}", "entity_dim.*above high"),
        ("[space.model]\nentity_dim = {low = 1.5, high = 8}", "entity_dim.*whole numbers"),
        ("[space.model]\nentity_dim = {low = 1, high = 8, bas = 2}", "entity_dim.bas"),
        ("[space.model]\nentity_dim = 8", "space.model.entity_dim"),
        (
            "[space.train]\nlearning_rate = {low = 0, high = 1, log = true}",
            "learning_rate.*low > 0",
        ),
        ("[space.train]\nlearning_rate = {low = 1, high = 2, log = true, step = 1}", "either log"),
        ("[space.train]\nentity_dropout = {low = 0.5, high = 1.0}", "train.entity_dropout = 1.0"),
        ("[space.graph]\nseed = {values = [1]}", "space.graph"),
        ("[space.model]\nname = {values = ['drt']}", "give each model a .*region"),
        ("[space.core]\nl0_weight = {values = [0.1]}", "core.l0_weight: distmult has no such"),
        ("[[adjust]]\nwhere = {}\nset = {}\n[space.model]\nentity_dim = {values = [4]}", "adjust"),
        ("[space\n", "not a readable TOML file"),
    ],
)
def test_a_mistake_is_named(text: str, message: str, tmp_path: Path, graph: KnowledgeGraph) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text)

    def plan() -> None:
        _, space = recipe_and_space("families", str(path), "random", {"model.name": "distmult"}, [])
        quick_plan(graph, space={k: v.model_dump() for k, v in space.parameters.items()})

    with pytest.raises(RecipeError, match=message) as caught:
        plan()
    assert "\n" not in str(caught.value)


def test_a_grid_needs_steps(graph: KnowledgeGraph) -> None:
    with pytest.raises(RecipeError, match=r"space.train.learning_rate: this sampler needs a grid"):
        quick_plan(graph, sampler="paper")


def test_a_model_that_cannot_be_built_is_refused_before_any_trial(graph: KnowledgeGraph) -> None:
    recipe = quick_recipe(model__name="complex")
    with pytest.raises(RecipeError, match=r"model.entity_dim = 5: complex needs an even number"):
        quick_plan(graph, recipe=recipe, space={"model.entity_dim": {"values": [4, 5]}})
