"""The running mean of the weights."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from reltucker.errors import RunError
from reltucker.run import open_run, train
from reltucker.training import BEST, CHECKPOINT, RunFolder, Training
from reltucker.training.averaging import UPDATES, WeightAverage
from tests.conftest import random_graph
from tests.training.test_training import quick


@pytest.mark.parametrize("steps", [1, 5, UPDATES - 1, UPDATES, 100, 1000])
def test_an_epoch_takes_the_weights_in_evenly(steps: int) -> None:
    average = WeightAverage(nn.Linear(2, 2), 1.0)
    due = [step for step in range(steps) if average.is_due(step, steps)]
    assert len(due) == min(UPDATES, steps)
    assert due[-1] == steps - 1
    gaps = {b - a for a, b in itertools.pairwise(due)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1


def test_the_mean_is_equal_at_first_and_then_fades() -> None:
    model = nn.Linear(1, 1, bias=False)
    average = WeightAverage(model, 0.5)  # of 4 steps an epoch: two are remembered
    expected, means = 0.0, []
    for value, share in ((8.0, 1.0), (4.0, 0.5), (2.0, 0.5), (10.0, 0.5)):
        nn.init.constant_(model.weight, value)
        average.update(model, 4)
        expected += share * (value - expected)
        means.append((float(average.means["weight"]), expected))
    assert means == [(e, e) for _, e in means]


def test_the_mean_takes_the_place_of_the_weights_for_a_while() -> None:
    model = nn.BatchNorm1d(3)
    average = WeightAverage(model, 1.0)
    nn.init.constant_(model.weight, 5.0)
    model.running_mean += 2.0
    optimised = model.weight
    with average.in_place_of_weights(model):
        assert model.weight is optimised
        assert model.weight.tolist() == [1.0] * 3
        assert model.running_mean.tolist() == [0.0] * 3
    assert model.weight.tolist() == [5.0] * 3
    assert model.running_mean.tolist() == [2.0] * 3


class Weights:
    """A watcher that keeps the weights after every step."""

    def __init__(self) -> None:
        self.training: Any = None
        self.kept: list[dict[str, torch.Tensor]] = []

    def step(self, epoch: int, done: int, total: int) -> None:
        self.kept.append(
            {name: p.detach().clone() for name, p in self.training.model.named_parameters()}
        )

    def epoch(self, record: dict[str, Any]) -> None:
        pass


def test_a_run_keeps_the_mean_and_trains_on_with_the_weights(tmp_path: Path) -> None:
    """With a mean over more epochs than there are, the kept model is the mean of all steps, and
    training is that of a run without."""
    graph = random_graph(4, valid=0)
    changes = ["model.name=drt", "train.batch_size=20", "train.epochs=3"]
    recipe = quick(*changes, "train.averaged_epochs=50")
    watcher = Weights()
    folder = RunFolder.create(tmp_path / "mean", recipe, graph)
    watcher.training = Training(recipe, graph, folder, watcher)
    watcher.training.run()
    plain = train(graph, quick(*changes), out=tmp_path / "plain", progress=False)
    best = load_file(tmp_path / "mean" / BEST)
    last = load_file(plain.path / BEST)
    assert len(watcher.kept) // 3 <= UPDATES
    for name in ("E", "R", "core.slices"):
        mean = torch.stack([weights[name] for weights in watcher.kept]).mean(0)
        torch.testing.assert_close(best[name], mean, rtol=1e-4, atol=1e-5)
        assert torch.equal(watcher.kept[-1][name], last[name])
        assert not torch.equal(best[name], last[name])


def test_a_checkpoint_without_the_mean_is_told_of(tmp_path: Path) -> None:
    run = train(random_graph(2), quick(), out=tmp_path / "run", progress=False)
    text = (run.path / "recipe.toml").read_text()
    text = text.partition("\n")[2]
    (run.path / "recipe.toml").write_text(
        text.replace("averaged_epochs = 0.0", "averaged_epochs = 2.0")
    )
    (run.path / "result.json").unlink()
    with pytest.raises(RunError, match=r"does not fit the run's recipe .*mean of the weights"):
        open_run(run.path).resume(progress=False)


def test_a_mean_of_other_sizes_is_told_of(tmp_path: Path) -> None:
    recipe = quick("train.averaged_epochs=2")
    run = train(random_graph(2), recipe, out=tmp_path / "run", progress=False)
    tensors, state = RunFolder(run.path).load_tensors(CHECKPOINT)
    tensors["average.means.E"] = tensors["average.means.E"][:-1].clone()
    RunFolder(run.path).save_tensors(CHECKPOINT, tensors, state)
    (run.path / "result.json").unlink()
    with pytest.raises(RunError, match=r"does not fit the run's recipe .*of other sizes"):
        open_run(run.path).resume(progress=False)
