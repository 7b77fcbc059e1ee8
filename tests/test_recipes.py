"""Every recipe that ships can be read, builds the model that it names, and is found by name."""

from pathlib import Path

import pytest
import torch

from reltucker.errors import RecipeError
from reltucker.graph.catalog import ENTRIES
from reltucker.search import Space, graph_and_recipe, recipe_and_space
from reltucker.training import Recipe, build_model, names_recipe, recipe_file, recipe_names
from tests.cli.test_commands import run

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "src" / "reltucker" / "recipes").rglob("*.toml"))
NAME = "best/wn18rr-rescal-256"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_valid(path: Path) -> None:
    recipe = Recipe.load(path)
    assert recipe.graph.source in ENTRIES
    with torch.device("meta"):
        model = build_model(recipe, 10, 237)
    assert model.core.name == recipe.model.name


def test_there_are_recipes() -> None:
    assert RECIPES


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
    recipe = Recipe.load(f"paper/{name}")
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


# -- by name --------------------------------------------------------------------------------------


def test_every_recipe_is_found_by_name() -> None:
    files = [recipe_file(name) for name in recipe_names()]
    assert sorted(files) == RECIPES
    for spelling in (NAME, f"{NAME}.toml", f"recipes/{NAME}.toml", Path(NAME)):
        assert Recipe.load(spelling) == Recipe.load(RECIPES[0].parent / f"{Path(NAME).name}.toml")


def test_paths_of_the_documentation_lead_to_the_package() -> None:
    assert (ROOT / "recipes" / f"{NAME}.toml").samefile(recipe_file(NAME))


def test_a_file_of_the_users_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path(f"{NAME}.toml")
    own.parent.mkdir()
    own.write_text("[graph]\nsource = 'families'\n[train]\nepochs = 3\n")
    for spelling in (NAME, str(own)):
        assert recipe_file(spelling) == own
        assert graph_and_recipe(spelling, {}, [])[0] == "families"
    Path(NAME).mkdir()
    assert not names_recipe(NAME), "a folder of triples is a graph"


@pytest.mark.parametrize("name", ["families", "mine.tsv", "runs/mine", "./best/mine", "best"])
def test_other_words_are_graphs(name: str) -> None:
    assert not names_recipe(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("best/wn18rr-rescal-25", "did you mean 'best/wn18rr-rescal-256'?"),
        ("wn18rr-rescal-256", "did you mean 'best/wn18rr-rescal-256'?"),
        ("paper/wn18rr-drt-200.toml", "did you mean 'paper/wn18rr-drt-200-11'?"),
        ("best/", f"there are {', '.join(recipe_names())}"),
        ("best/../paper/wn18rr-drt-200-11", "did you mean 'paper/wn18rr-drt-200-11'?"),
        ("paper/" + "x" * 5000, f"there are {', '.join(recipe_names())}"),
    ],
)
def test_a_name_that_does_not_exist_leads_to_those_that_do(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError) as caught:
        Recipe.load(name)
    told = f"{name[:200]}: there is no such file, and no recipe of that name; {hint}"
    assert str(caught.value) == told
    for command in ("train", "search"):
        assert run(command, name, cwd=tmp_path, code=2).stderr == f"error: {told}\n"


def test_a_recipe_by_name_is_trained_and_searched_on_another_graph(tmp_path: Path) -> None:
    shown = run(
        "train",
        NAME,
        "--graph",
        "families",
        "--set",
        "train.negatives=400",
        "--show-recipe",
        cwd=tmp_path,
    ).stdout
    assert 'source = "families"' in shown
    assert 'name = "rescal"' in shown
    recipe, space = recipe_and_space(NAME, None, "tpe", {}, [], graph="families")
    assert (recipe.model.name, recipe.graph.source, space.source) == (
        "rescal",
        "families",
        "simple",
    )
