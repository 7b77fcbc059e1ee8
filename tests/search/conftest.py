"""What the tests of the search share: a small graph as files, a quick recipe, a plan."""

from pathlib import Path
from typing import Any

import pytest

from reltucker.graph import KnowledgeGraph
from reltucker.search import Plan, SearchResult, Space, make_plan, run_search
from reltucker.search import search as search_module
from reltucker.search.parameter import Parameter
from reltucker.search.workers import Workers, work
from reltucker.training import Recipe
from tests.conftest import disjoint, random_graph, write_graph

QUICK = {
    "model.name": "distmult",
    "model.entity_dim": 8,
    "train.epochs": 3,
    "train.batch_size": 64,
    "train.negatives": 6,
}
SPACE = {
    "model.entity_dim": {"values": [4, 8]},
    "train.learning_rate": {"low": 0.02, "high": 0.5, "log": True},
}


def quick_recipe(source: Path | str = "random", **values: Any) -> Recipe:
    """A recipe that trains in a moment; keyword arguments have __ for the dot."""
    changes = {key.replace("__", "."): value for key, value in values.items()}
    return Recipe().with_values({**QUICK, "graph.source": str(source), **changes})


def space_of(parameters: dict[str, dict[str, Any]]) -> Space:
    return Space("test", {key: Parameter(**value) for key, value in parameters.items()})


def quick_plan(graph: KnowledgeGraph, **options: Any) -> Plan:
    """A plan over SPACE; options are those of make_plan, and `recipe` and `space`."""
    recipe = options.pop("recipe", quick_recipe())
    space = options.pop("space", SPACE)
    sampler = options.pop("sampler", "random")
    return make_plan(recipe, space_of(space), graph, sampler, **options)


class WorkerHere(Workers):
    """Does the work in this very process, where the process is not the subject."""

    def attend(self, left: int, running: int) -> None:
        if left:
            work(self.out, self.storage)


def search_here(space: dict[str, dict[str, Any]], recipe: Recipe, **options: Any) -> SearchResult:
    """A search without processes of its own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_module, "Workers", WorkerHere)
        patched.setattr(search_module, "POLL_SECONDS", 0.0)
        result = run_search(recipe, space_of(space), progress=False, **options)
    assert result is not None
    return result


@pytest.fixture(scope="session")
def graph() -> KnowledgeGraph:
    return disjoint(random_graph(5))


@pytest.fixture(scope="session")
def graph_files(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(graph, tmp_path_factory.mktemp("graph") / "small")
