"""The live view: what it says of a study, on a terminal and elsewhere."""

import io
import time

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from rich.console import Console

from reltucker.search import live
from reltucker.search.live import LiveView
from reltucker.search.timing import Clock
from reltucker.search.trials import FAILURE, PROGRESS


def trials() -> list[FrozenTrial]:
    study = optuna.create_study(direction="maximize")
    study.add_trial(create_trial(value=0.25))
    study.add_trial(create_trial(value=0.0, user_attrs={FAILURE: "out of memory"}))
    study.add_trial(create_trial(value=0.1, state=TrialState.PRUNED))
    study.add_trial(create_trial(value=0.3125))
    rate = {"train.learning_rate": FloatDistribution(0.01, 0.5)}
    for attributes in ({PROGRESS: [2, 0.2]}, {}, {PROGRESS: [7, None]}):
        study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params={"train.learning_rate": 0.123456},
                distributions=rate,
                user_attrs=attributes,
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


def view_on(terminal: bool) -> LiveView:
    view = LiveView("study", 9)
    view.console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    return view


def test_lines_elsewhere_than_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_on(False)
    view._told = {0}  # told by now
    text = shown(view, 2, monkeypatch)
    assert "trial 0:" not in text
    assert text.count("trial 1: failed (out of memory)") == 1
    assert text.count("trial 2: pruned") == 1
    assert text.count("trial 3: valid MRR 0.3125") == 1
    summary = "study: 4 of 9 trials, best valid MRR 0.3125 (trial 3), 1 failed, 1 pruned"
    assert summary in " ".join(text.split())
    assert "trial 4 epoch 2 MRR 0.2000, trial 5 begins, trial 6 epoch 7" in " ".join(text.split())


def test_a_search_that_goes_on_does_not_tell_everything_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(view_on(False), 2, monkeypatch)
    assert text.count("going on with study: 4 of 9 trials") == 1
    assert "trial 3: valid MRR" not in text


def test_the_running_trials_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(view_on(True), 1, monkeypatch)
    assert "study: 4 of 9 trials, best valid MRR 0.3125 (trial 3)" in text
    assert "trial 4: epoch 2 MRR 0.2000, learning_rate 0.123" in text
    assert "trial 5: begins, learning_rate 0.123" in text
    assert "trial 6: epoch 7, learning_rate 0.123" in text


def test_the_time_left_follows_from_finished_trials() -> None:
    found = trials()
    left = LiveView("study", 9)._seconds_left(found)
    assert left is not None
    assert left >= 0
    assert LiveView("study", 9)._seconds_left(found[4:]) is None


def test_a_timed_search_shows_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(direction="maximize")
    clock = Clock(study, 600.0, 10.0, time.monotonic() - 240)
    view = LiveView("study", None, clock)
    view.console = Console(file=io.StringIO(), width=200)
    text = shown(view, 1, monkeypatch)
    assert (
        "study: 4 trials, best valid MRR 0.3125 (trial 3), 1 failed, 1 pruned, 6 min left" in text
    )
