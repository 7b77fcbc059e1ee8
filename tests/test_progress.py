"""What a user sees of long work, on a terminal and elsewhere."""

import io
from unittest.mock import patch

import pytest
from rich.console import Console

from reltucker import progress
from reltucker.progress import TrainingProgress, duration, track

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
        "srt epoch 1/60  loss 0.5000  valid MRR 0.1000 (best 0.1000 at epoch 1)  2 s/epoch  "
        "at most 2 min left",
        "srt epoch 3/60  loss 0.5000  valid MRR 0.3000 (best 0.2000 at epoch 2)  "
        "density 33.333%  2 s/epoch  at most 2 min left",
    ]


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    with (
        patch.object(progress, "error_console", lambda: console),
        TrainingProgress("drt", 9) as shown,
    ):
        shown.epoch({**RECORD, "valid": {"seen": {"mrr": 0.25}}})
        shown.step(2, 1, 4)
        shown._bar.refresh()
        text = file.getvalue()
    assert "drt epoch 2/9" in text
    assert "…" not in text
    assert "left" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
