"""How good fits are, and how sure that is: metrics with intervals, differences with tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reltucker.errors import ReltuckerError
from reltucker.evaluation import Protocol
from reltucker.study.fits import Fit
from reltucker.study.statistics import (
    METRICS,
    Floats,
    bootstrap_intervals,
    holm,
    sign_flip_test,
    triple_values,
)

Rows = list[dict[str, Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Certainty:
    """How intervals and tests are made: samples of the bootstrap, sign flips, confidence, seed."""

    resamples: int = 1000
    flips: int = 10_000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 100:
            raise ReltuckerError(f"resamples = {self.resamples}: give at least 100")
        if not 0.5 <= self.confidence < 1:
            raise ReltuckerError(
                f"confidence = {self.confidence}: give a share from 0.5 to 1, such as 0.95"
            )

    def means(self, values: Floats, names: Sequence[str]) -> Rows:
        """For every len(names) columns of values (n, m) a row of their means with the ends of the
        bootstrap intervals: NAME, NAME_low, NAME_high of each name."""
        ends = bootstrap_intervals(
            values, resamples=self.resamples, confidence=self.confidence, seed=self.seed
        )
        keys = [name + end for name in names for end in ("", "_low", "_high")]
        figures = np.column_stack([values.mean(axis=0), ends]).reshape(-1, len(keys))
        return [dict(zip(keys, row, strict=True)) for row in figures.tolist()]

    def qualities(self, fits: Sequence[Fit], protocol: Protocol, where: Mask | None = None) -> Rows:
        """For each fit the metrics over the triples that count (of those in `where`), as `mrr`,
        `mrr_low`, `mrr_high`, `hits@1`, ...; without any triple they are missing."""
        values = np.hstack([triple_values(fit.ranking, protocol, where) for fit in fits])
        if not len(values):
            return [{"tested": 0} for _ in fits]
        return [{"tested": len(values), **row} for row in self.means(values, METRICS)]

    def differences(
        self, pairs: Sequence[tuple[Fit, Fit]], protocol: Protocol, where: Mask | None = None
    ) -> Rows:
        """For each pair MRR(first) - MRR(second): its bootstrap interval over paired triples, and
        the p of the sign-flip test on them, also adjusted for the number of pairs."""
        mrr = METRICS.index("mrr")
        columns = [
            np.subtract(*(triple_values(fit.ranking, protocol, where)[:, mrr] for fit in pair))
            for pair in pairs
        ]
        if not columns or not len(columns[0]):
            return [{} for _ in pairs]
        values = np.column_stack(columns)
        p = sign_flip_test(values, flips=self.flips, seed=self.seed).tolist()
        means = self.means(values, ["difference"])
        rows = [{**row, "p": own} for row, own in zip(means, p, strict=True)]
        adjust(rows)
        return rows


def adjust(rows: Rows) -> None:
    """Give every row with a `p` also `p_holm`, adjusted for the number of such rows."""
    tested = [row for row in rows if "p" in row]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = adjusted
