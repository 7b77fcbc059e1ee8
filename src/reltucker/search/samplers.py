"""Which settings come next: Optuna's samplers and pruners by name, and the paper's sampler."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from reltucker.search.parameter import Distribution, grid_values
from reltucker.search.plan import RANDOM_POINTS, Plan

RESTARTS = 20
PRUNING_STARTS = 5
"""Trials and epochs that are never pruned by the median."""


def sampler_maker(plan: Plan) -> Callable[[int], BaseSampler]:
    """The sampler of a plan for the trial of this number.

    What is drawn at random follows from the seed and the number, whichever worker draws it.
    """
    if plan.sampler == "paper":
        paper = PaperSampler(plan.grid(), plan.space, seed=plan.seed)
        return lambda number: paper
    if plan.sampler == "grid":  # one group, and all of its points at random
        grid = plan.grid()
        points = PaperSampler(grid, plan.space, "", len(grid), seed=plan.seed)
        return lambda number: points
    kinds: dict[str, Callable[..., BaseSampler]] = {
        "gp": GPSampler,
        # All settings together; trials that run elsewhere count as poor, so they spread.
        # Settings of different regions are drawn apart.
        "tpe": partial(TPESampler, multivariate=True, group=bool(plan.regions), constant_liar=True),
        "random": RandomSampler,
    }

    def make(number: int) -> BaseSampler:
        (seed,) = np.random.SeedSequence([plan.seed, number]).generate_state(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return kinds[plan.sampler](seed=int(seed))

    return make


def make_pruner(plan: Plan) -> BasePruner:
    """The pruner of a plan; it judges a trial by its validation MRR after each epoch."""
    if plan.pruner == "median":
        return MedianPruner(n_startup_trials=PRUNING_STARTS, n_warmup_steps=PRUNING_STARTS)
    return SuccessiveHalvingPruner() if plan.pruner == "halving" else NopPruner()


class PaperSampler(BaseSampler):
    """For each value of `group`: 8 grid points at random, then the unseen point with the highest
    predicted mean + standard deviation, time after time (the paper took 4 such points).

    The regressor is scikit-learn's with its defaults and 20 restarts. A setting enters it as its
    place in the list of its values, from 0 to 1. The point of a trial counts as seen as soon as
    the study holds its settings: whoever takes trials one at a time never takes a point twice.
    """

    def __init__(
        self,
        grid: Sequence[dict[str, Any]],
        distributions: Mapping[str, Distribution],
        group: str = "model.entity_dim",
        random_points: int = RANDOM_POINTS,
        seed: int = 0,
    ) -> None:
        self.grid = list(grid)
        self.distributions = distributions
        self.random_points = random_points
        self.seed = seed
        self.places = {self._point(point): place for place, point in enumerate(self.grid)}
        groups: dict[Any, list[int]] = {}
        for place, point in enumerate(self.grid):
            groups.setdefault(point.get(group), []).append(place)
        # The random order of each group is a function of the seed, whichever process draws.
        self.orders = [
            np.random.default_rng([seed, number]).permutation(places).tolist()
            for number, places in enumerate(groups.values())
        ]

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All settings of the grid are chosen together."""
        return dict(self.distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point of a trial."""
        return self.grid[self.choose(study.get_trials(deepcopy=False))]

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """There is nothing outside of the grid."""
        raise ValueError(f"{param_name} is not a setting of the grid, or has another distribution")

    def choose(self, trials: Sequence[FrozenTrial]) -> int:
        """The place of the next point in the grid, after these trials, running ones included."""
        places = [self.places.get(self._point(trial.params)) for trial in trials]
        seen = {place for place in places if place is not None}
        # The group with the fewest points so far is next, so that all advance together.
        open_groups = [order for order in self.orders if not seen.issuperset(order)]
        if not open_groups:
            raise ValueError("every point of the grid has been taken")
        order = min(open_groups, key=lambda order: len(seen.intersection(order)))
        unseen = [place for place in order if place not in seen]
        if len(order) - len(unseen) < self.random_points:
            return int(unseen[0])
        known = {
            place: trial.value
            for place, trial in zip(places, trials, strict=True)
            if trial.state == TrialState.COMPLETE and place in order
        }
        return self._most_promising(known, sorted(unseen)) if known else int(unseen[0])

    def _most_promising(self, known: dict[Any, float | None], unseen: list[int]) -> int:
        """arg max of mean + standard deviation among the unseen points."""
        # Here, so that workers with other samplers need not wait for scikit-learn.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor

        regressor = GaussianProcessRegressor(n_restarts_optimizer=RESTARTS, random_state=self.seed)
        with warnings.catch_warnings():
            # Some of the restarts end nowhere, or at a bound; the best one counts.
            warnings.simplefilter("ignore", ConvergenceWarning)
            regressor.fit(self._features(known), np.array(list(known.values()), np.float64))
        mean, deviation = regressor.predict(self._features(unseen), return_std=True)
        return unseen[int(np.argmax(mean + deviation))]

    def _features(self, places: Iterable[int]) -> npt.NDArray[np.float64]:
        """(points, settings): the place of each value among those of its setting, from 0 to 1."""
        axes = {key: grid_values(key, among) for key, among in self.distributions.items()}
        rows = [
            [axis.index(self.grid[p][key]) / max(1, len(axis) - 1) for key, axis in axes.items()]
            for p in places
        ]
        return np.array(rows, dtype=np.float64)

    def _point(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(values.get(key) for key in self.distributions)
