"""Runs of one graph become one: scores, weights, files, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from reltucker import Recipe, Run, merge, open_run, train
from reltucker.errors import GraphError, ReltuckerError
from reltucker.evaluation import rank_split
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.study.comparison import compare_fits
from reltucker.study.fits import read_fits
from reltucker.study.inspection import inspect_run
from reltucker.training import merge_runs
from reltucker.training.weighting import _neighbours, choose_weights
from tests.conftest import random_graph

QUICK = {"train.epochs": 6, "train.batch_size": 250, "train.patience": 50}


def fit(graph: KnowledgeGraph, out: Path, name: str, **changes: object) -> Run:
    values = {f"{key.replace('__', '.')}": value for key, value in changes.items()}
    recipe = Recipe().with_values({"model.name": name, "model.entity_dim": 8, **QUICK, **values})
    return train(graph, recipe, out=out, progress=False)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return load_graph("families")


@pytest.fixture(scope="module")
def runs(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    both = {"model__reciprocal": True}
    return {
        "complex": fit(graph, folder / "complex", "complex", model__entity_dim=12),
        "drt": fit(graph, folder / "drt", "drt"),
        "srt": fit(graph, folder / "srt", "srt", core__l0_weight=5.0, core__warm_up_epochs=0),
        "both": fit(graph, folder / "both", "complex", **both),
        "normal": fit(graph, folder / "normal", "drt", **both, model__batch_norm=True),
    }


def check_scores(merged: Run, runs: list[Run], triples: np.ndarray) -> None:
    """The written model's scores are the sums that its result file tells of."""
    chosen = torch.from_numpy(triples).long()
    assert merged.result is not None
    weights = [part["weight"] for part in merged.result["merged_from"]]
    expected = sum(w * run.model.score(chosen) for w, run in zip(weights, runs, strict=True))
    assert isinstance(expected, torch.Tensor)
    assert torch.allclose(merged.model.score(chosen), expected, atol=1e-5)


@pytest.mark.parametrize("names", [["complex", "drt", "srt"], ["both", "normal"]], ids="-".join)
def test_weights_are_chosen_and_the_run_is_whole(
    names: list[str], runs: dict[str, Run], graph: KnowledgeGraph, tmp_path: Path
) -> None:
    chosen = [runs[name] for name in names]
    merged = merge(chosen, tmp_path / "merged", progress=False)
    check_scores(merged, chosen, graph.test)
    result = merged.result
    assert result is not None
    parts = result["merged_from"]
    assert [Path(part["run"]) for part in parts] == [run.path for run in chosen]
    assert sum(part["weight"] for part in parts) == pytest.approx(1.0)
    # On families all validation triples are looked at, so that these are the figures of the runs.
    best = max(part["seen"]["mrr"] for part in parts)
    assert [part["sample_mrr"] for part in parts] == pytest.approx(
        [run.result["seen"]["mrr"] for run in chosen if run.result], abs=1e-4
    )
    assert result["seen"]["mrr"] > best - 1e-4
    assert result["seen"] == rank_split(merged.model, graph, "valid").metrics()["seen"].to_dict()
    assert [part["recipe"] for part in parts] == [
        run.recipe.model_dump(exclude_none=True) for run in chosen
    ]
    assert result["epochs"] == sum(run.result["epochs"] for run in chosen if run.result)
    assert merged.resume(progress=False).epochs() == []
    assert merged.recipe.model.name == "merged"
    assert merged.recipe.model.batch_norm == ("normal" in names)
    assert {path.name for path in merged.path.iterdir()} == {
        "recipe.toml",
        "entities.parquet",
        "relations.parquet",
        "triples.safetensors",
        "best.safetensors",
        "result.json",
        "calibration.json",
        ".reltucker.lock",
    }


