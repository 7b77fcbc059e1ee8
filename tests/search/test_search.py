"""A search as a whole: its result folder, its blindness to test, what ends it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest
from safetensors.numpy import load_file
from sqlalchemy.exc import OperationalError

from reltucker.errors import GraphError, RecipeError, StudyError
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.report.colors import MODELS
from reltucker.run import open_run
from reltucker.search import SearchResult, ending, run_search, workers
from reltucker.search.folder import SearchFolder
from reltucker.search.report import write_report
from reltucker.search.storage import open_storage, storage_url
from reltucker.search.trials import OVER_BUDGET
from reltucker.search.workers import BrokenTrialError
from reltucker.training import Recipe, RunFolder
from tests.conftest import random_graph, write_graph
from tests.search.conftest import SPACE, quick_plan, quick_recipe, search_here, space_of

PROTOCOLS = {"standard", "seen", "paper"}


class Looks:
    """Notes every ranking of a split by this process, and how the study stood then."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out = out
        self.seen: list[tuple[str, int]] = []
        self.original = ending.rank_split
        monkeypatch.setattr(ending, "rank_split", self.rank)

    def rank(self, model: Any, graph: KnowledgeGraph, split: str, **options: Any) -> Any:
        storage = open_storage(storage_url(None, self.out))
        (study,) = optuna.get_all_study_names(storage)
        trials = optuna.load_study(study_name=study, storage=storage).trials
        self.seen.append((split, sum(not trial.state.is_finished() for trial in trials)))
        return self.original(model, graph, split, **options)


@pytest.fixture(scope="module")
def searched(
    tmp_path_factory: pytest.TempPathFactory, graph_files: Path
) -> tuple[SearchResult, Looks]:
    """A search, watched."""
    out = tmp_path_factory.mktemp("search") / "out"
    with pytest.MonkeyPatch.context() as patched:
        looks = Looks(out, patched)
        result = search_here(SPACE, quick_recipe(graph_files), out=out, trials=6)
    write_report(result)
    return result, looks


def test_the_result_says_all(searched: tuple[SearchResult, Looks]) -> None:
    result, _ = searched
    figures = result.to_dict()
    assert (figures["study"], figures["trials"], figures["failed"], figures["pruned"]) == (
        "small-distmult",
        6,
        0,
        0,
    )
    frame = pl.read_parquet(result.out / "trials.parquet")
    assert frame.height == 6
    best = frame.sort("mrr", descending=True).row(0, named=True)
    assert figures["best"] == {
        "number": best["number"],
        "parameters": {key: best[key] for key in SPACE},
        "valid_mrr": best["mrr"],
        "effective_parameters": best["effective_parameters"],
    }
    assert set(figures) >= PROTOCOLS
    assert figures == json.loads((result.out / "result.json").read_text())
    recipe = Recipe.load(result.out / "best.toml")
    assert recipe == open_run(result.run).recipe
    assert recipe.train.learning_rate == best["train.learning_rate"]


def test_the_best_run_is_whole_and_has_the_printed_figures(
    searched: tuple[SearchResult, Looks], graph_files: Path
) -> None:
    result, _ = searched
    run = open_run(result.run)
    graph = load_graph(str(graph_files))
    assert np.array_equal(run.graph.test, graph.test)
    assert len(graph.test)
    again = run.evaluate("test", progress=False).to_dict()
    for protocol in PROTOCOLS:
        assert again[protocol] == result.test[protocol]
    valid = run.evaluate("valid", progress=False).metrics["seen"].mrr
    assert valid == pytest.approx(result.best["valid_mrr"])


def test_test_triples_are_looked_at_once_when_all_trials_have_ended(
    searched: tuple[SearchResult, Looks],
) -> None:
    _, looks = searched
    assert looks.seen == [("test", 0)]


