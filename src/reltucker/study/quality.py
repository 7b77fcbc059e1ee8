"""How good fits are, and how sure that is: metrics with intervals, differences with tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reltucker.errors import ReltuckerError
from reltucker.evaluation import PROTOCOLS, Protocol
from reltucker.study.fits import Fit
from reltucker.study.statistics import (
    METRICS,
    Floats,
    bootstrap_intervals,
    holm,
    sign_flip_test,
    triple_values,
)

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

    def means(self, values: Floats) -> Floats:
        """The mean of each column and the ends of its bootstrap interval: (n, m) to (m, 3)."""
        ends = bootstrap_intervals(
            values, resamples=self.resamples, confidence=self.confidence, seed=self.seed
        )
        return np.column_stack([values.mean(axis=0), ends])


def qualities(
    fits: Sequence[Fit], protocol: Protocol, certainty: Certainty, where: Mask | None = None
) -> list[dict[str, Any]]:
    """For each fit the metrics over the triples that count (of those in `where`), as `mrr`,
    `mrr_low`, `mrr_high`, `hits@1`, ...; without any triple they are missing."""
    values = np.hstack([triple_values(fit.ranking, protocol, where) for fit in fits])
    if not len(values):
        return [{"tested": 0} for _ in fits]
    figures = certainty.means(values).reshape(len(fits), len(METRICS), 3)
    return [{"tested": len(values), **_named(METRICS, of_fit)} for of_fit in figures]


def differences(
    pairs: Sequence[tuple[Fit, Fit]],
    protocol: Protocol,
    certainty: Certainty,
    where: Mask | None = None,
) -> list[dict[str, Any]]:
    """For each pair MRR(first) - MRR(second): its bootstrap interval over paired triples, the p of
    the sign-flip test on them, and p adjusted for the number of pairs."""
    mrr = METRICS.index("mrr")
    columns = [
        np.subtract(*(triple_values(fit.ranking, protocol, where)[:, mrr] for fit in pair))
        for pair in pairs
    ]
    if not columns or not len(columns[0]):
        return [{} for _ in pairs]
    values = np.column_stack(columns)
    p = sign_flip_test(values, flips=certainty.flips, seed=certainty.seed).tolist()
    return [
        {**_named(["difference"], [figures]), "p": own, "p_holm": adjusted}
        for figures, own, adjusted in zip(certainty.means(values), p, holm(p), strict=True)
    ]


def _named(names: Sequence[str], figures: Any) -> dict[str, float]:
    """Means and ends of intervals (m, 3) as NAME, NAME_low, NAME_high of each name."""
    return {
        name + end: float(figure)
        for name, of_name in zip(names, figures, strict=True)
        for end, figure in zip(("", "_low", "_high"), of_name, strict=True)
    }


def check_counted(fits: Sequence[Fit]) -> None:
    """Refuse a split of which no triple counts under one of the protocols."""
    for protocol in PROTOCOLS:
        if not len(fits[0].ranking.of(protocol)):
            raise ReltuckerError(
                f"no triple of the split counts under the protocol {protocol!r}: none has both "
                "entities in train"
            )
