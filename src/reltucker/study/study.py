"""The paper's study on any graph: plan fits, search them resumably, compare what came out.

OUT/study.json          the graph, and the fits that were planned
OUT/searches/NAME/      the search of each fit; its best run is OUT/searches/NAME/best
OUT/comparison.html     the comparison, with tables/, pictures/ and comparison.json
OUT/result.json         what came out, written last
"""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from reltucker.atomic import is_free, write_json
from reltucker.errors import NoModelError, StudyError
from reltucker.progress import duration, error_console
from reltucker.report import Column, Table
from reltucker.search import Outcome, outcome_so_far, run_of, run_search
from reltucker.study.comparison import Comparison, Options, compare_fits
from reltucker.study.fits import read_fits
from reltucker.study.plan import PlannedFit, StudyPlan

PLAN_FILE = "study.json"
RESULT_FILE = "result.json"


@dataclass(frozen=True)
class FitState:
    """A planned fit, and the trials of its search up to now."""

    fit: PlannedFit
    folder: Path
    outcome: Outcome

    @property
    def ended(self) -> list[dict[str, Any]]:
        """The trials that ended, with a model or without."""
        return [row for row in self.outcome.rows if row["state"] not in ("running", "waiting")]

    @property
    def remaining(self) -> int:
        """How many trials are still to be run."""
        return max(0, self.fit.trials - len(self.ended))

    @property
    def seconds_each(self) -> float | None:
        """The mean duration of its trials; None before one has ended with a model."""
        seconds = [row["seconds"] for row in self.outcome.complete]
        return mean(seconds) if seconds else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the plan and how far it is."""
        best = self.outcome.best
        return {
            **self.fit.to_dict(),
            "done": len(self.ended),
            "failed": sum(row["state"] == "failed" for row in self.ended),
            "remaining": self.remaining,
            "seconds_each": self.seconds_each,
            "valid_mrr": None if best is None else best["mrr"],
        }


@dataclass(frozen=True)
class Progress:
    """How far a study is, and for how long it will go on."""

    plan: StudyPlan
    out: Path
    states: tuple[FitState, ...]
    workers: int

    @property
    def done(self) -> int:
        """Trials that ended."""
        return sum(len(state.ended) for state in self.states)

    @property
    def remaining(self) -> int:
        """Trials that are still to be run."""
        return sum(state.remaining for state in self.states)

    @property
    def unknown(self) -> list[str]:
        """The models of which no trial has ended yet, so that their time is not known."""
        names = (s.fit.model for s in self.states if s.remaining and self._seconds(s) is None)
        return list(dict.fromkeys(names))

    @property
    def seconds_left(self) -> float | None:
        """For all remaining trials but those of `unknown` models; None where all are unknown."""
        known = [
            state.remaining * seconds
            for state in self.states
            if state.remaining and (seconds := self._seconds(state)) is not None
        ]
        if not known:
            return None if self.remaining else 0.0
        return sum(known) / self.workers

    def _seconds(self, state: FitState) -> float | None:
        """Of one trial: the mean of its own fit, else of the nearest size of the same model, times
        how much more there is to compute."""
        size = state.fit.recipe.model.entity_dim
        known = [
            (abs(other.fit.recipe.model.entity_dim - size), each * state.fit.work / other.fit.work)
            for other in (state, *self.states)
            if other.fit.model == state.fit.model and (each := other.seconds_each) is not None
        ]
        return min(known, key=lambda pair: pair[0])[1] if known else None

    def line(self) -> str:
        """In one line, for a person."""
        parts = [f"{self.done} of {self.done + self.remaining} trials done"]
        if self.remaining:
            left = self.seconds_left
            parts.append("time left unknown" if left is None else f"about {duration(left)} left")
            if left is not None and self.unknown:
                parts.append(f"besides {' and '.join(self.unknown)}, of which none has ended yet")
        return ", ".join(parts)

    def table(self) -> Table:
        """The plan, and how far each fit is."""
        columns = [
            Column("fit", "name"),
            Column("model", "model"),
            Column("d_e", "entity_dim", "d"),
            Column("d_r", "shown_relation_dim"),
            Column("grid", "space"),
            Column("points", "points", ",d"),
            *(Column(key, key, "d") for key in ("trials", "done", "failed")),
            Column("s / trial", "seconds_each", ",.1f"),
            Column("valid MRR", "valid_mrr", ".4f"),
        ]
        rows = [state.to_dict() for state in self.states]
        for row in rows:
            searched = "model.relation_dim" in row["searched"]
            row["shown_relation_dim"] = "searched" if searched else row["relation_dim"]
        return Table("The fits of the study", columns, rows)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is planned, what is done, what remains and for how long."""
        return {
            "graph": self.plan.source,
            "out": str(self.out),
            "trials": self.done + self.remaining,
            "done": self.done,
            "remaining": self.remaining,
            "seconds_left": self.seconds_left,
            "seconds_left_without": self.unknown,
            "plan": [state.to_dict() for state in self.states],
        }


