"""Valid JSON and valid safetensors that are not ours: one sentence that names the file."""

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from reltucker import Recipe, load_graph, train
from reltucker.checksums import unsigned
from reltucker.errors import GraphError
from tests.conftest import random_graph
from tests.faults.conftest import SETTINGS, refused, run_command

DEEP = "[" * 100_000 + "]" * 100_000
TEXTS = ["[]", '"text"', "7", "null", "{}", DEEP, "9" * 5000, '{"epochs": ' + "9" * 4000 + "}"]
READERS = ("evaluate", "compare", "resume", "verify")


def replaced(document: Any, *path: str, value: Any) -> str:
    """The JSON text of a document with another value at a place, unsigned."""
    inner = document = copy.deepcopy(unsigned(document))
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(document)


def changes_of_result(document: dict[str, Any]) -> list[str]:
    values: list[Any] = [None, [], "x", -1, float("inf"), float("nan"), 1e300, 10**400, {}]
    places = [("epochs",), ("seen",), ("seen", "mrr"), ("seconds",)]
    return [replaced(document, *place, value=value) for place in places for value in values]


def test_result(run: Path) -> None:
    path = run / "result.json"
    document = json.loads(path.read_text())
    for text in [*TEXTS, *changes_of_result(document)]:
        path.write_text(text)
        assert str(path) in refused(run_command("resume", run)), text[:80]
    for command in READERS[1:]:
        assert str(path) in refused(run_command(command, run))


def test_epochs(run: Path) -> None:
    path = run / "epochs.jsonl"
    (run / "result.json").unlink()
    first = json.loads(path.read_text().splitlines()[0])
    changes = [replaced(first, "epoch", value=v) for v in (None, 0, -1, 1.5, True, 10**400)]
    changes += [replaced(first, "valid", "seen", value=v) for v in ([], {}, 3)]
    for text in [*TEXTS, *changes]:
        path.write_text(text + "\n")
        assert f"{path} is damaged: line 1" in refused(run_command("resume", run)), text[:80]


def changed_tensors(path: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], Any]) -> None:
    """Write a safetensors file anew, with other tensors or another state, and no checksum."""
    with safe_open(path, framework="pt") as file:
        state = json.loads(file.metadata()["state"])
    tensors = load_file(path)
    changed = change(tensors, state)
    text = json.dumps(state if changed is None else changed)
    save_file(tensors, path, {"state": text})


def without(name: str) -> Callable[..., None]:
    def change(tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        del tensors[name]

    return change


def made(name: str, how: Callable[[Tensor], Tensor]) -> Callable[..., None]:
    def change(tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        tensors[name] = how(tensors[name])

    return change


def told(value: Any, *path: str) -> Callable[..., Any]:
    def change(tensors: dict[str, Tensor], state: dict[str, Any]) -> Any:
        if not path:
            return value
        inner = state
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return None

    return change


HOW: list[Callable[[Tensor], Tensor]] = [
    lambda t: t[:0].clone(),
    lambda t: t.to(torch.int32),
    lambda t: t.double(),
    lambda t: t.reshape(1, -1),
    lambda t: t.reshape(-1)[0].clone(),
    lambda t: torch.cat([t, t]),
]


@pytest.mark.parametrize("model", ["complex", "srt"])
def test_checkpoints(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    recipe = Recipe().with_values(SETTINGS | {"model.name": model, "train.epochs": 2})
    train(random_graph(0), recipe, out=run, progress=False)
    (run / "result.json").unlink()
    path = run / "checkpoint.safetensors"
    content = path.read_bytes()
    names = ["model.E", "best.E", "optimizer.R.sum", "generator"]
    names += ["best.core.entries", "model.core.values"] if model == "srt" else []
    changes = [made(name, how) for name in names for how in HOW] + [without(n) for n in names]
    values: list[Any] = [None, [], "x", -1, 10**30, {"tensor": "nothing"}, {"tensor": []}]
    places = [("epoch",), ("stopping", "best_epoch"), ("schedule",), ("model", "E"), ("best",)]
    changes += [told(value, *place) for place in places for value in values]
    changes += [told(value) for value in ([], "x", 3, {})]
    if model == "srt":
        changes.append(made("best.core.entries", lambda t: t - t.max() - 1))
        changes.append(made("model.core.held.numbers", lambda t: torch.tensor([-1])))
        changes.append(made("model.core.held.numbers", lambda t: torch.tensor([2**40])))
    else:
        changes.append(made("generator", lambda t: torch.full_like(t, 255)))
    for number, change in enumerate(changes):
        path.write_bytes(content)
        changed_tensors(path, change)
        outcome = run_command("resume", run)
        assert outcome[0] == 2, number
        assert str(path) in refused(outcome)


def test_weights(run: Path) -> None:
    path = run / "best.safetensors"
    content = path.read_bytes()
    for change in [
        *(made(name, how) for name in ("E", "R") for how in HOW),
        without("E"),
        told([]),
        made("E", lambda t: torch.full_like(t, float("inf"))),
    ]:
        path.write_bytes(content)
        changed_tensors(path, change)
        assert str(path) in refused(run_command("evaluate", run))
    for command in ("export", "inspect", "compare", "describe-model"):
        assert str(path) in refused(run_command(command, run))


def test_graphs(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    triples, names = run / "triples.safetensors", run / "entities.parquet"
    with safe_open(triples, framework="pt") as file:
        metadata = {k: v for k, v in file.metadata().items() if "checksum" not in k}
    tensors = load_file(triples)
    for change in (
        {"train": -tensors["train"] - 1},
        {"train": tensors["train"].long()},
        {"train": tensors["train"][:, :2].contiguous()},
    ):
        save_file({**tensors, **change}, triples, metadata)
        assert str(triples) in refused(run_command("evaluate", run))
    save_file(tensors, triples, metadata | {"seen_entities": "9" * 5000})
    assert str(triples) in refused(run_command("evaluate", run))
    save_file(tensors, triples, metadata)
    for frame in (pl.DataFrame({"name": [1, 2]}), pl.DataFrame({"other": ["a"]}), pl.DataFrame()):
        frame.write_parquet(names)
        assert str(names) in refused(run_command("evaluate", run))
    content = names.read_bytes()
    for place in range(4, len(content), 7):
        names.write_bytes(content[:place] + b"\xff\xff" + content[place + 2 :])
        assert run_command("evaluate", run)[0] == 2
    assert "panicked" not in capfd.readouterr().err


def test_damaged_parquet_of_a_user_brings_no_panic(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"e{i % 50}", f"r{i % 3}", f"e{i * 7 % 50}") for i in range(500)]
    path = tmp_path / "g.parquet"
    pl.DataFrame(rows, schema=["subject", "relation", "object"], orient="row").write_parquet(path)
    whole, draw = path.read_bytes(), random.Random(1)
    told = 0
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content)
        try:
            load_graph(path)
        except GraphError:
            told += 1
    assert told > 200
    assert "panicked" not in capfd.readouterr().err
