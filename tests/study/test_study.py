"""The paper's study: what is planned, run, interrupted and gone on with, compared and refused."""

import contextlib
import json
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reltucker.cli import app
from reltucker.errors import GraphError, NoModelError, RecipeError, StudyError
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.run import open_run
from reltucker.search import Outcome, run_search
from reltucker.study import plan as plan_module
from reltucker.study import study as study_module
from reltucker.study.comparison import Options
from reltucker.study.plan import StudyPlan, matched_size, parse_names, parse_sizes, plan_study
from reltucker.study.quality import Certainty
from reltucker.study.study import (
    Progress,
    compare_study,
    progress_of,
    run_study,
)
from tests.cli.test_commands import COMMAND, reltucker
from tests.conftest import disjoint, random_graph, write_graph
from tests.study.conftest import MakeOnce

VALUES = {"train.epochs": 1, "train.batch_size": 64, "train.negatives": 6}
QUICK = Options(certainty=Certainty(resamples=100, flips=200))
ORDER = ["complex-4", "srt-4", "complex-6", "srt-6"]
FITTED = "complex"
RUN = [f"{FITTED}-4", f"{FITTED}-6"]
"""What is fitted for real; a worker takes seconds to start."""


@pytest.fixture(scope="module")
def graph_files(make_once: MakeOnce) -> Path:
    graph = disjoint(random_graph(5))
    return make_once("study-graph", lambda folder: write_graph(graph, folder / "small")) / "small"


def small_plan(graph_files: Path, **options: Any) -> StudyPlan:
    given = {"models": ["complex", "srt"], "sizes": [6, 4], "trials": 2, "values": VALUES}
    return plan_study(str(graph_files), **{**given, **options})


def graph_of_size(entities: int, relations: int) -> KnowledgeGraph:
    return replace(
        random_graph(0),
        entities=Vocabulary([f"e{i}" for i in range(entities)], kind="entity"),
        relations=Vocabulary([f"r{k}" for k in range(relations)], kind="relation"),
    )


# -- the plan ---------------------------------------------------------------------------------


def test_small_sizes_come_first_and_options_add_fits(graph_files: Path) -> None:
    assert [fit.name for fit in small_plan(graph_files).fits] == ORDER
    plan = small_plan(graph_files, reciprocal=True, match_parameters=True, sizes=[4, 8])
    names = [fit.name for fit in plan.fits]
    assert [name for name in names if "reciprocal" in name] == [
        "complex-4-reciprocal",
        "complex-8-reciprocal",
    ]
    fits = {fit.name: fit for fit in plan.fits}
    assert fits["complex-8-reciprocal"].recipe.model.reciprocal
    (matched,) = (fit for fit in plan.fits if fit.name.startswith("drt-"))
    assert (matched.recipe.model.relation_dim, matched.trials) == (4, 2)
    assert "model.relation_dim" not in matched.space.parameters
    assert [fit.name for fit in sorted(plan.fits, key=plan.place)] == [
        "complex-4",
        "complex-8",
        "srt-4",
        "srt-8",
        matched.name,
        "complex-4-reciprocal",
        "complex-8-reciprocal",
    ]
    assert fits["srt-4"].space.source == "simple"
    assert all("model.entity_dim" not in fit.space.parameters for fit in plan.fits)
    assert all(fit.recipe.train.epochs == 1 for fit in plan.fits)


def test_published_graphs_have_the_paper_s_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "load_graph", lambda *_, **__: disjoint(random_graph(5)))
    plan = plan_study("fb15k-237")
    dropouts_rates_decays = 6 * 6 * 6 * 4
    points = {fit.name: fit.points for fit in plan.fits}
    for size in (50, 100, 200):
        assert points[f"complex-{size}"] == dropouts_rates_decays
        assert points[f"drt-{size}"] == 5 * dropouts_rates_decays
        assert points[f"srt-{size}"] == 5 * 3 * dropouts_rates_decays
    assert len(points) == 9
    assert {fit.space.source for fit in plan.fits} == {"paper"}
    assert {fit.trials for fit in plan.fits} == {12}


