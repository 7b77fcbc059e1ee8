"""The paper's search as an Optuna sampler: random points of a grid, then a Gaussian process."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from reltucker.search.space import grid_values

POINT = "reltucker:point"
"""The trial's attribute with the place of its point in the grid."""

RANDOM_POINTS = 8
GUIDED_POINTS = 4
RESTARTS = 20


class PaperSampler(BaseSampler):
    """For each value of `group`: 8 grid points at random, then the unseen point with the highest
    predicted mean + standard deviation, time after time (the paper took 4 such points).

    The regressor is scikit-learn's with its defaults and 20 restarts. A setting enters it as its
    place in the list of its values, from 0 to 1. Points are chosen one at a time under `lock`, and
    a chosen point counts as seen at once, so trials that run in parallel never share a point.
    """

    def __init__(
        self,
        grid: Sequence[dict[str, Any]],
        distributions: Mapping[str, BaseDistribution],
        *,
        lock: Callable[[], AbstractContextManager[Any]],
        group: str = "model.entity_dim",
        seed: int = 0,
    ) -> None:
        self.grid = list(grid)
        self.distributions = dict(distributions)
        self.lock = lock
        self.seed = seed
        self.features = _features(self.grid, self.distributions)
        groups: dict[Any, list[int]] = {}
        for index, point in enumerate(self.grid):
            groups.setdefault(point.get(group), []).append(index)
        # The random order of each group is a function of the seed, whichever process draws.
        self.orders = [
            np.random.default_rng([seed, number]).permutation(indices).tolist()
            for number, indices in enumerate(groups.values())
        ]

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All settings of the grid are chosen together."""
        return self.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point of a trial, noted in the study before anyone else may choose."""
        if POINT in trial.system_attrs:  # a trial that is resumed
            return self.grid[int(trial.system_attrs[POINT])]
        with self.lock():
            chosen = self.choose(study.get_trials(deepcopy=False))
            study._storage.set_trial_system_attr(trial._trial_id, POINT, chosen)
        return self.grid[chosen]

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
        taken = [trial for trial in trials if POINT in trial.system_attrs]
        seen = {trial.system_attrs[POINT] for trial in taken}
        if len(seen) == len(self.grid):  # what was interrupted for good may be tried again
            seen = {t.system_attrs[POINT] for t in taken if t.state != TrialState.FAIL}
        # The group with the fewest points so far is next, so that all advance together.
        open_groups = [order for order in self.orders if not seen.issuperset(order)]
        if not open_groups:
            raise ValueError("every point of the grid has been taken")
        order = min(open_groups, key=lambda order: len(seen.intersection(order)))
        unseen = [index for index in order if index not in seen]
        known = {
            trial.system_attrs[POINT]: trial.value
            for trial in taken
            if trial.state == TrialState.COMPLETE and trial.system_attrs[POINT] in order
        }
        if len(order) - len(unseen) < RANDOM_POINTS or not known:
            return int(unseen[0])
        return self._most_promising(known, sorted(unseen))

    def _most_promising(self, known: dict[int, float | None], unseen: list[int]) -> int:
        """arg max of mean + standard deviation among the unseen points."""
        # Here, so that workers with other samplers need not wait for scikit-learn.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor

        regressor = GaussianProcessRegressor(n_restarts_optimizer=RESTARTS, random_state=self.seed)
        points, values = self.features[list(known)], np.array(list(known.values()), np.float64)
        with warnings.catch_warnings():
            # Some of the restarts end nowhere, or at a bound; the best one counts.
            warnings.simplefilter("ignore", ConvergenceWarning)
            regressor.fit(points, values)
        mean, deviation = regressor.predict(self.features[unseen], return_std=True)
        return unseen[int(np.argmax(mean + deviation))]


def _features(
    grid: Sequence[dict[str, Any]], distributions: Mapping[str, BaseDistribution]
) -> npt.NDArray[np.float64]:
    """(points, settings): the place of each value among those of its setting, from 0 to 1."""
    columns = []
    for key, distribution in distributions.items():
        values = grid_values(key, distribution)
        place = {value: number / max(1, len(values) - 1) for number, value in enumerate(values)}
        columns.append([place[point[key]] for point in grid])
    return np.array(columns, dtype=np.float64).T
