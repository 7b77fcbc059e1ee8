"""What a user sees of long work, on a terminal and elsewhere."""

import io
from unittest.mock import patch

import pytest
from rich.console import Console

from reltucker import progress
from reltucker.progress import TrainingProgress, duration, fitted, track

RECORD = {"epoch": 1, "epoch_seconds": 2.0, "loss": 0.5, "best": True, "core_density": 1.0}


def test_plain_lines_count_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    with patch.object(progress, "LINE_SECONDS", 0.0), track("ranking", 1000, "queries") as advance:
        advance(100)
        advance(400)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("ranking: 100 of 1,000 queries, ")
    assert second.startswith("ranking: 500 of 1,000 queries, ")
    assert second.endswith(" queries/s, 0 s left")


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with track("ranking", 10, "queries") as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_training_shows_its_first_and_last_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress("srt", 60) as shown:
        for epoch in (1, 2, 3):
            valid = {"seen": {"mrr": 0.1 * epoch}}
            new = {"epoch": epoch, "valid": valid, "core_density": 1 / epoch, "best": epoch < 3}
            shown.step(epoch, 1, 1)
            shown.epoch({**RECORD, **new})
    assert capsys.readouterr().err.splitlines() == [
        "srt epoch 1/60  loss 0.5000  valid MRR 0.1000  best 0.1000 at epoch 1",
        "srt epoch 3/60  loss 0.5000  valid MRR 0.3000  best 0.2000 at epoch 2  "
        "density 33.333%  2 s/epoch",
    ]


def test_time_left_leaves_out_compilation(capsys: pytest.CaptureFixture[str]) -> None:
    """The first step takes 30 s, the other nine 0.5 s each; the first epoch 40 s."""
    clock = iter([100.0, *(100.5 + 0.5 * n for n in range(9)), 200.0, 300.0])
    with TrainingProgress("drt", 13) as shown, patch("time.monotonic", lambda: next(clock)):
        for done in range(1, 11):
            shown.step(1, done, 10)
        shown.epoch({**RECORD, "epoch_seconds": 40.0})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("  5 s/epoch  at most 60 s left")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off_on_a_narrow_terminal(width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    with (
        patch.object(progress, "error_console", lambda: console),
        TrainingProgress("complex", 200) as shown,
    ):
        for epoch in (100, 101):
            record = {**RECORD, "epoch": epoch, "epoch_seconds": 9.0}
            shown.epoch({**record, "valid": {"seen": {"mrr": 0.25}}})
        shown.step(102, 1, 4)
        shown._bar.refresh()
        first, second = file.getvalue().splitlines()[-2:]
    assert "complex epoch 102/200" in first
    assert "at most 15 min left" in first
    assert "━" in first
    assert "valid MRR 0.2500  best 0.2500 at epoch 101" in second
    assert ("9 s/epoch" in second) == (width >= 80)
    assert len(second) <= width


def test_parts_of_a_line_are_never_cut() -> None:
    parts = ["trial 3: epoch 4 MRR 0.6733", "entity_dim 200", "learning_rate 0.125"]
    assert fitted(parts, ", ", 80) == ", ".join(parts)
    assert fitted(parts, ", ", 50) == "trial 3: epoch 4 MRR 0.6733, entity_dim 200, …"
    assert fitted(parts, ", ", 40) == "trial 3: epoch 4 MRR 0.6733, …"
    assert fitted([], ", ", 40) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
