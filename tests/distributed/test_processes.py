"""Real processes, started as a user would start them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from reltucker import Recipe, load_graph, open_run, train
from reltucker.errors import RecipeError, RunError
from reltucker.training import RunFolder, check

pytestmark = pytest.mark.xdist_group("processes")  # two of its runs are used several times

RECIPE = """
[graph]
source = "families"
[model]
name = "drt"
entity_dim = 16
relation_dim = 8
reciprocal = true
batch_norm = true
[train]
objective = "k_vs_all"
sampled_epochs = 3
negatives = 100
optimizer = "adam"
learning_rate = 0.01
batch_size = 256
epochs = {epochs}
validate_every = 2
checkpoint_seconds = 0
peer_seconds = {patience}
"""


def recipe(folder: Path, epochs: int = 8, patience: int = 60) -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(epochs=epochs, patience=patience))
    return path


def reltucker(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reltucker", *map(str, arguments)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        **options,
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, err
    return out, err


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that do the work, by rank."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            environment = (path.parent / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        ranks = [int(e.partition(b"=")[2]) for e in environment if e.startswith(b"RANK=")]
        if parent == process.pid and ranks:
            found[ranks[0]] = int(path.parent.name)
    return [found[rank] for rank in sorted(found)]


def wait_for_epoch(run: Path, epoch: int, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if any(record["epoch"] >= epoch for record in RunFolder(run).epochs()):
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    raise AssertionError("no such epoch after a minute")


def figures(run: Path) -> list[float]:
    return [
        record["valid"]["seen"]["mrr"] for record in open_run(run).epochs() if "valid" in record
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody disturbed, beside its recipe."""
    folder = tmp_path_factory.mktemp("undisturbed")
    out = folder / "two"
    command = ("train", recipe(folder), "--processes", 2, "--out", out, "--json")
    assert json.loads(ended(reltucker(*command))[0])["run"] == str(out)
    return out


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process trains by the same recipe."""
    folder = tmp_path_factory.mktemp("alone")
    return train("families", Recipe.load(recipe(folder)), out=folder / "one", progress=False).path


def test_two_processes_train_what_one_trains(alone: Path, two: Path, tmp_path: Path) -> None:
    assert figures(two) == pytest.approx(figures(alone), abs=1e-3)
    losses = [[record["loss"] for record in open_run(r).epochs()] for r in (alone, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)

    run = open_run(two)
    assert run.result is not None
    assert run.result["processes"] == 2
    assert run.calibration is not None
    assert not list(run.path.glob("best-*-of-*"))  # one file, which opens anywhere

    # Ranks are the same whoever ranks: one process, or three that did not train it.
    expected = run.evaluate("test", progress=False).to_dict()
    found = json.loads(ended(reltucker("evaluate", run.path, "--processes", 3, "--json"))[0])
    for protocol in ("standard", "seen", "paper"):
        assert found[protocol] == pytest.approx(expected[protocol], abs=1e-9)
    assert found["effective_parameters"] == expected["effective_parameters"]

    # And so are answers.
    question = (run.graph.entities.names[0], "mother", "?")
    to_file = ("--out", tmp_path / "answers.csv", "--json")
    out, _ = ended(reltucker("predict", run.path, *question, "--processes", 2, *to_file))
    answers = run.predict(*question)
    assert [row["answer"] for row in json.loads(out)] == answers["answer"].to_list()
    assert len(pl.read_csv(tmp_path / "answers.csv")) == len(answers)


def test_a_process_that_is_killed_is_started_again_and_nothing_is_lost(
    two: Path, tmp_path: Path
) -> None:
    process = reltucker("train", recipe(tmp_path), "--processes", 2, "--out", tmp_path / "broken")
    wait_for_epoch(tmp_path / "broken", 4, process)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    _, err = ended(process)
    assert "has died by signal 9; all begin again from the last checkpoint" in err
    assert "Traceback" not in err
    assert figures(tmp_path / "broken") == figures(two)
    names = ("E", "R", "core.slices")
    whole, broken = (
        RunFolder(r).load_tensors("best.safetensors")[0] for r in (two, tmp_path / "broken")
    )
    assert all(torch.equal(whole[name], broken[name]) for name in names)


def test_a_run_goes_on_with_other_numbers_of_processes(alone: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path)
    process = reltucker("train", path, "--processes", 2, "--out", tmp_path / "run")
    for processes in (3, 1):
        wait_for_epoch(tmp_path / "run", {3: 2, 1: 4}[processes], process)
        process.send_signal(signal.SIGTERM)
        _, err = ended(process, 128 + signal.SIGTERM)
        assert "reltucker resume" in err
        assert open_run(tmp_path / "run").result is None
        command = ("resume", tmp_path / "run") if processes == 1 else ("train", path)
        where = () if processes == 1 else ("--out", tmp_path / "run")  # goes on as well
        process = reltucker(*command, *where, "--processes", processes)
    ended(process)
    assert figures(tmp_path / "run") == pytest.approx(figures(alone), abs=1e-3)
    # What one process has written replaces the files of several.
    assert (tmp_path / "run" / "best.safetensors").is_file()
    assert not list((tmp_path / "run").glob("*-of-*"))
    assert not list((tmp_path / "run").glob("*.index.json"))


def test_a_peer_that_hangs_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = recipe(tmp_path, epochs=5000, patience=4)
    run = tmp_path / "run"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with open(tmp_path / "said", "w") as said:
        process = subprocess.Popen(
            [*launcher, "-m", "reltucker", "train", str(path), "--out", str(run)],
            text=True,
            stderr=said,
            env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        )
        wait_for_epoch(run, 2, process)
        hung = workers_of(process)[1]
        os.kill(hung, signal.SIGSTOP)
        sentence = "process 0 of 2 got no answer from the others: one of them has ended, or hangs"
        for _ in range(1200):
            if sentence in (tmp_path / "said").read_text():
                break
            time.sleep(0.05)
        os.kill(hung, signal.SIGKILL)  # which torchrun would do after half a minute
        assert process.wait(timeout=60) == 1
    assert sentence in (tmp_path / "said").read_text()


def test_mistakes_are_one_sentence_of_one_process(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    _, err = ended(reltucker("train", path, "--processes", 2), 2)
    assert err.strip() == "error: Invalid value: --processes needs --out: where is the run to be?"
    other = train("families", preset="fast", settings={"train.epochs": 1}, out=tmp_path / "other")
    _, err = ended(reltucker("train", path, "--processes", 2, "--out", other.path), 2)
    assert err.startswith(f"error: {other.path} holds a run already")


def test_memory_is_counted_by_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph("families")
    wanted = Recipe().with_values({"model.entity_dim": 1000, "model.name": "complex"})
    monkeypatch.setattr("reltucker.training.setup.physical_memory", lambda: 6e6)
    for processes, here in ((1, 1), (2, 2), (8, 8)):
        with pytest.raises(RecipeError, match="of memory"):
            check(wanted, graph, processes, here)
    check(wanted, graph, 8, 1)
    with pytest.raises(RunError, match="has 442 entities, too few for 443 processes"):
        check(wanted, graph, 443, 1)
