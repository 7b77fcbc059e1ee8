"""The folder of a search.

OUT/study.db          the study (SQLite), unless another storage is named
OUT/search.json       the plan: base recipe, space, sampler
OUT/graph/            the graph without its test triples, all that trials see
OUT/trials/NUMBER/    the run of each trial
OUT/workers/N.log     what workers had to say
OUT/trials.parquet    all trials
OUT/best.toml         the best recipe; OUT/recipes/NUMBER.toml those of the skyline
OUT/best/             the best model's run, with the whole graph
OUT/result.json       what came out, written last
"""

import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from reltucker.atomic import read_json, write_json
from reltucker.errors import RunError, StudyError
from reltucker.folders import is_free, sole_writer
from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan


class SearchFolder:
    """Where the files of a search are; a damaged one is named."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.graph = self.path / "graph"
        self.trials = self.path / "trials"
        self.best = self.path / "best"
        self.merged = self.path / ".merged"
        self._plan = self.path / "search.json"
        self._result = self.path / "result.json"

    def held(self, join: bool) -> AbstractContextManager[None]:
        """Hold the folder as the one that begins and ends the search; those who join, or work for
        it, share it."""
        if self.plan() is None and not is_free(self.path):
            raise StudyError(f"{self.path} exists and holds no search; choose another --out")
        return nullcontext() if join else sole_writer(self.path)

    def prepare(self, study: str, plan: Plan, graph: KnowledgeGraph) -> None:
        """Make the folder, or see that it belongs to the same search."""
        begun = self.plan()
        if begun is not None:
            name, earlier = begun
            if name != study:
                raise StudyError(
                    f"{self.path} holds the study {name!r}; choose another --out for {study!r}"
                )
            plan.check_same(earlier, str(self.path))
        try:
            # The plan first: whatever stops this process then, the next one knows the folder.
            write_json(self._plan, {"study": study, "plan": plan.model_dump(mode="json")})
            # The test triples stay with this process, which looks at them after all trials.
            without_test(graph).save(self.graph)
        except OSError as error:
            raise StudyError(f"{self.path} cannot be written: {error}") from None

    def plan(self) -> tuple[str, Plan] | None:
        """The name of the study and its plan; None where no search was begun."""
        if not self._plan.is_file():
            return None
        try:
            written = read_json(self._plan)
            return str(written["study"]), Plan.model_validate(written["plan"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(f"{self._plan} is damaged ({first_line(error)})") from None

    def trial(self, row: dict[str, Any]) -> Path:
        """The run folder of a trial."""
        return self.trials / str(row["folder"])

    def recipe(self, row: dict[str, Any]) -> Path:
        """Where the recipe of a point of the skyline is."""
        return self.path / "recipes" / f"{row['number']}.toml"

    def result(self, best: dict[str, Any]) -> dict[str, Any] | None:
        """What an earlier start wrote at its end, if the best trial was the same."""
        if not self._result.is_file():
            return None
        try:
            earlier: dict[str, Any] = read_json(self._result)
            is_same = earlier["best"]["number"] == best["number"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(
                f"{self._result} is damaged ({first_line(error)}); remove it"
            ) from None
        return earlier if is_same and self.best.is_dir() else None

    def write_result(self, result: dict[str, Any]) -> None:
        """Write what came out, last of all."""
        write_json(self._result, result)

    def keep_best(self, trial: Path, graph: KnowledgeGraph) -> None:
        """Copy the best trial's run, with the whole graph beside the weights."""
        working = self.path / ".best.tmp"
        try:
            shutil.rmtree(working, ignore_errors=True)
            shutil.copytree(trial, working)
            graph.save(working)
            shutil.rmtree(self.best, ignore_errors=True)
            working.rename(self.best)
        except OSError as error:
            raise RunError(f"{self.best} cannot be written: {error}") from error


def run_of(out: Path, row: dict[str, Any]) -> Path:
    """The run of a trial: OUT/best, with the whole graph, where it is the best of a search that
    has ended, else the trial's own, which knows no test triples."""
    folder = SearchFolder(out)
    return folder.trial(row) if folder.result(row) is None else folder.best


def without_test(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph as trials see it."""
    return replace(graph, test=graph.test[:0])


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    return (str(error).splitlines() or [type(error).__name__])[0]