def test_matched_budgets_are_the_paper_s() -> None:
    freebase = graph_of_size(14_541, 237)
    assert [matched_size(freebase, size) for size in (50, 100, 200)] == [32, 52, 84]
    wordnet = graph_of_size(40_943, 11)
    assert [matched_size(wordnet, size) for size in (50, 100, 200)] == [48, 96, 192]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"models": ["complexx"]}, RecipeError, "did you mean 'complex'"),
        ({"sizes": [5]}, RecipeError, "entity_dim"),
        (
            {"models": ["srt"], "reciprocal": True},
            StudyError,
            "a fixed core.*complex",
        ),
        ({"assignments": ["model.entity_dim=8"]}, StudyError, "by --models and --sizes"),
        ({"assignments": ["train.epoch=8"]}, RecipeError, "train.epochs"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    graph_files: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        small_plan(graph_files, **options)


def test_a_study_needs_test_triples(tmp_path: Path) -> None:
    graph = disjoint(random_graph(5))
    folder = write_graph(replace(graph, test=graph.test[:0]), tmp_path / "blind")
    (folder / "test.tsv").write_text("e31\tr0\te32\n")  # neither occurs in train
    with pytest.raises(GraphError, match="a study needs test triples"):
        small_plan(folder)


@pytest.mark.parametrize("text", ["", "50,x", "50,-1", "0", "1.5", "²"])
def test_sizes_are_whole_numbers(text: str) -> None:
    with pytest.raises(StudyError, match="such as 50,100,200"):
        parse_sizes("--sizes", text)
    assert parse_sizes("--sizes", " 50, 100,") == [50, 100]
    with pytest.raises(StudyError, match="name at least one"):
        parse_names("--models", " ,")


# -- how long it takes ------------------------------------------------------------------------


def with_seconds(plan: StudyPlan, seconds: dict[str, list[float | None]]) -> Progress:
    """A study whose fits have trials that took so long; None is one that failed."""
    fits = []
    for fit in plan.fits:
        rows = [
            {
                "number": number,
                "state": "failed" if each is None else "complete",
                "mrr": each,
                "seconds": each,
                "reason": None,
            }
            for number, each in enumerate(seconds.get(fit.name, []))
        ]
        fits.append(replace(fit, outcome=Outcome(rows, [], {})))
    return Progress(replace(plan, fits=tuple(fits)), Path("out"), workers=2)


def test_the_time_left_is_told_by_what_has_ended(graph_files: Path) -> None:
    plan = small_plan(graph_files, trials=3)
    nothing = with_seconds(plan, {})
    assert nothing.seconds_left is None
    assert nothing.line() == "0 of 12 trials done, time left unknown"

    begun = with_seconds(plan, {"complex-4": [10.0, 30.0]})
    # One more of complex-4, and three of complex-6, whose vectors are half as long again.
    assert begun.seconds_left == pytest.approx((1 * 20 + 3 * 20 * 6 / 4) / 2)
    assert begun.unknown == ["srt"]
    assert "2 of 12 trials done, about 55 s left, besides srt" in begun.line()

    later = with_seconds(
        plan,
        {"complex-4": [20.0] * 3, "srt-4": [8.0, None], "complex-6": [60.0]},
    )
    # The own mean counts where there is one; the mixing matrices of SRT grow with the square.
    assert later.seconds_left == pytest.approx((1 * 8 + 2 * 60 + 3 * 8 * 36 / 16) / 2)
    assert (later.done, later.remaining, later.unknown) == (6, 6, [])
    assert later.plan.fits[1].to_dict()["failed"] == 1
    done = with_seconds(plan, {name: [1.0] * 3 for name in ORDER})
    assert (done.seconds_left, done.line()) == (0.0, "12 of 12 trials done")


# -- a study that is stopped and goes on ------------------------------------------------------


def options_of(graph_files: Path) -> list[str]:
    settings = [part for key, value in VALUES.items() for part in ("--set", f"{key}={value}")]
    sizes = ["--models", FITTED, "--sizes", "6,4", "--trials", "2"]
    return ["study", str(graph_files), *sizes, *settings, "--out", "out"]


def written(out: Path) -> dict[Path, int]:
    """When each trial that has ended was written."""
    results = out.glob("searches/*/trials/*/result.json")
    return {path: path.stat().st_mtime_ns for path in results}


def stop_and_go_on(graph_files: Path, folder: Path) -> None:
    """Stop a study in its second fit, compare what has ended, and go on to the end."""
    with subprocess.Popen(
        [*COMMAND, *options_of(graph_files)], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 120
        second = folder / "out" / "searches" / RUN[1]
        while not second.exists() and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"fit 2 of 2, {RUN[1]}; 2 of 4 trials done" in errors
    assert "the same command goes on with the study in out" in errors

    out = folder / "out"
    plan = small_plan(graph_files, models=[FITTED])
    result = compare_study(progress_of(plan, out), QUICK, progress=False).to_dict()
    before = {str(path): when for path, when in written(out).items()}
    (folder / "halfway.json").write_text(json.dumps({"result": result, "written": before}))
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*options_of(graph_files), "--json"])
    assert done.exit_code == 0, done.output
    assert f"fit 2 of 2, {RUN[1]}" in done.stderr
    (folder / "finished.json").write_text(done.stdout)