@pytest.mark.parametrize("names", [["complex", "drt"], ["both", "normal"]], ids="-".join)
def test_everything_works_on_a_merged_run(
    names: list[str], runs: dict[str, Run], graph: KnowledgeGraph, tmp_path: Path
) -> None:
    chosen = [runs[name] for name in names]
    merged = merge(chosen, tmp_path / "merged", weights=[0.75, 1.5], progress=False)
    check_scores(merged, chosen, graph.valid)
    assert merged.evaluate(progress=False, by="relation").metrics["standard"].queries > 0
    answers = merged.predict("Alma Bauer", "mother", top=3, known=True)
    assert len(answers) == 3
    assert len(merged.predict("Alma Bauer", object=answers["answer"][0], top=3, known=True)) == 3
    described = merged.describe()
    sizes = [run.describe() for run in chosen]
    for key in ("entity_dim", "relation_dim", "nnfp_core", "nnfp_relations", "nnfp_entities"):
        assert described[key] == sum(size[key] for size in sizes), key
    figures, _ = inspect_run(merged, [], tmp_path / "look")
    assert len(figures["density_by_slice"]) == described["relation_dim"]
    fits = read_fits([*(run.path for run in chosen), merged.path], progress=False)
    comparison = compare_fits(fits)
    assert {row["run"] for row in comparison.tables()["fits"].rows} >= {"merged"}
    assert all(path.is_file() for path in comparison.write(tmp_path / "comparison"))

    merged.export(tmp_path / "export", ["parquet"])
    e, r = (
        torch.tensor(
            pl.read_parquet(tmp_path / "export" / f"{name}.parquet")["embedding"].to_numpy()
        )
        for name in ("entities", "relations")
    )
    core = load_file(tmp_path / "export" / "core.safetensors")
    i, k, j = torch.from_numpy(graph.test[:50]).long().T
    terms = e[i][:, core["i"]] * e[j][:, core["j"]] * r[k][:, core["l"]] * core["value"]
    scores = merged.model.score(torch.stack([i, k, j], dim=1))
    assert torch.allclose(terms.sum(dim=1), scores, atol=1e-4)


def test_a_merged_run_can_be_merged_again(
    runs: dict[str, Run], graph: KnowledgeGraph, tmp_path: Path
) -> None:
    inner = merge([runs["complex"], runs["srt"]], tmp_path / "a", weights=[1, 2], progress=False)
    outer = merge([runs["drt"], inner.path], tmp_path / "b", weights=[0.5, 0.25], progress=False)
    check_scores(outer, [runs["drt"], inner], graph.test)
    assert outer.result is not None
    assert len(outer.result["merged_from"][1]["merged_from"]) == 2


def test_a_run_of_weight_zero_is_left_out(
    runs: dict[str, Run], graph: KnowledgeGraph, tmp_path: Path
) -> None:
    chosen = [runs["complex"], runs["drt"]]
    merged = merge(chosen, tmp_path / "merged", weights=[0.0, 2.0], progress=False)
    assert merged.model.core.entity_dim == 8
    check_scores(merged, chosen, graph.test)
    assert len(merged.recipe.core["parts"]) == 1


def test_a_part_that_only_harms_gets_no_weight(graph: KnowledgeGraph, runs: dict[str, Run]) -> None:
    good = runs["complex"].model
    opposite = open_run(runs["complex"].path).model
    with torch.no_grad():
        opposite.R.neg_()
    weights, alone = choose_weights([opposite, good], graph, progress=False)
    assert weights == [0.0, 1.0]
    assert alone[0] < alone[1]


def test_weights_do_not_depend_on_the_scale_of_scores(
    graph: KnowledgeGraph, runs: dict[str, Run]
) -> None:
    models = [runs["complex"].model, runs["drt"].model]
    weights, alone = choose_weights(models, graph, progress=False)
    assert choose_weights(models, graph, progress=False) == (weights, alone)
    larger = open_run(runs["drt"].path).model
    with torch.no_grad():
        larger.R.mul_(64.0)
    scaled, _ = choose_weights([models[0], larger], graph, progress=False)
    ratio = (weights[1] / weights[0]) / (scaled[1] / scaled[0])
    assert ratio == pytest.approx(64.0, rel=1e-3)


def test_neighbours_differ_in_one_place_and_are_distinct() -> None:
    found = _neighbours(np.array([1.0, 3.0, 0.0]), np.array([1.0, 1.0, 5.0]), 2.0)
    assert [2.0, 3.0, 0.0] in found.tolist()
    assert [1.0, 0.0, 0.0] in found.tolist()
    assert [1.0, 3.0, 5.0] in found.tolist()
    assert all((row != np.array([1.0, 3.0, 0.0])).sum() <= 1 for row in found)
    alone = _neighbours(np.array([1.0, 0.0]), np.array([1.0, 1.0]), 2.0)
    assert len(alone) == 3  # itself, and the other one at two sizes


