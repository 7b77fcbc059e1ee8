"""The skyline against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from reltucker.study.skyline import skyline

FITS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25)


def dominates(b: tuple[int, int], a: tuple[int, int]) -> bool:
    return b[0] <= a[0] and b[1] >= a[1] and b != a


@given(FITS)
def test_exactly_the_fits_that_nothing_dominates_stay(fits: list[tuple[int, int]]) -> None:
    kept = skyline([size for size, _ in fits], [quality for _, quality in fits])
    expected = [i for i, a in enumerate(fits) if not any(dominates(b, a) for b in fits)]
    assert sorted(kept) == expected
    assert len(set(kept)) == len(kept)


@given(FITS)
def test_quality_rises_with_size(fits: list[tuple[int, int]]) -> None:
    kept = [fits[i] for i in skyline([size for size, _ in fits], [q for _, q in fits])]
    assert kept == sorted(kept)


def test_by_hand() -> None:
    assert skyline([], []) == []
    # Smaller and as good; larger and better; larger and worse; alike.
    assert skyline([2, 1, 3, 4, 3], [0.5, 0.5, 0.7, 0.6, 0.7]) == [1, 2, 4]
