from pathlib import Path

import pytest

from reltucker.errors import RecipeError
from reltucker.training import Recipe
from reltucker.training.recipe import graph_and_recipe


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
        ("train.epochs.more=1", r"'epochs' in 'train.epochs.more' is not a section"),
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


def test_a_recipe_names_its_graph(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[train]\nepochs = 3\n")
    with pytest.raises(RecipeError, match=r"graph\.source is missing"):
        graph_and_recipe(str(path), {}, [])
    path.write_text('[graph]\nsource = "data.tsv"\n')
    assert graph_and_recipe(str(path), {}, [])[0] == "data.tsv"
    (tmp_path / "data.tsv").write_text("a\tb\tc\n")
    assert graph_and_recipe(str(path), {}, [])[0] == str(tmp_path / "data.tsv")
    assert graph_and_recipe(str(path), {}, ["graph.source='wn18rr'"])[0] == "wn18rr"
    source, recipe = graph_and_recipe("families", {"train.epochs": 3}, ["train.seed=2"])
    assert (source, recipe.train.epochs, recipe.train.seed) == ("families", 3, 2)
