"""The paper's sampler: 8 random points, then arg max of mean + deviation; nothing twice."""

import warnings
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from sklearn.gaussian_process import GaussianProcessRegressor

from reltucker.search import PaperSampler
from reltucker.search.space import grid_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # warnings.catch_warnings does not keep threads apart.
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]

DISTRIBUTIONS = {
    "model.entity_dim": CategoricalDistribution([50, 100]),
    "a": CategoricalDistribution([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    "b": CategoricalDistribution([0.5, 0.1, 0.05, 0.01]),
}
GRID = grid_of(DISTRIBUTIONS)


def place(key: str, point: dict[str, Any]) -> float:
    choices = DISTRIBUTIONS[key].choices
    return choices.index(point[key]) / (len(choices) - 1)


def known_function(point: dict[str, Any]) -> float:
    """Highest at a = 0.3, b = 0.1; better for the larger entity size."""
    a, b = place("a", point), place("b", point)
    return 0.4 - (a - 0.6) ** 2 - 0.5 * (b - 1 / 3) ** 2 + 0.1 * place("model.entity_dim", point)


def objective(trial: optuna.Trial) -> float:
    point = {key: trial.suggest_categorical(key, d.choices) for key, d in DISTRIBUTIONS.items()}
    return known_function(point)


def sampler(seed: int = 0) -> PaperSampler:
    return PaperSampler(GRID, DISTRIBUTIONS, seed=seed)


def features(point: dict[str, Any]) -> list[float]:
    return [place(key, point) for key in DISTRIBUTIONS]


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(objective, n_trials=24)
    return study


def test_it_picks_the_arg_max_of_mean_plus_deviation_among_unseen_points(
    study: optuna.Study,
) -> None:
    guided = 0
    for dim in (50, 100):
        trials = [t for t in study.trials if t.params["model.entity_dim"] == dim]
        assert len(trials) == 12
        points = [point for point in GRID if point["model.entity_dim"] == dim]
        for number in range(8, 12) if dim == 50 else (8,):
            before = [trial.params for trial in trials[:number]]
            unseen = [point for point in points if point not in before]
            assert len(unseen) == len(points) - number
            regressor = GaussianProcessRegressor(n_restarts_optimizer=20, random_state=0)
            regressor.fit(
                np.array([features(point) for point in before]),
                np.array([known_function(point) for point in before]),
            )
            mean, deviation = regressor.predict(
                np.array([features(point) for point in unseen]), return_std=True
            )
            chosen = unseen.index(trials[number].params)
            assert (mean + deviation)[chosen] == pytest.approx((mean + deviation).max(), abs=1e-9)
            guided += 1
    assert guided == 5


def test_the_first_eight_points_of_each_size_are_drawn_by_the_seed_alone(
    study: optuna.Study,
) -> None:
    def first(trials: list[optuna.trial.FrozenTrial], dim: int) -> list[dict[str, Any]]:
        return [t.params for t in trials if t.params["model.entity_dim"] == dim][:8]

    other = optuna.create_study(direction="maximize", sampler=sampler())
    other.optimize(lambda trial: -objective(trial), n_trials=16)
    seeded = optuna.create_study(direction="maximize", sampler=sampler(seed=1))
    seeded.optimize(objective, n_trials=16)
    for dim in (50, 100):
        assert first(study.trials, dim) == first(other.trials, dim)
        assert first(study.trials, dim) != first(seeded.trials, dim)


def test_no_point_is_tried_twice_until_the_grid_is_used_up() -> None:
    few = GRID[:9]  # of one size, the last by the Gaussian process
    own = PaperSampler(few, DISTRIBUTIONS)
    study = optuna.create_study(direction="maximize", sampler=own)
    study.optimize(objective, n_trials=len(few))
    tried = [trial.params for trial in study.trials]
    assert all(point in tried for point in few)
    with pytest.raises(ValueError, match="every point"):
        study.optimize(objective, n_trials=1)


def test_running_trials_count_as_seen() -> None:
    study = optuna.create_study(direction="maximize", sampler=sampler())
    study.optimize(objective, n_trials=16)
    open_trials = [study.ask(DISTRIBUTIONS) for _ in range(4)]
    points = [tuple(t.params.values()) for t in (*study.trials[:16], *open_trials)]
    assert len(set(points)) == 20


def test_a_trial_that_is_resumed_keeps_its_point() -> None:
    study = optuna.create_study(direction="maximize", sampler=sampler())
    study.optimize(objective, n_trials=3)
    first = study.trials[1]
    study.add_trial(
        optuna.trial.create_trial(
            state=optuna.trial.TrialState.WAITING,
            params=first.params,
            distributions=first.distributions,
        )
    )
    assert study.ask(DISTRIBUTIONS).params == first.params
    assert study.ask(DISTRIBUTIONS).params not in [trial.params for trial in study.trials[:4]]
