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

    def intervals(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The bootstrap interval of each column's mean: (n, m) to (m, 2)."""
        return bootstrap_intervals(
            values, resamples=self.resamples, confidence=self.confidence, seed=self.seed
        )


def qualities(
    fits: Sequence[Fit], protocol: Protocol, certainty: Certainty, where: Mask | None = None
) -> list[dict[str, Any]]:
    """For each fit the metrics over the triples that count (of those in `where`), as `mrr`,
    `mrr_low`, `mrr_high`, `hits@1`, ...; without any triple they are missing."""
    values = np.hstack([triple_values(fit.ranking, protocol, where) for fit in fits])
    if not len(values):
        return [{"tested": 0} for _ in fits]
    means = values.mean(axis=0).reshape(len(fits), -1)
    ends = certainty.intervals(values).reshape(len(fits), -1, 2)
    return [
        {
            "tested": len(values),
            **{
                key: float(figure)
                for metric, value, (low, high) in zip(METRICS, *of_fit, strict=True)
                for key, figure in (
                    (metric, value),
                    (f"{metric}_low", low),
                    (f"{metric}_high", high),
                )
            },
        }
        for of_fit in zip(means, ends, strict=True)
    ]


def differences(
    pairs: Sequence[tuple[Fit, Fit]],
    protocol: Protocol,
    certainty: Certainty,
    where: Mask | None = None,
) -> list[dict[str, Any]]:
    """For each pair MRR(first) - MRR(second): its bootstrap interval over paired triples, the p of
    the sign-flip test on them, and p adjusted for the number of pairs."""
    if not pairs:
        return []
    column = METRICS.index("mrr")
    values = np.stack(
        [
            triple_values(first.ranking, protocol, where)[:, column]
            - triple_values(second.ranking, protocol, where)[:, column]
            for first, second in pairs
        ],
        axis=1,
    )
    if not len(values):
        return [{} for _ in pairs]
    ends = certainty.intervals(values)
    p = sign_flip_test(values, flips=certainty.flips, seed=certainty.seed).tolist()
    return [
        {
            "difference": float(mean),
            "difference_low": float(low),
            "difference_high": float(high),
            "p": p_value,
            "p_holm": adjusted,
        }
        for mean, (low, high), p_value, adjusted in zip(
            values.mean(axis=0), ends, p, holm(p), strict=True
        )
    ]


def check_counted(fits: Sequence[Fit]) -> None:
    """Refuse a split of which no triple counts under one of the protocols."""
    for protocol in PROTOCOLS:
        if not len(fits[0].ranking.of(protocol)):
            raise ReltuckerError(
                f"no triple of the split counts under the protocol {protocol!r}: none has both "
                "entities in train"
            )
