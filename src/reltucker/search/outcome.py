"""What came out of a study: its trials as a table, the best one, the skyline, importance."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from optuna import Study
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState

from reltucker.search.plan import Plan
from reltucker.search.trials import CUT, FAILURE, FIGURES, FOLDER, counted, deaths, is_given_up

IMPORTANCE_TRIALS = 10
"""Fewer finished trials say nothing about importance."""


@dataclass(frozen=True)
class Outcome:
    """The trials that count, in order, and what they say together."""

    rows: list[dict[str, Any]]
    parameters: list[str]
    importance: dict[str, float]

    @property
    def complete(self) -> list[dict[str, Any]]:
        """The trials that ended with a model."""
        return [row for row in self.rows if row["state"] == "complete"]

    @property
    def best(self) -> dict[str, Any] | None:
        """The first trial with the highest validation MRR."""
        return max(self.complete, key=lambda row: row["mrr"], default=None)

    @property
    def skyline(self) -> list[dict[str, Any]]:
        """The trials that no other beats in both MRR and effective parameters, smallest first."""
        front: list[dict[str, Any]] = []
        ordered = sorted(self.complete, key=lambda row: (row["effective_parameters"], -row["mrr"]))
        for row in ordered:
            if not front or row["mrr"] > front[-1]["mrr"]:
                front.append(row)
        return front

    def count(self, state: str) -> int:
        """How many trials ended so."""
        return sum(row["state"] == state for row in self.rows)

    def values(self, row: dict[str, Any]) -> dict[str, Any]:
        """The searched settings of a trial."""
        return {key: row[key] for key in self.parameters if row[key] is not None}

    def frame(self) -> pl.DataFrame:
        """A row for each trial."""
        return pl.DataFrame(self.rows, infer_schema_length=None)


def outcome_of(study: Study, plan: Plan, *, with_importance: bool = True) -> Outcome:
    """Read the study; what settings mattered takes a while to find."""
    keys = plan.keys()
    trials = counted(study.get_trials(deepcopy=False))
    if plan.share is not None:  # what the time did not suffice for
        trials = [trial for trial in trials if trial.state.is_finished()]
    rows = [row_of(trial, keys) for trial in trials]
    return Outcome(rows, keys, _importance(study, trials) if with_importance else {})


def row_of(trial: FrozenTrial, keys: Sequence[str] = ()) -> dict[str, Any]:
    """A trial as a row of the table, with these settings."""
    attributes = trial.user_attrs
    is_failed = FAILURE in attributes or trial.state == TrialState.FAIL
    state = "failed" if is_failed else trial.state.name.lower()
    mrr = trial.values[0] if state == "complete" else None
    if state == "pruned" and trial.intermediate_values:
        mrr = max(trial.intermediate_values.items())[1]
    reason = attributes.get(FAILURE)
    if is_given_up(trial):
        reason = f"its worker died {deaths(trial)} times, perhaps for want of memory"
    # Those of a region have its name before their own.
    values = {name.rpartition("/")[2]: value for name, value in trial.params.items()}
    return {
        "number": trial.number,
        "state": state,
        "mrr": mrr,
        **{name: attributes.get(name) for name in FIGURES},
        "reason": reason,
        "folder": attributes.get(FOLDER),
        CUT: attributes.get(CUT),
        **{key: values.get(key) for key in keys},
    }


def _importance(study: Study, trials: Sequence[FrozenTrial]) -> dict[str, float]:
    """fANOVA's share of each setting in the variance of the MRR, most important first."""
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    # All trials have these; of the settings of one region too few tell.
    keys = sorted(set.intersection(*(set(trial.params) for trial in done))) if done else []
    varied = [key for key in keys if len({trial.params.get(key) for trial in done}) > 1]
    # The share of a single setting would be all.
    if len({trial.values[0] for trial in done}) < IMPORTANCE_TRIALS or len(varied) < 2:
        return {}
    # Here, for it brings scikit-learn, and no worker should wait for that.
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        found = get_param_importances(
            study,
            evaluator=FanovaImportanceEvaluator(seed=0),
            params=varied,
            target=lambda trial: float(trial.values[0]),
        )
    return {key: float(value) for key, value in found.items() if math.isfinite(value)}
