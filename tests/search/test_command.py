"""`reltucker search` as a user meets it: one document, or one sentence."""

import json
import warnings
from pathlib import Path

import pytest

from reltucker.cli import main
from reltucker.run import open_run
from tests.cli.test_commands import reltucker
from tests.search.conftest import QUICK

SETTINGS = [part for key, value in QUICK.items() for part in ("--set", f"{key}={value}")]


def test_the_paper_s_search_by_its_command(graph_files: Path, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(
        "[space.train]\nentity_dropout = { values = [0.0, 0.2] }\n"
        "learning_rate = { values = [0.1, 0.2] }\n"
    )
    options = ["--space", "space.toml", "--sampler", "paper", "--out", "o"]
    done = reltucker("search", str(graph_files), *SETTINGS, *options, "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["trials"] == 4  # the grid has no more
    assert set(result["best"]["parameters"]) == {"train.entity_dropout", "train.learning_rate"}
    assert result["run"] == "o/best"
    assert result["standard"]["queries"] > 0
    assert "4 of 4 trials" in done.stderr
    figures = open_run(tmp_path / "o" / "best").evaluate("test", progress=False)
    assert figures.to_dict()["seen"] == result["seen"]
    assert (tmp_path / "o" / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["families", "--max-parameters", "some"], "--max-parameters some: write a number"),
        (["families", "--space", "paper"], "fb15k-237 and wn18rr"),
        (["missing.toml"], "missing.toml: there is no such space file"),
    ],
)
def test_a_mistake_is_one_sentence(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["reltucker", "search", *options, "--json"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("warnings.formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit) as caught:
        main()
    output, errors = capsys.readouterr()
    assert (caught.value.code, output) == (2, "")
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
