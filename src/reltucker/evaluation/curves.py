"""Curves from plausibilities to probabilities, and how well probabilities come true."""

from collections.abc import Callable
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

BINS = 10

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Stored(BaseModel):
    """What is written as JSON, and checked when it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Platt(Stored):
    """p = 1 / (1 + exp(-(slope x + intercept)))."""

    method: Literal["platt"] = "platt"
    slope: float = Field(ge=0.0)
    intercept: float

    def __call__(self, plausibilities: Floats) -> Floats:
        """Probabilities (n,) of plausibilities (n,)."""
        logits = self.slope * plausibilities + self.intercept
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))  # never overflows


class Isotonic(Stored):
    """Straight lines between knots, level outside of them."""

    method: Literal["isotonic"] = "isotonic"
    plausibilities: tuple[float, ...] = Field(min_length=1)
    probabilities: tuple[Share, ...]

    @model_validator(mode="after")
    def _is_monotone(self) -> Self:
        if len(self.plausibilities) != len(self.probabilities):
            raise ValueError("the curve has not as many plausibilities as probabilities")
        if any(np.any(np.diff(knots) < 0) for knots in (self.plausibilities, self.probabilities)):
            raise ValueError("the knots of the curve do not ascend")
        return self

    def __call__(self, plausibilities: Floats) -> Floats:
        """Probabilities (n,) of plausibilities (n,)."""
        return np.asarray(np.interp(plausibilities, self.plausibilities, self.probabilities))


Curve = Annotated[Platt | Isotonic, Field(discriminator="method")]
Fit = Callable[[Floats, Bools], Platt | Isotonic]


def fit_platt(plausibilities: Floats, is_true: Bools) -> Platt:
    """Logistic regression; level at the share of true ones where nothing is to be told apart, or
    where the true ones are the less plausible."""
    share = (np.count_nonzero(is_true) + 1) / (len(is_true) + 2)
    level = Platt(slope=0.0, intercept=float(np.log(share / (1 - share))))
    center, spread = float(plausibilities.mean()), float(plausibilities.std())
    if is_true.all() or not is_true.any() or spread == 0.0:
        return level
    from sklearn.linear_model import LogisticRegression

    # In units of the spread, its slight regularisation is the same whatever the scale of scores.
    fitted = LogisticRegression().fit((plausibilities[:, None] - center) / spread, is_true)
    slope, intercept = float(fitted.coef_[0, 0]) / spread, float(fitted.intercept_[0])
    return Platt(slope=slope, intercept=intercept - slope * center) if slope > 0.0 else level


def fit_isotonic(plausibilities: Floats, is_true: Bools) -> Isotonic:
    """Isotonic regression. So many true triples cannot show that a probability is nearer to 0 or 1
    than 1 / (their number + 2), so it is not."""
    from sklearn.isotonic import IsotonicRegression

    least = 1.0 / (np.count_nonzero(is_true) + 2)
    fitted = IsotonicRegression(y_min=least, y_max=1.0 - least).fit(plausibilities, is_true)
    return Isotonic(
        plausibilities=tuple(fitted.X_thresholds_.tolist()),
        probabilities=tuple(fitted.y_thresholds_.tolist()),
    )


METHODS: tuple[Fit, ...] = (fit_platt, fit_isotonic)


def log_loss(probabilities: Floats, is_true: Bools) -> float:
    """The mean of -log of what was said about what came true."""
    said = np.where(is_true, probabilities, 1.0 - probabilities)
    return float(-np.log(np.maximum(said, 1e-15)).mean())


class Bin(Stored):
    """The triples whose probability is between low and high."""

    low: Share
    high: Share
    count: int = Field(ge=0)
    mean_probability: Share | None
    share_true: Share | None


class Reliability(Stored):
    """How well probabilities come true, for triples a share of which, the base rate, is true.

    brier = mean (p - y)^2 with y = 1 for true triples, else 0. expected_calibration_error = sum of
    |mean p - share of true| over BINS bins of equal width, weighted by their counts.
    """

    base_rate: Share
    brier: Share
    expected_calibration_error: Share
    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, probabilities: Floats, is_true: Bools) -> "Reliability":
        """Of n probabilities and what came true, n > 0."""
        bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(bins, minlength=BINS)
        said = np.bincount(bins, probabilities, minlength=BINS)
        came = np.bincount(bins, is_true, minlength=BINS)
        filled = np.maximum(counts, 1)
        return cls(
            base_rate=float(is_true.mean()),
            brier=float(np.square(probabilities - is_true).mean()),
            expected_calibration_error=float(np.abs(said - came).sum() / len(is_true)),
            bins=tuple(
                Bin(
                    low=number / BINS,
                    high=(number + 1) / BINS,
                    count=int(counts[number]),
                    mean_probability=said[number] / filled[number] if counts[number] else None,
                    share_true=came[number] / filled[number] if counts[number] else None,
                )
                for number in range(BINS)
            ),
        )


def best_threshold(probabilities: Floats, is_true: Bools) -> float:
    """The t for which `probability >= t` is right most often; the largest of those."""
    order = np.argsort(-probabilities, kind="stable")
    descending, truth = probabilities[order], is_true[order]
    gain = np.cumsum(np.where(truth, 1, -1))
    ends = np.append(descending[1:] != descending[:-1], True)
    return float(descending[np.argmax(np.where(ends, gain, -len(gain) - 1))])
