"""Spaces with regions: every recipe of them can be trained, on graphs of all sizes."""

from pathlib import Path

import optuna
import pytest
from optuna.samplers import RandomSampler

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES
from reltucker.search import Plan, Space, make_plan, recipe_and_space
from reltucker.search.regions import REGION
from reltucker.training import Recipe, check
from tests.conftest import random_graph

SMALL = {
    "complex-n3",
    "complex-n3-large",
    "complex-dura",
    "complex-paper",
    "cp-n3",
    "drt-norm",
    "drt-dura",
    "block-norm",
    "block-dura",
    "rescal-dura",
}
SAMPLED = {"complex-sampled", "drt-sampled", "block-sampled"}


def plan_of(graph: KnowledgeGraph, *options: str, share: float | None = 5.0, **more: int) -> Plan:
    recipe, space = recipe_and_space("random", None, "tpe", {}, options)
    return make_plan(recipe, space, graph, "tpe", share=share, **more)


def drawn(plan: Plan, count: int) -> list[Recipe | None]:
    """Recipes of settings at random."""
    study = optuna.create_study(sampler=RandomSampler(seed=1))
    return [plan.recipe_for(plan.suggest(study.ask()))[0] for _ in range(count)]


@pytest.mark.parametrize(
    ("entities", "relations", "triples"),
    [(14, 55, 1600), (40, 1, 100), (60, 3, 300), (300, 20, 4000), (2000, 45, 30000)],
)
@pytest.mark.parametrize("share", [2.5, 60.0])
def test_the_search_begins_with_recipes_that_can_be_trained(
    entities: int, relations: int, triples: int, share: float
) -> None:
    graph = random_graph(1, entities=entities, relations=relations, train=triples)
    plan = plan_of(graph, share=share)
    expected = SMALL
    assert set(plan.regions) <= expected
    assert share < 60 or set(plan.regions) == expected
    for name, region in plan.regions.items():
        recipe, _ = plan.recipe_for({REGION: name, **region.start})
        assert recipe is not None
        check(recipe, graph)


def test_no_setting_that_is_drawn_is_refused() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    graph = random_graph(2, entities=200, train=3000, relations=6)
    recipes = drawn(plan_of(graph), 400)
    for recipe in recipes:
        assert recipe is not None
        check(recipe, graph)
    assert {recipe.model.name for recipe in recipes if recipe} == {
        "complex",
        "cp",
        "drt",
        "block",
        "rescal",
    }


def test_no_setting_that_is_drawn_for_a_large_graph_is_refused() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    graph = random_graph(3, entities=6000, train=9000)
    plan = plan_of(graph, share=200.0)
    assert set(plan.regions) == SMALL | SAMPLED
    for recipe in drawn(plan, 150):
        assert recipe is not None
        check(recipe, graph)


def test_sizes_follow_the_time() -> None:
    graph = random_graph(4, entities=3000, train=20000)
    short, long = plan_of(graph, share=1.0), plan_of(graph, share=100.0)
    assert "complex-n3-large" not in short.regions
    high = [p.regions["complex-n3"].space["model.entity_dim"].high for p in (short, long)]
    start = [p.regions["complex-n3"].start["model.entity_dim"] for p in (short, long)]
    assert high[0] < high[1] == 400
    assert start[0] <= high[0]
    assert start[1] == 200
    # However short the time is, something is tried.
    assert len(plan_of(graph, share=0.001).regions) == 1


def test_what_is_given_holds_in_every_region(graph: KnowledgeGraph) -> None:
    plan = plan_of(graph, "train.epochs=3", "model.reciprocal=false", "train.learning_rate=0.07")
    assert set(plan.regions) == {name for name in SMALL if not name.endswith("norm")}
    for recipe in drawn(plan, 30):
        assert recipe is not None
        train = recipe.train
        assert (train.epochs, recipe.model.reciprocal, train.learning_rate) == (3, False, 0.07)


def test_what_goes_with_no_region_is_refused(graph: KnowledgeGraph) -> None:
    with pytest.raises(RecipeError, match="no effect here"):
        plan_of(graph, "train.plateau_patience=7")


@pytest.mark.parametrize("model", sorted(set(CORES) - {"merged"}))
def test_a_model_may_be_named(model: str, graph: KnowledgeGraph) -> None:
    recipe, space = recipe_and_space("random", None, "tpe", {"model.name": model}, [])
    plan = make_plan(recipe, space, graph, "tpe")
    assert bool(plan.regions) == (model != "srt")  # which has no region, nor has any like it
    for found in drawn(plan, 10):
        assert found is not None
        assert found.model.name == model
        check(found, graph)


def test_a_limit_of_parameters_narrows_regions(graph: KnowledgeGraph) -> None:
    plan = plan_of(graph, max_parameters=5000)
    assert "complex-n3-large" not in plan.regions
    assert "complex-n3" in plan.regions
    recipes = drawn(plan, 40)
    assert any(recipes)
    start = plan.regions["complex-n3"].start
    assert plan.recipe_for({REGION: "complex-n3", **start})[0] is not None
    with pytest.raises(RecipeError, match="--max-parameters 10"):
        plan_of(graph, max_parameters=10)


def test_a_plan_with_regions_is_stored_whole(graph: KnowledgeGraph) -> None:
    plan = plan_of(graph)
    again = Plan.model_validate(plan.model_dump(mode="json"))
    assert again == plan
    again.check_same(plan, "here")


REGIONS = """
[common.train]
epochs = 5
[[region]]
name = "one"
[region.settings.model]
name = "distmult"
[region.space.train]
learning_rate = { low = 0.01, high = 0.5, log = true, start = 0.1 }
"""


def test_a_file_may_have_regions_of_its_own(tmp_path: Path, graph: KnowledgeGraph) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(REGIONS)
    recipe, space = recipe_and_space("random", str(path), "random", {}, [])
    plan = make_plan(recipe, space, graph, "random")
    assert plan.starts() == [{REGION: "one", "one/train.learning_rate": 0.1}]
    (found,) = drawn(plan, 1)
    assert found is not None
    assert (found.model.name, found.train.epochs) == ("distmult", 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (REGIONS.replace(", start = 0.1", ""), "train.learning_rate needs a start"),
        (REGIONS + REGIONS.partition("epochs = 5")[2], "two regions have the same name"),
        (REGIONS + "[space.model]\nentity_dim = {values = [4]}", "either .space. or"),
        ("[space.model]\nentity_dim = {values = [4], start = 4}", "only a .*region.* has a start"),
        (REGIONS.replace('name = "one"', 'name = "One/"'), "region.0.name"),
    ],
)
def test_a_mistake_in_regions_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        Space.load(path)


def test_names_of_spaces() -> None:
    assert recipe_and_space("families", None, "tpe", {}, [])[1].source == "default"
    assert recipe_and_space("families", None, "gp", {}, [])[1].source == "simple"
    assert recipe_and_space("families", None, "grid", {}, [])[1].source == "simple"
    assert recipe_and_space("wn18rr", "paper", "tpe", {}, [])[1].source == "paper"
    with pytest.raises(RecipeError, match="default, simple, paper and files"):
        recipe_and_space("families", "other", "tpe", {}, [])
    with pytest.raises(RecipeError, match="--sampler gp knows no regions; use tpe or random"):
        recipe_and_space("families", "default", "gp", {}, [])


def test_a_recipe_file_is_searched_around_its_own_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[graph]\nsource = 'families'\n[model]\nname = 'drt'\nreciprocal = true\n")
    recipe, space = recipe_and_space(str(path), None, "tpe", {}, [])
    assert space.source == "simple"
    assert recipe.model.reciprocal
