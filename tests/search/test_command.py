"""`reltucker search` as a user meets it: one document, or one sentence."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import reltucker
from tests.search.conftest import QUICK

SETTINGS = [part for key, value in QUICK.items() for part in ("--set", f"{key}={value}")]


def test_the_paper_s_search_by_its_command(graph_files: Path, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(
        "[space.train]\nentity_dropout = { values = [0.0, 0.2, 0.4] }\n"
        "learning_rate = { values = [0.1, 0.2, 0.3] }\n"
    )
    options = ["--space", "space.toml", "--sampler", "paper", "--out", "o"]
    done = reltucker("search", str(graph_files), *SETTINGS, *options, "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["trials"] == 9  # the grid has no more
    assert set(result["best"]["parameters"]) == {"train.entity_dropout", "train.learning_rate"}
    assert result["run"] == "o/best"
    assert result["standard"]["queries"] > 0
    assert "9 of 9 trials" in done.stderr
    figures = json.loads(reltucker("evaluate", "o/best", "--json", cwd=tmp_path).stdout)
    assert figures["seen"] == result["seen"]
    assert (tmp_path / "o" / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["families", "--max-parameters", "some"], "--max-parameters some: write a number"),
        (["families", "--space", "paper"], "fb15k-237 and wn18rr"),
        (["missing.toml"], "missing.toml: there is no such space file"),
    ],
)
def test_a_mistake_is_one_sentence(options: list[str], message: str, tmp_path: Path) -> None:
    done = reltucker("search", *options, "--json", cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
