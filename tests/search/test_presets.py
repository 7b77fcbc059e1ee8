"""Presets: sane for every size, faithful to what was set, and never refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker import Recipe, load_graph, open_run, train
from reltucker.choices import PresetName
from reltucker.errors import GraphError, RecipeError
from reltucker.model import CORES
from reltucker.run import prepared
from reltucker.search import filled, graph_and_recipe
from reltucker.search.graph_sizes import GraphSizes
from reltucker.search.presets import EFFORTS, choose
from reltucker.training import settled
from reltucker.training.objectives import OBJECTIVES
from reltucker.training.recipe import refuse_idle
from reltucker.training.setup import check
from tests.conftest import random_graph

TRAINED = sorted(set(CORES) - {"merged"})
"""A merged core is made of runs, not trained."""

TINY = {
    "one triple": [("a", "r", "b")],
    "a loop": [("a", "r", "a")],
    "five triples": [
        ("a", "r", "b"),
        ("b", "r", "c"),
        ("c", "s", "a"),
        ("a", "s", "c"),
        ("b", "s", "b"),
    ],
    "one relation": [(f"e{i}", "r", f"e{i * 7 % 12}") for i in range(12)],
}

GRAPHS = {
    "nations": GraphSizes(14, 14, 55, 1_592, 909),
    "umls": GraphSizes(135, 135, 46, 5_216, 1_560),
    "families": GraphSizes(442, 442, 20, 7_947, 6_461),
    "small": GraphSizes(2_000, 2_000, 40, 33_000, 20_000),
    "fb15k-237": GraphSizes(14_541, 14_505, 237, 272_115, 149_689),
    "wn18rr": GraphSizes(40_943, 40_559, 11, 86_835, 103_509),
    "large": GraphSizes(120_000, 120_000, 37, 1_000_000, 700_000),
    "five million": GraphSizes(5_000_000, 4_800_000, 800, 20_000_000, 25_000_000),
}


def recipe_of(preset: Any, sizes: GraphSizes, given: dict[str, Any] | None = None) -> Recipe:
    recipe = Recipe.preset(preset).with_values(given or {})
    chosen = choose(preset, sizes, recipe.given())
    return recipe.with_values({**chosen, "recipe.settled": True})


def test_sizes_are_counted() -> None:
    graph = load_graph([("a", "r", "b"), ("a", "r", "c"), ("b", "r", "c"), ("a", "s", "c")])
    triples = {tuple(row) for row in graph.named(graph.train).iter_rows()}
    questions = {(i, k, None) for i, k, _ in triples} | {(None, k, j) for _, k, j in triples}
    sizes = GraphSizes.of(graph)
    assert sizes.triples == len(triples)
    assert sizes.questions == len(questions)
    assert (sizes.entities, sizes.relations) == (3, 2)


@pytest.mark.parametrize("preset", EFFORTS)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_size_gets_settings_that_can_be_trained(preset: Any, name: str) -> None:
    sizes = GRAPHS[name]
    recipe = recipe_of(preset, sizes)
    refuse_idle(recipe)
    assert recipe_of(preset, sizes) == recipe
    model, how = recipe.model, recipe.train
    assert 20 <= model.entity_dim <= 4_000
    assert sizes.entities * model.entity_dim * 24 < 8e9, "bytes of training"
    assert 8 <= how.epochs <= 1_000
    assert 5 <= how.patience <= how.epochs
    assert how.objective == ("k_vs_all" if sizes.entities < 20_000 else "negative_sampling")
    assert how.negatives < sizes.seen_entities or how.objective == "k_vs_all"


@pytest.mark.parametrize("name", GRAPHS)
def test_a_larger_effort_is_not_less_of_anything(name: str) -> None:
    fast, good, best = (recipe_of(preset, GRAPHS[name]) for preset in ("fast", "good", "best"))
    dims = [recipe.model.entity_dim for recipe in (fast, good, best)]
    work = [recipe.model.entity_dim * recipe.train.epochs for recipe in (fast, good, best)]
    assert dims == sorted(dims)
    assert work == sorted(work)
    assert work[0] < work[2]


@pytest.mark.parametrize("preset", EFFORTS)
def test_a_larger_graph_never_gets_more_epochs_of_a_larger_model(preset: Any) -> None:
    work = []
    for entities in (1_000, 3_000, 8_000, 20_000):
        sizes = GraphSizes(entities, entities, 50, 20 * entities, 20 * entities)
        recipe = recipe_of(preset, sizes)
        work.append(recipe.model.entity_dim * recipe.train.epochs)
    assert work == sorted(work, reverse=True)


@pytest.mark.parametrize("preset", EFFORTS)
@pytest.mark.parametrize("objective", [None, *OBJECTIVES])
@pytest.mark.parametrize("core", TRAINED)
def test_every_core_and_objective_gets_settings_that_fit(
    preset: Any, objective: str | None, core: str
) -> None:
    graph = random_graph(0)
    asked = {"model.name": core} | ({"train.objective": objective} if objective else {})
    recipe = filled(Recipe.preset(preset).with_values(asked), graph)
    check(recipe, graph)
    assert asked.items() <= recipe.given().items()
    assert recipe.model.name == core
    settled(recipe, graph)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "model.name": st.sampled_from(TRAINED),
    "model.entity_dim": st.sampled_from([4, 60, 120]),
    "model.reciprocal": st.booleans(),
    "model.init_scale": st.sampled_from([0.01, 0.3]),
    "train.objective": st.sampled_from(sorted(OBJECTIVES)),
    "train.epochs": st.integers(1, 500),
    "train.batch_size": st.integers(1, 5_000),
    "train.relation_prediction": st.sampled_from([0.0, 2.0]),
    "train.optimizer": st.sampled_from(["adam", "adagrad"]),
    "train.learning_rate": st.floats(0.001, 0.5),
    "train.schedule": st.sampled_from(["constant", "exponential", "plateau"]),
    "train.averaged_epochs": st.sampled_from([0.0, 2.0]),
    "train.entity_dropout": st.sampled_from([0.0, 0.3]),
    "train.query_dropout": st.sampled_from([0.0, 0.3]),
    "train.regularizer": st.sampled_from(["none", "n3", "dura", "lp"]),
    "train.patience": st.integers(1, 99),
    "train.seed": st.integers(0, 9),
}


@given(
    st.sampled_from(sorted(EFFORTS)),
    st.sampled_from(sorted(GRAPHS)),
    st.fixed_dictionaries({}, optional=VALUES),
)
@settings(max_examples=150, deadline=None)
def test_what_was_set_is_kept_and_fitted_to(preset: Any, name: str, asked: dict[str, Any]) -> None:
    chosen = choose(preset, GRAPHS[name], asked)
    assert not chosen.keys() & asked.keys()
    recipe = Recipe().with_values({**asked, **chosen, "recipe.settled": True})
    refuse_idle(recipe)
    assert all(recipe.value(key) == value for key, value in asked.items())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"train.negatives": 5}, {"train.objective": "negative_sampling"}),
        ({"train.label_smoothing": 0.1}, {"train.objective": "k_vs_all"}),
        ({"train.loss": "binary"}, {"train.answers_at_once": None, "train.answer_exponent": 0.0}),
        ({"model.relation_dim": 7}, {"model.name": "drt"}),
        ({"train.max_density": 0.5}, {"model.name": "srt"}),
        ({"train.orthogonality": 0.1}, {"model.name": "drt"}),
        ({"core.blocks": 4}, {"model.name": "block"}),
        ({"core.scalar_share": 0.3}, {"model.name": "analogy"}),
        ({"model.batch_norm": True}, {"model.reciprocal": True, "train.regularizer": "none"}),
        ({"model.name": "drt", "model.reciprocal": False}, {"model.batch_norm": False}),
        ({"train.optimizer": "adam"}, {"train.learning_rate": 0.003}),
        ({"train.regularizer": "none"}, {"train.regularizer_weight": 0.0}),
        ({"train.regularizer_weight": 0.0}, {"train.regularizer": "none"}),
    ],
)
def test_choices_follow_from_what_was_set(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    recipe = recipe_of("good", GRAPHS["small"], asked)
    assert {key: recipe.value(key) for key in expected} == expected


def test_the_examples_of_the_documentation_are_what_good_chooses() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    lines = text.partition("| for example |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(rows) >= 5
    for name, *figures in rows:
        sizes = GRAPHS[name]
        recipe = recipe_of("good", sizes)
        how = recipe.train
        counts = [sizes.entities, sizes.relations, sizes.triples]
        chosen = [recipe.model.entity_dim, how.batch_size, how.epochs]
        held = f"{how.regularizer} {how.regularizer_weight:g}"
        shown = [f"{number:,}" for number in counts + chosen]
        assert figures == [*shown, held, f"{how.relation_prediction:g}"]


def test_the_papers_preset_is_the_papers_protocol() -> None:
    recipe = filled(Recipe.preset("paper"), random_graph(0))
    named = {"recipe.preset": "paper", "recipe.settled": True}
    assert recipe == Recipe().with_values(named)


def test_a_recipe_without_a_preset_stays_as_it_is() -> None:
    recipe = Recipe().with_values({"train.epochs": 3})
    assert filled(recipe, random_graph(0)) is recipe


@pytest.mark.filterwarnings("ignore:train.negatives")
@pytest.mark.parametrize(
    ("name", "preset"),
    [*((name, "good") for name in TINY), *(("five triples", p) for p in ("fast", "best", "paper"))],
)
def test_tiny_graphs_are_trained(name: str, preset: PresetName, tmp_path: Path) -> None:
    out, changes = tmp_path / "run", {"train.epochs": 3}
    run = train(TINY[name], preset=preset, settings=changes, out=out, progress=False)
    assert run.recipe.recipe.preset == preset
    subject, relation, _ = TINY[name][0]
    assert run.predict(subject, relation, known=True).height >= 1


def test_a_graph_without_training_triples_is_refused() -> None:
    graph = random_graph(0)
    with pytest.raises(GraphError, match="there are no training triples"):
        prepared(replace(graph, train=graph.train[:0]))


def test_a_run_tells_its_preset_and_its_recipe_is_full(tmp_path: Path) -> None:
    graph = random_graph(0)
    asked = {"model.entity_dim": 8, "train.epochs": 2}
    run = train(graph, preset="fast", settings=asked, out=tmp_path / "run", progress=False)
    assert (run.recipe.recipe.preset, run.recipe.recipe.settled) == ("fast", True)
    assert prepared(graph, preset="fast", settings=asked)[1] == run.recipe
    assert prepared(graph, run.recipe)[1] == run.recipe
    source, loaded = graph_and_recipe(str(tmp_path / "run" / "recipe.toml"), {}, ["graph.source=g"])
    assert source == "g"
    assert filled(loaded, random_graph(5, entities=50)) == loaded
    assert open_run(tmp_path / "run").resume(progress=False).recipe == run.recipe


def test_a_recipe_names_its_graph(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[train]\nepochs = 3\n")
    with pytest.raises(RecipeError, match=r"graph\.source is missing"):
        graph_and_recipe(str(path), {}, [])
    assert graph_and_recipe(str(path), {}, [], graph="other.tsv")[0] == "other.tsv"
    path.write_text('[graph]\nsource = "data.tsv"\n')
    assert graph_and_recipe(str(path), {}, [])[0] == "data.tsv"
    (tmp_path / "data.tsv").write_text("a\tb\tc\n")
    assert graph_and_recipe(str(path), {}, [])[0] == str(tmp_path / "data.tsv")
    assert graph_and_recipe(str(path), {}, ["graph.source='wn18rr'"])[0] == "wn18rr"
    source, recipe = graph_and_recipe("families", {"train.epochs": 3}, ["train.seed=2"])
    assert (source, recipe.train.epochs, recipe.train.seed) == ("families", 3, 2)


def test_who_names_the_preset(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('[graph]\nsource = "families"\n')
    assert graph_and_recipe("families", {}, [])[1].recipe.preset == "good"
    assert graph_and_recipe("families", {}, [], preset="best")[1].recipe.preset == "best"
    assert graph_and_recipe(str(path), {}, [])[1].recipe.preset is None
    assert graph_and_recipe(str(path), {}, [], preset="fast")[1].recipe.preset == "fast"
    path.write_text('[recipe]\npreset = "best"\n[graph]\nsource = "families"\n')
    assert graph_and_recipe(str(path), {}, [])[1].recipe.preset == "best"
    with pytest.raises(RecipeError, match="is a graph"):
        graph_and_recipe("families", {}, [], graph="other.tsv")
