"""A search may end with a merge of trials: only where validation gains by it."""

from pathlib import Path

import pytest

from reltucker.run import open_run
from reltucker.search import SearchResult, ending, ensemble
from reltucker.search.ensemble import candidates
from reltucker.search.folder import SearchFolder
from reltucker.search.report import write_report
from tests.search.conftest import SPACE, quick_recipe, search_here


def searched(
    out: Path, graph_files: Path, gain: float, merge: bool | None = True, limit: int | None = None
) -> SearchResult:
    """A search of a few trials that are merged where the MRR rises by `gain`."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (ending, ensemble):
            patched.setattr(module, "GAIN", gain)
        recipe = quick_recipe(graph_files, train__epochs=6)
        return search_here(
            SPACE,
            recipe,
            out=out,
            trials=5,
            sampler="random",
            merge=merge,
            max_parameters=limit,
        )


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory, graph_files: Path) -> SearchResult:
    return searched(tmp_path_factory.mktemp("merged") / "o", graph_files, gain=1e-9)


def test_the_merged_model_is_the_best_run(merged: SearchResult) -> None:
    assert merged.merged is not None, "the seed has no trials that are better together"
    parts = merged.merged["trials"]
    assert 2 <= len(parts) <= ensemble.LARGEST
    assert parts[0]["number"] == merged.best["number"]
    assert merged.merged["valid_mrr"] > merged.best["valid_mrr"]
    run = open_run(merged.run)
    assert run.recipe.model.name == "merged"
    assert len(run.graph.test)
    figures = run.evaluate("test", progress=False)
    assert figures.metrics["seen"].to_dict() == merged.test["seen"]
    assert figures.sizes.effective_parameters == merged.merged["effective_parameters"]
    assert merged.to_dict()["merged"] == merged.merged
    assert sorted(p.name for p in merged.out.glob(".m*")) == []


def test_the_page_says_what_was_merged(merged: SearchResult) -> None:
    write_report(merged)
    assert "Merged, the trials" in (merged.out / "report.html").read_text()


def test_a_search_that_has_ended_is_not_merged_again(
    merged: SearchResult, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "choose_trials", lambda *_: pytest.fail("again"))
    assert searched(merged.out, graph_files, gain=1e-9).to_dict() == merged.to_dict()


@pytest.mark.parametrize(
    ("gain", "merge", "limit"), [(1.0, True, None), (1e-9, None, None), (1e-9, True, 10_000)]
)
def test_the_best_trial_stays_where_nothing_is_gained_or_merging_is_not_meant(
    gain: float, merge: bool | None, limit: int | None, graph_files: Path, tmp_path: Path
) -> None:
    result = searched(tmp_path / "o", graph_files, gain, merge, limit)
    assert result.merged is None
    assert "merged" not in result.to_dict()
    assert open_run(result.run).recipe.model.name == "distmult"


def test_only_runs_that_go_together_are_candidates(merged: SearchResult) -> None:
    folder = SearchFolder(merged.out)
    found = candidates(folder, merged.outcome)
    assert [row["mrr"] for row in found] == sorted((r["mrr"] for r in found), reverse=True)
    assert len(found) == 5
    other = folder.trial(found[1]) / "recipe.toml"
    text = other.read_text()
    without_checksum = text.partition("\n")[2]
    other.write_text(without_checksum.replace("reciprocal = false", "reciprocal = true"))
    try:
        assert [row["number"] for row in candidates(folder, merged.outcome)] == [
            row["number"] for row in found if row is not found[1]
        ]
    finally:
        other.write_text(text)
