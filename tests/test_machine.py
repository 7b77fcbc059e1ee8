"""How much memory there is, and what a person writes for a limit of it."""

from pathlib import Path

import pytest

from reltucker import machine
from reltucker.errors import RecipeError
from reltucker.machine import memory_limit, peak_memory, physical_memory


def test_a_container_s_limit_counts_as_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = physical_memory()
    limits = (tmp_path / "missing", tmp_path / "limit")
    monkeypatch.setattr(machine, "CONTAINER_LIMITS", limits)
    for text, expected in (("max\n", whole), ("1048576\n", 1048576.0)):
        limits[1].write_text(text)
        assert physical_memory() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.25", 250.0),
        ("25%", 250.0),
        ("1", 1000.0),
        ("8GB", 8e9),
        ("1.5 GiB", 1.5 * 2**30),
        ("512mib", 512.0 * 2**20),
        ("4096", 4096.0),
    ],
)
def test_a_limit_is_a_share_or_a_size(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: float
) -> None:
    monkeypatch.setattr(machine, "physical_memory", lambda: 1000.0)
    assert memory_limit(text) == expected


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "120%", "8 XB", "1e9", "nan"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="--memory"):
        memory_limit(text)


def test_the_peak_is_no_more_than_there_is() -> None:
    assert 10 << 20 < (peak_memory() or 11 << 20) <= physical_memory()
