"""The live view: what it says of a study, on a terminal and elsewhere."""

import io
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from rich.console import Console

from reltucker.search import live
from reltucker.search.live import LiveView
from reltucker.search.trial import FAILURE
from reltucker.training import RunFolder


def trials() -> list[FrozenTrial]:
    study = optuna.create_study(direction="maximize")
    study.add_trial(create_trial(value=0.25))
    study.add_trial(create_trial(value=0.0, user_attrs={FAILURE: "out of memory"}))
    study.add_trial(create_trial(value=0.1, state=TrialState.PRUNED))
    study.add_trial(create_trial(value=0.3125))
    rate = {"train.learning_rate": FloatDistribution(0.01, 0.5)}
    for values in ({1: 0.1, 2: 0.2}, {}):
        study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params={"train.learning_rate": 0.123456},
                distributions=rate,
                intermediate_values=values,
            )
        )
    return study.trials


def shown(view: LiveView, steps: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(live, "LINE_SECONDS", 0.0)
    with view:
        for _ in range(steps):
            view.update(trials())
        output = view.console.file
        assert isinstance(output, io.StringIO)
        if view._live is not None:
            view._live.refresh()
        return output.getvalue()


def view_on(terminal: bool, folder: Path) -> LiveView:
    view = LiveView("study", 9, folder)
    view.console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    return view


def test_lines_elsewhere_than_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_on(False, tmp_path)
    view._told = {0}  # told by now
    text = shown(view, 2, monkeypatch)
    assert "trial 0:" not in text
    assert text.count("trial 1: failed (out of memory)") == 1
    assert text.count("trial 2: pruned") == 1
    assert text.count("trial 3: valid MRR 0.3125") == 1
    summary = "study: 4 of 9 trials, best valid MRR 0.3125 (trial 3), 1 failed, 1 pruned"
    assert summary in " ".join(text.split())
    assert "trial 4 epoch 2 MRR 0.2000, trial 5 begins" in " ".join(text.split())


def test_a_search_that_goes_on_does_not_tell_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(view_on(False, tmp_path), 2, monkeypatch)
    assert text.count("going on with study: 4 of 9 trials") == 1
    assert "trial 3: valid MRR" not in text


def test_a_table_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a trial on this machine the run folder tells more than the study.
    record = {"epoch": 7, "valid": {"seen": {"mrr": 0.7}}}
    (tmp_path / "5").mkdir()
    RunFolder(tmp_path / "5").append_epoch(record)
    text = shown(view_on(True, tmp_path), 1, monkeypatch)
    assert "study: 4 of 9 trials, best valid MRR 0.3125 (trial 3)" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["4", "2", "0.2000", "learning_rate", "0.123"] in rows
    assert ["5", "7", "0.7000", "learning_rate", "0.123"] in rows


def test_the_time_left_follows_from_finished_trials(tmp_path: Path) -> None:
    found = trials()
    left = LiveView("study", 9, tmp_path)._seconds_left(found[:4], found[4:])
    assert left is not None
    assert left >= 0
    assert LiveView("study", 9, tmp_path)._seconds_left([], found[4:]) is None