@dataclass(frozen=True)
class StudyResult:
    """A study, or a part of it, with its comparison."""

    progress: Progress
    runs: dict[str, Path]
    """The runs that were compared, by the names of the fits."""
    comparison: Comparison
    files: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as `reltucker study --json` prints it."""
        return {
            **self.progress.to_dict(),
            "fits": [
                {
                    "name": state.fit.name,
                    "run": str(self.runs[state.fit.name]),
                    "trial": best["number"],
                    "valid_mrr": best["mrr"],
                    "effective_parameters": best["effective_parameters"],
                    "parameters": state.outcome.values(best),
                }
                for state in self.progress.states
                if (best := state.outcome.best) is not None
            ],
            "failed": [
                {"name": state.fit.name, "reason": _reason(state)}
                for state in self.progress.states
                if state.ended and state.outcome.best is None
            ],
            "comparison": {
                "split": self.comparison.fits.split,
                "protocol": self.comparison.options.protocol,
                "runs": {name: str(path) for name, path in self.runs.items()},
                "best": list(self.comparison.tables()["best"].rows),
                "files": [str(path) for path in self.files],
            },
        }


def progress_of(plan: StudyPlan, out: Path, workers: int = 1) -> Progress:
    """Read how far the study in a folder is; nothing is written."""
    _check_folder(plan, out)
    folders = [out / "searches" / fit.name for fit in plan.fits]
    outcomes = [outcome_so_far(folder) or Outcome([], [], {}) for folder in folders]
    return Progress(plan, out, tuple(map(FitState, plan.fits, folders, outcomes)), workers)


def run_study(
    plan: StudyPlan, out: Path | str, *, workers: int = 1, progress: bool = True
) -> Progress:
    """Run the searches of all fits, or go on with them; no test triple is looked at.

    A fit none of whose trials ended with a model is left without one, and the others go on.
    """
    out = Path(out)
    now = progress_of(plan, out, workers)
    written = {"graph": plan.source, "digest": plan.digest, "fits": [f.name for f in plan.fits]}
    try:
        write_json(out / PLAN_FILE, written)
    except OSError as error:
        raise StudyError(f"{out} cannot be written: {error}") from None
    console = error_console()
    for number, state in enumerate(now.states, start=1):
        if progress:
            place = f"fit {number} of {len(now.states)}, {state.fit.name}"
            console.print(f"study: {place}; {now.line()}", markup=False)
        try:
            run_search(
                state.fit.recipe,
                state.fit.space,
                out=state.folder,
                trials=state.fit.trials,
                sampler="paper",
                study=state.fit.name,
                workers=workers,
                seed=plan.seed,
                judge=False,
                graph=plan.graph,
                progress=progress,
            )
        except NoModelError as error:
            if progress:
                console.print(f"study: {state.fit.name} has no model: {error}", markup=False)
        now = progress_of(plan, out, workers)
    return now


def compare_study(
    now: Progress, options: Options, *, all_fits: bool = False, progress: bool = True
) -> StudyResult:
    """Compare the best run up to now of each fit, or with `all_fits` every trial's, on test.

    Runs are named as their fits, trials that are not the best as FIT/NUMBER.
    """
    plan, out = now.plan, now.out
    runs: dict[str, Path] = {}
    for state in sorted(now.states, key=lambda state: plan.place(state.fit)):
        name, best = state.fit.name, state.outcome.best
        for row in state.outcome.complete if all_fits else [best] if best else []:
            runs[name if row is best else f"{name}/{row['number']}"] = run_of(state.folder, row)
    if not runs:
        reasons = [_reason(state) for state in now.states if state.ended]
        why = f": {reasons[0]}" if reasons else "; run the study without --compare-only"
        raise StudyError(f"{out}: no trial has ended with a model{why}")
    fits = read_fits(
        list(runs.values()), "test", names=list(runs), graph=plan.graph, progress=progress
    )
    comparison = compare_fits(fits, options)
    result = StudyResult(now, runs, comparison, comparison.write(out))
    write_json(out / RESULT_FILE, result.to_dict())
    return result


def _reason(state: FitState) -> str:
    """Why a fit has no model."""
    return next((str(row["reason"]) for row in state.ended if row["reason"]), "no trial has ended")


def _check_folder(plan: StudyPlan, out: Path) -> None:
    """See that the folder is free, or belongs to a study of the same graph."""
    path = out / PLAN_FILE
    if not path.is_file():
        if not is_free(out):
            raise StudyError(f"{out} exists and holds no study; choose another --out")
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} is damaged ({error})") from None
    if known != plan.digest:
        raise StudyError(f"{out} holds the study of another graph; choose another --out")