def test_nothing_that_a_trial_can_see_holds_a_test_triple(
    searched: tuple[SearchResult, Looks],
) -> None:
    result, _ = searched
    seen = [result.out / "graph", *(result.out / "trials").iterdir()]
    assert len(seen) == 7
    for folder in seen:
        triples = load_file(folder / "triples.safetensors")
        assert len(triples["test"]) == 0
        assert len(triples["train"]) > 0
        assert len(triples["valid"]) > 0


def test_pictures_and_page(searched: tuple[SearchResult, Looks]) -> None:
    result, _ = searched
    for name in ("history", "skyline", "training"):
        assert (result.out / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        svg = (result.out / "pictures" / f"{name}.svg").read_text()
        assert MODELS["distmult"][0] in svg
        assert ">small, valid, protocol seen</text>" in svg
    page = (result.out / "report.html").read_text()
    assert f"Trial {result.best['number']} has the best validation MRR" in page
    # Of six trials no share of a setting is drawn.
    assert "too few trials to tell which settings mattered" in page
    assert not (result.out / "pictures" / "importance.png").exists()
    assert f"{result.test['paper']['mrr']:.4f}" in page


def again(result: SearchResult, graph_files: Path, **changes: Any) -> SearchResult:
    options = {"out": result.out, "trials": 6, **changes}
    return search_here(options.pop("space", SPACE), quick_recipe(graph_files), **options)


def test_a_search_that_has_ended_is_not_done_again(
    searched: tuple[SearchResult, Looks], graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = searched
    looks = Looks(result.out, monkeypatch)
    found = again(result, graph_files)
    assert found.to_dict() == result.to_dict()
    assert looks.seen == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": {"model.entity_dim": {"values": [4, 8]}}}, "begun with another space"),
        ({"sampler": "random"}, "begun with another sampler"),
        ({"study": "other"}, "holds the study 'small-distmult'"),
        ({"max_parameters": 1000}, "begun with another max_parameters"),
        ({"objective": "skyline", "pruner": "median"}, "skyline cannot prune"),
        ({"objective": "skyline", "sampler": "paper"}, "paper has one objective"),
        ({"storage": "nonsense"}, "not a URL"),
        ({"storage": "mysql://host/db"}, "sqlite or postgresql"),
        ({"storage": "sqlite:////nowhere/at/all.db"}, "cannot be opened"),
        ({"storage": "postgresql://nobody:secret@localhost:1/x"}, "cannot be opened"),
        ({"space": {}}, "there is nothing to search"),
    ],
)
def test_what_does_not_fit_is_refused(
    changes: dict[str, Any],
    message: str,
    searched: tuple[SearchResult, Looks],
    graph_files: Path,
) -> None:
    with pytest.raises((StudyError, RecipeError), match=message) as caught:
        again(searched[0], graph_files, **changes)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_graph_is_another_search(
    searched: tuple[SearchResult, Looks], graph: KnowledgeGraph, tmp_path: Path
) -> None:
    fewer = replace(graph, train=graph.train[:-1])
    other = write_graph(fewer, tmp_path / "small")
    with pytest.raises(StudyError, match="begun with another graph"):
        again(searched[0], other)