def test_the_whole_graph_brings_the_test_triples(
    graph: KnowledgeGraph, runs: dict[str, Run], tmp_path: Path
) -> None:
    """As in a search, whose trials do not see them."""
    hidden = replace(graph, test=graph.test[:0])
    paths = [fit(hidden, tmp_path / name, name).path for name in ("distmult", "cp")]
    merge_runs(paths, tmp_path / "merged", graph=graph, progress=False)
    assert np.array_equal(open_run(tmp_path / "merged").graph.test, graph.test)
    merge([runs["drt"], paths[0]], tmp_path / "other", weights=[1, 1], progress=False)


def test_what_cannot_be_merged_is_refused(
    graph: KnowledgeGraph, runs: dict[str, Run], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def refuse(message: str, *names: Run | Path, **options: object) -> None:
        with pytest.raises(ReltuckerError, match=message):
            merge(names, options.pop("out", out), progress=False, **options)
        assert not out.exists()

    one, two = runs["complex"], runs["drt"]
    refuse("at least two run folders", one)
    refuse("at least two run folders")
    refuse("given twice", one, two, one)
    refuse("not a run folder", one, tmp_path / "nothing")
    refuse(r"reciprocal relations and the other has not", one, runs["both"])
    with patch("reltucker.training.merging.LARGEST_ENTITY_DIM", 7):
        refuse("together the runs have entity_dim .*, and 7 is the most", one, two)
    refuse("holds a run already", one, two, out=two.path)
    (tmp_path / "file").write_text("")
    refuse("is a file", one, two, out=tmp_path / "file")
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]):
        refuse("give one for each of the 2 runs", one, two, weights=weights)
    others = {
        "valid": replace(graph, valid=graph.valid[:-1]),
        "train": replace(graph, train=graph.train[1:]),
        "names": random_graph(1),
    }
    for name, other in others.items():
        refuse("another graph or split", one, fit(other, tmp_path / name, "drt"))
    unfinished = fit(graph, tmp_path / "unfinished", "drt")
    (unfinished.path / "result.json").unlink()
    refuse("training has not ended.*reltucker resume", one, unfinished)
    (unfinished.path / "result.json").write_text(json.dumps({"epochs": 3}))
    refuse(r"result\.json is damaged \(standard: field required", one, unfinished)


def test_without_validation_triples_weights_must_be_given(tmp_path: Path) -> None:
    bare = random_graph(0, valid=0)
    paths = [fit(bare, tmp_path / name, name).path for name in ("distmult", "drt")]
    with pytest.raises(GraphError, match=r"no validation triples.*as weights"):
        merge(paths, tmp_path / "merged", progress=False)
    merged = merge(paths, tmp_path / "merged", weights=[1, 1], progress=False)
    assert merged.result is not None
    assert merged.result["seen"]["queries"] == 0


def test_scores_that_are_not_finite_are_told(runs: dict[str, Run], graph: KnowledgeGraph) -> None:
    broken = open_run(runs["drt"].path).model
    with torch.no_grad():
        broken.E[3] = torch.nan
    with pytest.raises(ReltuckerError, match="not finite"):
        choose_weights([runs["complex"].model, broken], graph, progress=False)


def test_merging_is_no_training(tmp_path: Path, graph: KnowledgeGraph) -> None:
    with pytest.raises(ReltuckerError, match=r"core\.parts is missing"):
        fit(graph, tmp_path / "run", "merged")
    assert not (tmp_path / "run").exists()


def test_a_merge_that_fails_while_it_writes_leaves_no_run_and_can_be_repeated(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    chosen = [runs["complex"], runs["drt"]]
    with monkeypatch.context() as broken:
        broken.setattr(KnowledgeGraph, "save", full)
        with pytest.raises(ReltuckerError, match="cannot be written"):
            merge(chosen, tmp_path / "merged", weights=[1, 1], progress=False)
    with pytest.raises(ReltuckerError, match="not a run folder"):
        open_run(tmp_path / "merged")
    merge(chosen, tmp_path / "merged", weights=[1, 1], progress=False)
