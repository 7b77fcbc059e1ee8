from pathlib import Path

import pytest

from reltucker.errors import RecipeError
from reltucker.training import Recipe


def test_defaults_are_the_papers_protocol() -> None:
    train = Recipe().train
    assert (train.batch_size, train.negatives, train.patience) == (500, 24, 10)


def test_a_saved_recipe_comes_back_the_same(tmp_path: Path) -> None:
    recipe = Recipe().changed(["train.learning_rate=0.05", "model.name=complex", "graph.seed=4"])
    recipe.save(tmp_path / "r.toml")
    assert Recipe.load(tmp_path / "r.toml") == recipe
    assert "entity_dropout" in (tmp_path / "r.toml").read_text()


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.learning_rat=1", r"no setting 'train.learning_rat'; did you mean 'train.learning_"),
        ("trian.epochs=1", r"no setting 'trian'; did you mean 'train'"),
        ("learning_rate=1", r"no setting 'learning_rate'; did you mean 'train.learning_rate'"),
        ("train.learning_rate=-1", r"train.learning_rate = -1.*greater than 0"),
        ("train.learning_rate=inf", r"train.learning_rate = inf.*finite"),
        ("train.entity_dropout=1.0", r"train.entity_dropout = 1.0.*less than 1"),
        ("train.epochs=two", r"train.epochs = 'two'.*integer"),
        ("train.epochs=1.5", r"train.epochs = 1.5.*integer"),
        ("model.name=complx", r"no model 'complx'; did you mean 'complex'"),
        ("train.device=tpu", r"train.device = 'tpu'.*'auto', 'cpu' or 'cuda'"),
        ("train.epochs", r"KEY=VALUE"),
        ("train.epochs.more=1", r"train.epochs = .*integer"),
        ("train.seed=99999999999999999999", r"train.seed"),
    ],
)
def test_wrong_settings_are_refused_by_name(assignment: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        Recipe().changed([assignment])
    assert "\n" not in str(caught.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    with pytest.raises(RecipeError, match=r"r\.toml: there is no such recipe"):
        Recipe.load(path)
    path.write_text("[train\n")
    with pytest.raises(RecipeError, match=r"r\.toml: not a readable TOML file"):
        Recipe.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match=r"r\.toml: not a readable TOML file"):
        Recipe.load(path)
    path.write_text("[train]\nepoch = 3\n")
    with pytest.raises(RecipeError, match=r"r\.toml: there is no setting 'train.epoch'"):
        Recipe.load(path)


def test_a_setting_is_no_section() -> None:
    recipe = Recipe().with_values({"train.epochs": 3})
    with pytest.raises(RecipeError, match=r"'epochs' in 'train.epochs.more' is not a section"):
        recipe.with_values({"train.epochs.more": 1})


def test_what_was_set_is_remembered() -> None:
    recipe = Recipe().with_values({"train.epochs": 200}).changed(["model.name=drt"])
    assert recipe == Recipe()
    assert recipe.given() == {"train.epochs": 200, "model.name": "drt"}
    assert recipe.with_values({"train.seed": 1}).given().keys() == {
        "train.epochs",
        "train.seed",
        "model.name",
    }


def test_an_open_recipe_may_set_what_needs_a_partner() -> None:
    open_recipe = Recipe.preset("good")
    recipe = open_recipe.changed(["model.batch_norm=true", "train.regularizer_weight=0.1"])
    assert recipe.is_open
    with pytest.raises(RecipeError, match=r"batch_norm needs model\.reciprocal"):
        recipe.with_values({"recipe.settled": True})
    with pytest.raises(RecipeError, match=r"recipe\.preset = 'bets'"):
        Recipe().changed(["recipe.preset=bets"])
    with pytest.raises(RecipeError, match=r"the recipe has every setting"):
        Recipe().with_values({"recipe.settled": True}).by_preset("best")


def test_a_recipe_on_another_graph_has_no_labels_of_the_former() -> None:
    recipe = Recipe().changed(["graph.source=a", "graph.labels=names.tsv", "graph.seed=3"])
    other = recipe.on("b.tsv")
    assert (other.graph.source, other.graph.labels, other.graph.seed) == ("b.tsv", None, 3)
