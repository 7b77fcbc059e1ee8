"""A tiny run whose names hold what names may hold."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reltucker.graph import Vocabulary
from reltucker.run import Run, train
from reltucker.serving.http import Predictor, make_app
from reltucker.training import Recipe
from tests.conftest import random_graph
from tests.serving.http.client import Client

HOSTILE = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'so on'",
    "שלום עולם",
    "a\0b",
    "x" * 10_000,
    "../../etc/passwd",
    "\N{PARTY POPPER} \N{RIGHT-TO-LEFT OVERRIDE}z",
]
RUN = "/api/runs/run"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    graph = random_graph(0)
    names = [*HOSTILE, *graph.entities.names[len(HOSTILE) :]]
    labels = [None if number % 2 else f"Entity {number // 2}" for number in range(len(names))]
    graph = replace(graph, entities=Vocabulary(names, labels, "entity"))
    recipe = Recipe().changed(
        ["model.entity_dim=6", "train.negatives=6", "train.epochs=3", "train.batch_size=50"]
    )
    return train(graph, recipe, out=tmp_path_factory.mktemp("served") / "run", progress=False)


@pytest.fixture(scope="session")
def predictor(run: Run) -> Predictor:
    return Predictor.of(run, "run")


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[Client]:
    with Client(make_app([predictor])) as client:
        yield client