@pytest.fixture(scope="module")
def stopped(make_once: MakeOnce, graph_files: Path) -> Path:
    """A folder with a study that was stopped and went on."""
    return make_once("stopped-study", partial(stop_and_go_on, graph_files))


@pytest.fixture(scope="module")
def halfway(stopped: Path) -> dict[str, Any]:
    """What was compared of the stopped study, and when its trials were written."""
    found: dict[str, Any] = json.loads((stopped / "halfway.json").read_text())
    return found


@pytest.fixture(scope="module")
def finished(stopped: Path) -> dict[str, Any]:
    """What the same command printed when it had gone on to the end."""
    document: dict[str, Any] = json.loads((stopped / "finished.json").read_text())
    return document


def test_what_has_ended_is_compared(halfway: dict[str, Any]) -> None:
    result = halfway["result"]
    assert RUN[0] in {fit["name"] for fit in result["fits"]}
    assert result["remaining"] >= 1
    (row,) = result["comparison"]["best"]
    assert (row["model"], row["entity_dim"]) in {("ComplEx", 4), ("ComplEx", 6)}


def test_no_fit_is_made_twice(
    stopped: Path, halfway: dict[str, Any], finished: dict[str, Any]
) -> None:
    now = {str(path): when for path, when in written(stopped / "out").items()}
    assert len(halfway["written"]) >= 2
    assert {path: now[path] for path in halfway["written"]} == halfway["written"]
    assert len(now) == 4


def test_the_document_tells_of_plan_fits_and_comparison(
    stopped: Path, finished: dict[str, Any]
) -> None:
    assert finished == json.loads((stopped / "out" / "result.json").read_text())
    assert [fit["name"] for fit in finished["plan"]] == RUN
    assert [fit["done"] for fit in finished["plan"]] == [2] * 2
    assert (finished["done"], finished["remaining"], finished["seconds_left"]) == (4, 0, 0.0)
    assert [fit["name"] for fit in finished["fits"]] == RUN
    assert finished["failed"] == []
    for row in finished["comparison"]["best"]:
        run = open_run(stopped / finished["comparison"]["runs"][row["run"]])
        assert run.evaluate(progress=False).to_dict()["seen"]["mrr"] == pytest.approx(row["mrr"])
        assert row["valid_mrr"] == max(fit["valid_mrr"] for fit in finished["fits"])


def test_tables_pictures_and_page_are_there(stopped: Path, finished: dict[str, Any]) -> None:
    files = {Path(path).relative_to("out") for path in finished["comparison"]["files"]}
    assert all((stopped / "out" / path).stat().st_size for path in files)
    for name in ("best", "entity-size", "skyline", "relations", "cost"):
        for suffix in ("md", "csv", "tex"):
            assert Path("tables") / f"{name}.{suffix}" in files
    assert not {Path("tables/patterns.md"), Path("tables/baselines.md")} & files  # none is sparse
    assert {Path("comparison.html"), Path("pictures/skyline.png")} <= files


def test_searches_do_not_look_at_test(stopped: Path, finished: dict[str, Any]) -> None:
    for name in RUN:
        folder = stopped / "out" / "searches" / name
        assert "seen" not in json.loads((folder / "result.json").read_text())
        assert [len(open_run(path).graph.test) for path in folder.glob("trials/*")] == [0, 0]
        assert len(open_run(folder / "best").graph.test)


