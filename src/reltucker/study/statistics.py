"""How sure a figure is: bootstrap intervals over queries, and a paired test of two models.

The unit is a triple with its two queries, (i, k, ?) and (?, k, j): they share the triple, so they
are drawn or flipped together, never apart. Every figure is a mean over triples, and everything here
is a product of a matrix of random weights with a matrix of values, made in blocks of few megabytes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from reltucker.evaluation import Protocol, Ranking
from reltucker.evaluation.metrics import HITS

Floats = npt.NDArray[np.float64]

METRICS = ("mrr", *(f"hits@{k}" for k in HITS))
"""The columns of `triple_values`."""

BLOCK_BYTES = 16 << 20
"""How large a block of random weights may be."""


def triple_values(
    ranking: Ranking, protocol: Protocol, where: npt.NDArray[np.bool_] | None = None
) -> Floats:
    """What each counted triple adds to MRR and HITS@k, the mean of its two queries: (n, 4).

    The mean of a column is the metric: MRR = mean of (1 / r_object + 1 / r_subject) / 2.
    """
    ranks = ranking.of(protocol, where=where).reshape(2, -1)
    columns = [1.0 / ranks, *((ranks <= k).astype(np.float64) for k in HITS)]
    return np.stack([column.mean(axis=0) for column in columns], axis=1)


def resampled_means(values: Floats, *, resamples: int = 1000, seed: int = 0) -> Floats:
    """The means of the columns of values (n, m) in bootstrap samples: (resamples, m).

    Sample b draws n rows with replacement, so its means are w_b^T V / n with the counts
    w_b ~ Multinomial(n; 1/n, ..., 1/n). All columns share the samples: a difference of two columns
    in one sample is a paired difference. The samples depend on n and the seed alone.
    """
    n = len(values)
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    for block in _blocks(resamples, n):
        counts = np.empty((block.stop - block.start, n))
        for row in counts:
            row[:] = np.bincount(generator.integers(n, size=n), minlength=n)
        means[block] = counts @ values / n
    return means


def bootstrap_intervals(
    values: Floats, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Floats:
    """Percentile intervals of the means of the columns of values (n, m): (m, 2).

    Their ends are the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles of the means in
    bootstrap samples.
    """
    means = resampled_means(values, resamples=resamples, seed=seed)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return np.asarray(np.quantile(means, ends, axis=0).T)


def sign_flip_test(differences: Floats, *, flips: int = 10_000, seed: int = 0) -> Floats:
    """Two-sided p-values of "the mean difference is zero" for each column of (n, m): (m,).

    If two models were alike, each triple's difference d_t could as well have the other sign. With
    random signs s_bt, p = (1 + #{b : |sum_t s_bt d_t| >= |sum_t d_t|}) / (1 + flips), a valid test
    for any number of flips; the smallest possible p is 1 / (1 + flips).
    """
    n = len(differences)
    generator = np.random.default_rng(seed)
    observed = differences.sum(axis=0)
    # Sums of the same terms in another order differ in their last digits.
    threshold = np.abs(observed) - 1e-12 * np.abs(differences).sum(axis=0)
    extreme = np.zeros(differences.shape[1], dtype=np.int64)
    for block in _blocks(flips, n):
        size = (block.stop - block.start, (n + 7) // 8)
        bits = np.unpackbits(generator.integers(256, size=size, dtype=np.uint8), axis=1)[:, :n]
        flipped = observed - 2.0 * (bits.astype(np.float64) @ differences)
        extreme += np.count_nonzero(np.abs(flipped) >= threshold, axis=0)
    return np.asarray((1 + extreme) / (1 + flips))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for having made all of these tests (Holm's step-down method).

    Of m tests, the one with the i-th smallest p (i = 0, 1, ...) gets the largest (m - j) p_(j) of
    all j <= i, and at most 1.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, index in enumerate(order):
        largest = max(largest, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(1.0, largest)
    return adjusted


def _blocks(count: int, width: int) -> Iterator[slice]:
    """`count` rows of `width` numbers in blocks of at most BLOCK_BYTES, or of a single row."""
    size = max(1, BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
