"""A training that its watcher ends: it keeps its best epoch, and its recipe gives it again."""

from pathlib import Path
from typing import Any

import pytest
import torch

from reltucker.errors import EndedTooEarlyError
from reltucker.graph import KnowledgeGraph
from reltucker.run import train
from reltucker.training import BEST, CHECKPOINT, Enough, Recipe, RunFolder, Training, settled
from tests.conftest import disjoint, random_graph


class Ender:
    """Has enough after so many epochs, or in the middle of the next one."""

    def __init__(self, epochs: int, within: bool) -> None:
        self.epochs, self.within = epochs, within

    def step(self, epoch: int, done: int, total: int) -> None:
        if self.within and epoch > self.epochs:
            raise Enough

    def epoch(self, record: dict[str, Any]) -> None:
        if not self.within and record["epoch"] == self.epochs:
            raise Enough


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return disjoint(random_graph(5))


def begun(
    path: Path, graph: KnowledgeGraph, watcher: Ender | None, **changes: int
) -> tuple[Training, RunFolder]:
    values = {
        "model.entity_dim": 8,
        "train.batch_size": 32,
        "train.negatives": 6,
        "train.epochs": 12,
        "train.validate_every": 2,
        "train.averaged_epochs": 2.0,
    }
    recipe = settled(Recipe().with_values({**values, **changes}), graph)
    folder = RunFolder.create(path, recipe, graph)
    return Training(recipe, graph, folder, watcher), folder


def same_weights(first: RunFolder, second: RunFolder) -> bool:
    one, other = (folder.load_tensors(BEST)[0] for folder in (first, second))
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("within", [False, True])
def test_its_recipe_gives_the_same_model_again(
    within: bool, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    training, folder = begun(tmp_path / "cut", graph, Ender(5, within))
    result = training.run()
    assert result["ended_early"]
    assert result["epochs"] == 4  # the last one that was validated
    recipe = folder.recipe()
    assert recipe.train.epochs == 4
    again = train(graph, recipe, out=tmp_path / "again", progress=False)
    assert again.result is not None
    for key in ("epochs", "best_epoch", "seen", "standard", "effective_parameters"):
        assert again.result[key] == result[key]
    assert same_weights(folder, RunFolder(again.path))


def test_it_goes_on_from_its_checkpoint_as_if_nothing_had_been(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    training, folder = begun(tmp_path / "cut", graph, Ender(5, within=False))
    training.run()
    assert folder.has(CHECKPOINT)
    resumed = Training(training.recipe, graph, folder, None)
    resumed.restore()
    assert resumed.epoch == 5
    result = resumed.run()
    whole, other = begun(tmp_path / "whole", graph, None)
    expected = whole.run()
    for key in ("epochs", "best_epoch", "seen"):
        assert result[key] == expected[key]
    assert same_weights(folder, other)


def test_without_a_validated_epoch_there_is_nothing_to_keep(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    training, folder = begun(tmp_path / "cut", graph, Ender(1, within=False))
    with pytest.raises(EndedTooEarlyError, match="before its first validation"):
        training.run()
    assert folder.result() is None


def test_the_last_epoch_counts_in_any_case(graph: KnowledgeGraph, tmp_path: Path) -> None:
    changes = {"train.epochs": 5}
    training, folder = begun(tmp_path / "cut", graph, Ender(5, within=False), **changes)
    assert training.run()["epochs"] == folder.recipe().train.epochs == 5
