"""The paper's study on any graph: plan fits, search them resumably, compare what came out.

OUT/study.json          the graph, and the fits that were planned
OUT/searches/NAME/      the search of each fit; its best run is OUT/searches/NAME/best
OUT/comparison.html     the comparison, with tables/, pictures/ and comparison.json
OUT/result.json         what came out, written last
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reltucker.atomic import read_json, write_json
from reltucker.errors import NoModelError, StudyError
from reltucker.folders import is_free, sole_writer
from reltucker.progress import duration, error_console
from reltucker.report import Column, Table
from reltucker.search import outcome_so_far, run_of, run_search
from reltucker.study.comparison import Comparison, Options, compare_fits
from reltucker.study.fits import read_fits
from reltucker.study.plan import PlannedFit, StudyPlan

PLAN_FILE = "study.json"


@dataclass(frozen=True)
class Progress:
    """How far a study is, and for how long it will go on."""

    plan: StudyPlan
    out: Path
    workers: int

    @property
    def done(self) -> int:
        """Trials that ended."""
        return sum(len(fit.ended) for fit in self.plan.fits)

    @property
    def remaining(self) -> int:
        """Trials that are still to be run."""
        return sum(fit.remaining for fit in self.plan.fits)

    @property
    def unknown(self) -> list[str]:
        """The models of which no trial has ended yet, so that their time is not known."""
        waiting = [fit for fit in self.plan.fits if fit.remaining]
        return list(dict.fromkeys(fit.model for fit in waiting if self._seconds(fit) is None))

    @property
    def seconds_left(self) -> float | None:
        """For all remaining trials but those of `unknown` models; None where all are unknown."""
        known = [
            fit.remaining * seconds
            for fit in self.plan.fits
            if fit.remaining and (seconds := self._seconds(fit)) is not None
        ]
        return sum(known) / self.workers if known or not self.remaining else None

    def _seconds(self, fit: PlannedFit) -> float | None:
        """Of one trial: the mean of its own fit, else of the nearest size of the same model, times
        how much more there is to compute."""
        size = fit.recipe.model.entity_dim
        known = [
            (abs(other.recipe.model.entity_dim - size), each * fit.work / other.work)
            for other in (fit, *self.plan.fits)
            if other.model == fit.model and (each := other.seconds_each) is not None
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
            Column("model", "model", spare=3),
            Column("d_e", "entity_dim", "d", spare=3),
            Column("d_r", "relation_dim", spare=3),
            Column("grid", "space", spare=4),
            Column("points", "points", ",d", spare=2),
            *(Column(key, key, "d", spare=1) for key in ("trials", "done", "failed")),
            Column("s / trial", "seconds_each", ",.1f", spare=2),
            Column("valid MRR", "valid_mrr", ".4f"),
        ]
        rows = [fit.to_dict() for fit in self.plan.fits]
        for row in rows:
            if "model.relation_dim" in row["searched"]:
                row["relation_dim"] = "searched"
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
            "plan": [fit.to_dict() for fit in self.plan.fits],
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
                    "name": fit.name,
                    "run": str(self.runs[fit.name]),
                    "trial": best["number"],
                    "valid_mrr": best["mrr"],
                    "effective_parameters": best["effective_parameters"],
                    "parameters": fit.outcome.values(best),
                }
                for fit in self.progress.plan.fits
                if (best := fit.outcome.best) is not None
            ],
            "failed": [
                {"name": fit.name, "reason": fit.reason}
                for fit in self.progress.plan.fits
                if fit.ended and fit.outcome.best is None
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
    """Read how far the study in a folder is, which may be a free one; nothing is written."""
    path = out / PLAN_FILE
    if path.is_file():
        try:
            known = read_json(path)["digest"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(f"{path} is damaged ({error})") from None
        if known != plan.digest:
            raise StudyError(f"{out} holds the study of another graph; choose another --out")
    elif not is_free(out):
        raise StudyError(f"{out} exists and holds no study; choose another --out")
    outcomes = [outcome_so_far(_search(out, fit)) for fit in plan.fits]
    fits = [
        replace(fit, outcome=outcome) if outcome else fit
        for fit, outcome in zip(plan.fits, outcomes, strict=True)
    ]
    return Progress(replace(plan, fits=tuple(fits)), out, workers)


def run_study(
    plan: StudyPlan, out: Path | str, *, workers: int = 1, progress: bool = True
) -> Progress:
    """Run the searches of all fits, or go on with them; no test triple is looked at.

    A fit none of whose trials ended with a model is left without one, and the others go on.
    """
    out = Path(out)
    progress_of(plan, out, workers)  # which refuses a folder that holds something else
    with sole_writer(out):
        return _run_searches(plan, out, workers, progress)


def _run_searches(plan: StudyPlan, out: Path, workers: int, progress: bool) -> Progress:
    now = progress_of(plan, out, workers)
    written = {"graph": plan.source, "digest": plan.digest, "fits": [f.name for f in plan.fits]}
    try:
        write_json(out / PLAN_FILE, written)
    except OSError as error:
        raise StudyError(f"{out} cannot be written: {error}") from None
    console = error_console()
    for number, fit in enumerate(plan.fits, start=1):
        if progress:
            place = f"fit {number} of {len(plan.fits)}, {fit.name}"
            console.print(f"study: {place}; {now.line()}", markup=False)
        try:
            run_search(
                fit.recipe,
                fit.space,
                out=_search(out, fit),
                trials=fit.trials,
                sampler="paper",
                study=fit.name,
                workers=workers,
                seed=plan.seed,
                judge=False,
                graph=plan.graph,
                progress=progress,
            )
        except NoModelError as error:
            if progress:
                console.print(f"study: {fit.name} has no model: {error}", markup=False)
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
    for fit in sorted(plan.fits, key=plan.place):
        best = fit.outcome.best
        for row in fit.outcome.complete if all_fits else [best] if best else []:
            name = fit.name if row is best else f"{fit.name}/{row['number']}"
            runs[name] = run_of(_search(out, fit), row)
    if not runs:
        reasons = [fit.reason for fit in plan.fits if fit.ended]
        why = f": {reasons[0]}" if reasons else "; run the study without --compare-only"
        raise StudyError(f"{out}: no trial has ended with a model{why}")
    fits = read_fits(
        list(runs.values()), "test", names=list(runs), graph=plan.graph, progress=progress
    )
    comparison = compare_fits(fits, options)
    result = StudyResult(now, runs, comparison, comparison.write(out))
    write_json(out / "result.json", result.to_dict())
    return result


def _search(out: Path, fit: PlannedFit) -> Path:
    """The folder of a fit's search."""
    return out / "searches" / fit.name
