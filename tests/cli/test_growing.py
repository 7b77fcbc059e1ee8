"""`add`, `why` and `train --from` as a user meets them."""

import json
from pathlib import Path

from tests.cli.test_commands import SETTINGS, run


def test_a_run_grows(tmp_path: Path) -> None:
    new = "Nova Berger\tborn_in\tKarlsberg\nZoe\tspouse\tNova Berger\n"
    (tmp_path / "new.tsv").write_text(new, encoding="utf-8")
    run("train", "families", *SETTINGS, "--model", "distmult", "--out", "mine", cwd=tmp_path)
    done = run("add", "mine", "new.tsv", "--out", "more", cwd=tmp_path)
    assert "2 entities added" in done.stdout
    assert "next: reltucker evaluate more" in done.stdout

    words = ["why", "more", "Nova Berger", "born_in", "Karlsberg", "--top", "3"]
    told = json.loads(run(*words, "--json", cwd=tmp_path).stdout)
    (way,) = told["asked"]
    assert sum(part["part"] for part in way["parts"]) + way["rest"] == told["asked"][0]["score"]
    facts = [(fact["subject"], fact["relation"]) for fact in told["facts"]]
    assert ("Nova Berger", "born_in") in facts
    shown = run(*words, cwd=tmp_path).stdout
    assert "Nova Berger  born_in  Karlsberg: score" in shown
    assert "further interactions" in shown
    assert "known facts, by what they add" in shown

    done = run("train", "--from", "more", "families", "--epochs", "1", "--out", "on", cwd=tmp_path)
    assert "best epoch 1 of 1" in done.stdout
    result = json.loads((tmp_path / "on" / "result.json").read_text(encoding="utf-8"))
    assert result["started_from"]["run"] == "more"
    for words, message in (
        (["add", "more", "new.tsv", "--out", "x"], "no new entity"),
        (["train", "--from", "more", "families", "--entity-dim", "9"], "model.entity_dim = 9"),
        (["train", "--from", "more", "families", "--preset", "fast"], "preset"),
    ):
        error = run(*words, cwd=tmp_path, code=2).stderr
        assert message in error
        assert len(error.splitlines()) == 1
