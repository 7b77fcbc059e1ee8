"""The skyline: fits that no other one beats in quality and in size at once."""

from collections.abc import Sequence


def skyline(sizes: Sequence[float], qualities: Sequence[float]) -> list[int]:
    """The indices of the fits that are not dominated, by size (then in the order given).

    Fit b dominates fit a if size_b <= size_a and quality_b >= quality_a, and at least one of the
    two is strict. Fits that are alike in both stay together.
    """
    order = sorted(range(len(sizes)), key=lambda index: (sizes[index], -qualities[index]))
    kept: list[int] = []
    for index in order:
        # The last one kept has the best quality of all that are not larger.
        best = kept[-1] if kept else None
        if (
            best is None
            or qualities[index] > qualities[best]
            or (sizes[index], qualities[index]) == (sizes[best], qualities[best])
        ):
            kept.append(index)
    return kept
