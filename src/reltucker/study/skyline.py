"""The skyline: fits that no other one beats in quality and in size at once."""

from collections.abc import Sequence


def skyline(sizes: Sequence[float], qualities: Sequence[float]) -> list[int]:
    """The indices of the fits that are not dominated, by size (then in the order given).

    Fit b dominates fit a if size_b <= size_a and quality_b >= quality_a, and at least one of the
    two is strict. Fits that are alike in both stay together.
    """
    points = list(zip(sizes, qualities, strict=True))

    def is_dominated(size: float, quality: float) -> bool:
        return any(s <= size and q >= quality and (s, q) != (size, quality) for s, q in points)

    kept = [index for index, point in enumerate(points) if not is_dominated(*point)]
    return sorted(kept, key=lambda index: sizes[index])
