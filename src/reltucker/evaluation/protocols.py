"""The three evaluation protocols: what is filtered, which triples count, who is a candidate.

| protocol | filtered           | triples                       | candidates        |
|----------|--------------------|-------------------------------|-------------------|
| standard | train, valid, test | all                           | all entities      |
| seen     | train, valid, test | those with both entities seen | entities in train |
| paper    | train, valid       | those with both entities seen | entities in train |

Ranking the valid (or train) split filters with train and valid in all three; for information its
figures under `seen` are also given with the filter of test, under FULL_FILTER.
"""

from typing import get_args

from reltucker.choices import Protocol as Protocol

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
"""In the order of the columns that `kernels.rank_by_counting` returns."""

FULL_FILTER = "valid_full_filter"
"""Where results hold the figures of validation triples under `seen` with answers of test left out,
too."""