def test_a_search_needs_validation_triples(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="needs validation triples"):
        quick_plan(random_graph(1, valid=0))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, graph_files: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(StudyError, match="holds no search"):
        run_search(quick_recipe(graph_files), space_of(SPACE), out=tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_that_was_being_made_is_taken_up(
    tmp_path: Path, graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "o"
    out.mkdir()
    (out / ".search.json.0123abcd.tmp").write_text("{")  # of a process that was killed
    plan = quick_plan(graph)
    with monkeypatch.context() as context:
        context.setattr(KnowledgeGraph, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            SearchFolder(out).prepare("small", plan, graph)
    SearchFolder(out).prepare("small", plan, graph)
    assert len(KnowledgeGraph.load(out / "graph").test) == 0


def test_only_a_study_that_exists_can_be_joined(tmp_path: Path, graph_files: Path) -> None:
    with pytest.raises(StudyError, match="no study 'small-distmult' to join"):
        search_here(SPACE, quick_recipe(graph_files), out=tmp_path / "o", join=True)


def test_a_storage_that_fails_is_told_of(
    tmp_path: Path, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("server closed the connection"))

    monkeypatch.setattr("reltucker.search.search.release", lost)
    with pytest.raises(StudyError, match=r"the storage failed .* the same command goes on"):
        run_search(
            quick_recipe(graph_files), space_of(SPACE), out=tmp_path / "o", trials=1, progress=False
        )


def test_a_limit_that_hardly_anything_keeps_is_told(tmp_path: Path, graph_files: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    study = optuna.create_study(study_name="s", storage=storage, direction="maximize")
    for _ in range(21):
        study.add_trial(optuna.trial.create_trial(value=0.0, user_attrs={OVER_BUDGET: 20_000}))
    with pytest.raises(StudyError, match="21 settings had more than 10,000"):
        search_here(
            SPACE,
            quick_recipe(graph_files),
            out=tmp_path / "o",
            trials=1,
            max_parameters=10_000,
            study="s",
            storage=f"sqlite:///{tmp_path / 'study.db'}",
        )


def test_a_programming_error_in_a_trial_ends_the_search_with_its_traceback(
    tmp_path: Path, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "from reltucker.search import objective, workers\n"
        "objective.Training.run = lambda self: {}['a bug']\n"
        "workers.main()"
    )
    monkeypatch.setattr(workers, "COMMAND", (sys.executable, "-c", program))
    with pytest.raises(BrokenTrialError, match=r"Traceback(.|\n)*KeyError: 'a bug'"):
        run_search(
            quick_recipe(graph_files), space_of(SPACE), out=tmp_path / "o", trials=2, progress=False
        )


def test_workers_that_cannot_work_are_told_of(
    tmp_path: Path, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The children of this process find no package of that name.
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    with pytest.raises(StudyError, match="the workers cannot work"):
        run_search(
            quick_recipe(graph_files), space_of(SPACE), out=tmp_path / "o", trials=1, progress=False
        )


def test_workers_that_die_before_they_read_their_job_are_told_of(
    tmp_path: Path, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dead(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.wait()

    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr("reltucker.search.workers.subprocess.Popen", Dead)
    with pytest.raises(StudyError, match="the workers cannot work"):
        run_search(
            quick_recipe(graph_files), space_of(SPACE), out=tmp_path / "o", trials=1, progress=False
        )


def test_the_skyline_has_a_recipe_for_each_point(tmp_path: Path, graph_files: Path) -> None:
    space = {
        "model.entity_dim": {"values": [2, 4, 8, 16]},
        "train.learning_rate": {"values": [0.3]},
    }
    recipe = quick_recipe(graph_files, train__epochs=12)
    result = search_here(space, recipe, out=tmp_path / "o", sampler="grid", objective="skyline")
    write_report(result)
    figures = result.to_dict()
    assert figures["trials"] == 4
    front = figures["skyline"]
    sizes = [point["effective_parameters"] for point in front]
    mrrs = [point["valid_mrr"] for point in front]
    assert sizes == sorted(set(sizes))
    assert mrrs == sorted(set(mrrs))
    for row in result.outcome.complete:
        beaten = [p for p in front if p["valid_mrr"] >= row["mrr"]]
        assert any(p["effective_parameters"] <= row["effective_parameters"] for p in beaten)
    for point in front:
        recipe = Recipe.load(Path(point["recipe"]))
        assert recipe.model.entity_dim == point["parameters"]["model.entity_dim"]
    assert figures["best"]["valid_mrr"] == mrrs[-1]
    study = optuna.load_study(
        study_name=result.study, storage=open_storage(storage_url(None, result.out))
    )
    assert len(study.directions) == 2
    assert len(RunFolder(result.run).epochs()) == 12 or RunFolder(result.run).result() is not None
