"""`reltucker data prepare`: what it prints, what it refuses, and what takes its folder."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from reltucker.graph.preparing import DEFAULT_MEMORY
from tests.cli.test_commands import COMMAND, SETTINGS, environment, reltucker, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of triples and its prepared graph."""
    path = tmp_path_factory.mktemp("prepare")
    rows = [f"e{i % 43}\tr{i % 3}\te{i * 7 % 31}\n" for i in range(900)]
    (path / "triples.tsv").write_text("".join(rows))
    done = reltucker("data", "prepare", "triples.tsv", "--out", "ready", "--json", cwd=path)
    document = json.loads(done.stdout)
    assert (document["folder"], document["name"]) == ("ready", "triples")
    assert (document["entities"], document["relations"]) == (43, 3)
    described = json.loads(run("data", "describe", "triples.tsv", "--json", cwd=path).stdout)
    assert document["triples"] == described["triples"]
    assert document["bytes"] == sum(file.stat().st_size for file in (path / "ready").iterdir())
    return path


def test_every_command_takes_the_folder(folder: Path) -> None:
    plain, ready = (
        json.loads(run("data", "describe", graph, "--json", cwd=folder).stdout)
        for graph in ("triples.tsv", "ready")
    )
    assert plain == ready
    losses = []
    for graph in ("triples.tsv", "ready"):
        out = f"run-{graph}"
        run("train", graph, *SETTINGS, "--out", out, cwd=folder)
        figures = json.loads(run("evaluate", out, "--json", cwd=folder).stdout)
        losses.append(figures["standard"])
    assert losses[0] == losses[1]
    answers = json.loads(run("predict", "run-ready", "e1", "r1", "?", "--json", cwd=folder).stdout)
    assert answers


def test_it_tells_what_it_made_and_what_comes_next(folder: Path) -> None:
    done = run("data", "prepare", "families", "--out", "kin", "--memory", "50%", cwd=folder)
    assert "kin holds families: 442 entities, 20 relations" in done.stdout
    assert "next: reltucker train kin" in done.stdout


def test_progress_goes_to_standard_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reltucker.progress.LINE_SECONDS", 0.0)
    done = run("data", "prepare", "triples.tsv", "--out", "shown", "--json", cwd=folder)
    json.loads(done.stdout)
    for stage in ("reading", "numbering", "indexing"):
        assert f"{stage}: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["triples.tsv", "--out", "ready"], "ready holds something already; choose another folder"),
        (["none.tsv", "--out", "new"], "'none.tsv' is neither a file or folder"),
        (["triples.tsv", "--out", "new", "--memory", "few"], "memory 'few' is no limit"),
        (["triples.tsv", "--out", "new", "--memory", "1MB"], "preparing a graph needs"),
        (["triples.tsv", "--out", "triples.tsv/new"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(folder: Path, arguments: list[str], message: str) -> None:
    done = run("data", "prepare", *arguments, cwd=folder, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert not (folder / "new").exists()


def test_a_damaged_folder_is_one_sentence(folder: Path) -> None:
    run("data", "prepare", "triples.tsv", "--out", "damaged", cwd=folder)
    path = folder / "damaged" / "train.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\1")
    done = run("data", "describe", "damaged", cwd=folder, code=2)
    assert "train.npy is damaged: its content has changed" in done.stderr
    path.write_bytes(b"short")
    for command in (["data", "describe", "damaged"], ["train", "damaged", "--out", "run"]):
        done = run(*command, cwd=folder, code=2)
        assert "train.npy is damaged: it has 5 bytes" in done.stderr
    assert not (folder / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_the_middle_leaves_no_graph(folder: Path, number: int, tmp_path: Path) -> None:
    rows = "".join(f"e{i * 7919 % 300007}\tr\te{i}\n" for i in range(400_000))
    (tmp_path / "large.tsv").write_text(rows)
    out = tmp_path / "out"
    command = [*COMMAND, "data", "prepare", "large.tsv", "--out", "out"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
    ) as process:
        while not (out / ".scratch.tmp").exists():
            assert process.poll() is None
        process.send_signal(number)
        process.communicate()
    if number == signal.SIGKILL:
        done = run("data", "describe", "out", cwd=tmp_path, code=2)
        assert "whose preparation did not end" in done.stderr
    else:
        assert process.returncode == 128 + number
        assert not out.exists()
    run("data", "prepare", "large.tsv", "--out", "out", cwd=tmp_path)
    run("data", "describe", "out", "--json", cwd=tmp_path)


def test_the_default_of_the_command_is_that_of_the_function(tmp_path: Path) -> None:
    text = " ".join(run("data", "prepare", "--help", cwd=tmp_path).stdout.split())
    assert f"[default: {DEFAULT_MEMORY}]" in text