def test_a_search_of_a_study_can_be_judged_later(
    graph_files: Path, stopped: Path, finished: dict[str, Any], tmp_path: Path
) -> None:
    copy = shutil.copytree(stopped / "out" / "searches" / RUN[0], tmp_path / RUN[0])
    before = {path: path.stat().st_mtime_ns for path in copy.glob("best/*")}
    fit = small_plan(graph_files, models=[FITTED]).fits[0]
    result = run_search(
        fit.recipe,
        fit.space,
        out=copy,
        trials=2,
        sampler="paper",
        study=fit.name,
        progress=False,
    )
    assert result is not None
    assert result.test["seen"] == open_run(copy / "best").evaluate(progress=False).to_dict()["seen"]
    assert {path: path.stat().st_mtime_ns for path in copy.glob("best/*")} == before


def test_all_fits_are_those_of_all_trials(
    graph_files: Path, stopped: Path, finished: dict[str, Any], tmp_path: Path
) -> None:
    plan = small_plan(graph_files, models=[FITTED])
    copy = shutil.copytree(stopped / "out", tmp_path / "copy")
    now = progress_of(plan, copy)
    result = compare_study(now, QUICK, all_fits=True, progress=False)
    rows = {row["run"]: row for row in result.comparison.tables()["fits"].rows}
    assert len(rows) == 4
    assert set(RUN) < set(rows)
    for name in RUN:
        (other,) = (row for run, row in rows.items() if run.startswith(f"{name}/"))
        assert other["valid_mrr"] <= rows[name]["valid_mrr"]
    best = {row["run"]: row["mrr"] for row in finished["comparison"]["best"]}
    assert {name: rows[name]["mrr"] for name in best} == pytest.approx(best)


def test_a_study_goes_on_as_it_was_begun(
    graph_files: Path, stopped: Path, finished: dict[str, Any], tmp_path: Path
) -> None:
    out = stopped / "out"
    before = written(out)
    other = small_plan(graph_files, models=[FITTED], values={**VALUES, "train.epochs": 2})
    with pytest.raises(StudyError, match="was begun with another recipe"):
        run_study(other, out, progress=False)
    stranger = small_plan(write_graph(disjoint(random_graph(6)), tmp_path / "stranger"))
    with pytest.raises(StudyError, match="the study of another graph"):
        progress_of(stranger, out)
    with pytest.raises(StudyError, match="holds no study"):
        progress_of(stranger, tmp_path)
    assert written(out) == before


# -- what else may happen ---------------------------------------------------------------------


def test_a_fit_without_a_model_does_not_stop_the_others(
    graph_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def search(recipe: Any, space: Any, **options: Any) -> None:
        tried.append(options["study"])
        raise NoModelError("none of the 2 trials ended with a model")

    monkeypatch.setattr(study_module, "run_search", search)
    plan = small_plan(graph_files)
    now = run_study(plan, tmp_path / "out", progress=False)
    assert tried == ORDER
    with pytest.raises(StudyError, match="no trial has ended with a model"):
        compare_study(now, QUICK, progress=False)


def test_a_dry_run_writes_nothing(
    graph_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*options_of(graph_files), "--dry-run", "--json"])
    document = json.loads(done.stdout)
    assert [fit["name"] for fit in document["plan"]] == RUN
    assert (document["trials"], document["remaining"], document["seconds_left"]) == (4, 4, None)
    shown = CliRunner().invoke(app, [*options_of(graph_files), "--dry-run"]).stdout
    assert all(name in shown for name in RUN)
    assert "0 of 4 trials done" in shown
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_is_one_sentence(graph_files: Path, tmp_path: Path) -> None:
    done = reltucker(*options_of(graph_files), "--sizes", "4,five", "--json", cwd=tmp_path, code=2)
    assert done.stdout == ""
    message = "error: --sizes 4,five: write whole numbers such as 50,100,200"
    assert done.stderr.strip() == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dry-run", "--compare-only"], "give either --dry-run or --compare-only"),
        (["--compare-only"], "run the study without --compare-only"),
    ],
)
def test_what_does_not_go_together_is_refused(
    graph_files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*options_of(graph_files), *options])
    assert isinstance(done.exception, StudyError)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []
