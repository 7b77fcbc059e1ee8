"""Comparisons of real, tiny runs: what is chosen, what is computed, what is refused and written."""

import csv
import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reltucker.errors import ReltuckerError, RunError
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import RelationalTucker, sizes_of
from reltucker.model.cores import DenseCore
from reltucker.run import open_run, train
from reltucker.study.comparison import Comparison, Options, compare_fits
from reltucker.study.cost import epoch_operations, mixing_entries, query_operations
from reltucker.study.fits import Fits, read_fits
from reltucker.study.inspection import absolute_mixing
from reltucker.study.quality import Certainty
from reltucker.training import Recipe, RunFolder
from tests.conftest import random_graph
from tests.study.conftest import MakeOnce

HOSTILE = '50% & <b>_{x}|"q", \\end$ #~^'
QUICK = Certainty(resamples=200, flips=400)


def hostile_graph() -> KnowledgeGraph:
    """A graph of twelve relations, the most frequent of which has a name of special characters."""
    graph = random_graph(0, relations=12, train=400, test=200)
    frequent = int(np.argmax(np.bincount(graph.train[:, 1])))
    names = [HOSTILE if k == frequent else f"r{k}" for k in range(12)]
    return replace(graph, relations=Vocabulary(names, kind="relation"))


def train_runs(path: Path) -> None:
    """Runs of several models, sizes, and with reciprocal relations."""
    graph = hostile_graph()
    common = ["train.epochs=4", "train.batch_size=64", "train.negatives=6"]
    for name, changes in {
        "complex-4": ["model.name=complex", "model.entity_dim=4"],
        "complex-8": ["model.name=complex", "model.entity_dim=8"],
        "complex-8b": ["model.name=complex", "model.entity_dim=8", "train.seed=1"],
        "complex-8-r": ["model.name=complex", "model.entity_dim=8", "model.reciprocal=true"],
        # Many gates are closed from the beginning.
        "srt_&_8": [
            "model.name=srt",
            "model.entity_dim=8",
            "core.location_mean=-4.0",
            "core.location_deviation=2.0",
        ],
    }.items():
        train(graph, Recipe().changed([*common, *changes]), out=path / name, progress=False)


@pytest.fixture(scope="module")
def runs(make_once: MakeOnce) -> Path:
    return make_once("compared-runs", train_runs)


@pytest.fixture(scope="module")
def fits(runs: Path) -> Fits:
    return read_fits(sorted(runs.iterdir()), progress=False)


@pytest.fixture(scope="module")
def comparison(fits: Fits) -> Comparison:
    return compare_fits(fits, Options(certainty=QUICK))


@pytest.fixture(scope="module")
def tables(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = comparison.to_dict()["tables"]
    return found


def test_figures_are_those_of_evaluate(runs: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    for row in tables["protocols"]:
        expected = open_run(runs / row["run"]).evaluate(progress=False).to_dict()
        for metric in ("mrr", "hits@1", "hits@3", "hits@10"):
            assert row[metric] == pytest.approx(expected[row["protocol"]][metric])
            assert row[f"{metric}_low"] <= row[metric] <= row[f"{metric}_high"]
    for row in tables["fits"]:
        expected = open_run(runs / row["run"]).describe()
        for key in ("entity_dim", "effective_relation_size", "effective_parameters"):
            assert row[key] == expected[key]


def test_the_best_are_chosen_by_validation_within_the_limit(
    runs: Path, fits: Fits, tables: dict[str, list[dict[str, Any]]]
) -> None:
    valid = {path.name: open_run(path).result["seen"]["mrr"] for path in runs.iterdir()}  # type: ignore[index]
    best = {row["model"]: row["run"] for row in tables["best"]}
    plain = ("complex-4", "complex-8", "complex-8b")
    assert best == {
        "ComplEx": max(plain, key=valid.__getitem__),
        "ComplEx, reciprocal": "complex-8-r",
        "SRT": "srt_&_8",
    }
    by_size = [row["run"] for row in tables["entity-size"] if row["model"] == "ComplEx"]
    assert by_size == ["complex-4", max(plain[1:], key=valid.__getitem__)]
    small = compare_fits(fits, Options(max_entity_dim=4, certainty=QUICK)).to_dict()["tables"]
    assert [row["run"] for row in small["best"]] == ["complex-4"]
    # Where all best fits are of one model, single runs are compared.
    assert len(small["differences"]) == 10
    with pytest.raises(ReltuckerError, match="at most 2"):
        compare_fits(fits, Options(max_entity_dim=2, certainty=QUICK))


def test_the_skyline_leaves_out_what_validation_dominates(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    rows = {row["run"]: row for row in tables["fits"] if row["model"] == "ComplEx"}
    kept = {row["run"] for row in tables["skyline"] if row["model"] == "ComplEx"}
    for name, row in rows.items():
        beaten = any(
            other["effective_parameters"] <= row["effective_parameters"]
            and other["valid_mrr"] >= row["valid_mrr"]
            and other is not row
            for other in rows.values()
        )
        assert (name in kept) == (not beaten)


def test_differences_are_those_of_the_figures_and_paired(
    fits: Fits, tables: dict[str, list[dict[str, Any]]]
) -> None:
    mrr = {f"{row['model']} ({row['run']})": row["mrr"] for row in tables["fits"]}
    for row in tables["differences"]:
        assert row["difference"] == pytest.approx(mrr[row["first"]] - mrr[row["second"]])
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
        assert 1 / 401 <= row["p"] <= row["p_holm"] <= 1
    fit = fits.fits[0]
    better = replace(fit, ranking=replace(fit.ranking, ranks=np.maximum(fit.ranking.ranks - 1, 1)))
    ((same), (gain)) = QUICK.differences([(fit, fit), (better, fit)], "seen")
    assert (same["difference"], same["difference_high"], same["p"]) == (0.0, 0.0, 1.0)
    assert gain["difference_low"] > 0
    assert gain["p"] == pytest.approx(1 / 401)


def test_relations_are_ordered_by_the_diagonals_of_the_sparse_fit(
    runs: Path, tables: dict[str, list[dict[str, Any]]]
) -> None:
    srt = open_run(runs / "srt_&_8")
    rows = tables["relations"]
    diagonals = [
        float(np.trace(absolute_mixing(srt, srt.graph.relations.find(row["relation"]))))
        for row in rows
    ]
    assert [row["diagonal"] for row in rows] == pytest.approx(diagonals)
    assert diagonals == sorted(diagonals, reverse=True)
    assert [row["group"] for row in rows] == ["top"] * 5 + ["", ""] + ["bottom"] * 5
    # The other run is the best with a fixed core and without reciprocal relations.
    plain = [path for path in runs.glob("complex-*") if path.name != "complex-8-r"]
    other = max(plain, key=lambda path: open_run(path).result["seen"]["mrr"])  # type: ignore[index]
    by_relation = open_run(other).evaluate(by="relation", progress=False).to_dict()
    mrr = {group["relation"]: group["seen"] for group in by_relation["by_relation"]}
    for row in rows:
        if row["tested"]:
            assert row["second_mrr"] == pytest.approx(mrr[row["relation"]]["mrr"])
            assert row["second_hits@10"] == pytest.approx(mrr[row["relation"]]["hits@10"])
    for name, group in zip(("top", "bottom"), tables["relation-groups"], strict=True):
        members = [row for row in rows if row["group"] == name]
        assert group["relations"] == [row["relation"] for row in members]
        assert group["tested"] == sum(row["tested"] for row in members)
        pooled = sum(row["tested"] * row.get("first_mrr", 0) for row in members) / group["tested"]
        assert group["first_mrr"] == pytest.approx(pooled)


def test_baselines_pair_fits_with_and_without_reciprocal_relations(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    rows = {(row["base"], row["entity_dim"], row["reciprocal"]): row for row in tables["baselines"]}
    with_, without = rows["ComplEx", 8, True], rows["ComplEx", 8, False]
    assert with_["difference"] == pytest.approx(with_["mrr"] - without["mrr"])
    assert [key for key, row in rows.items() if "p" in row] == [("ComplEx", 8, True)]
    assert with_["effective_relation_size"] == 2 * without["effective_relation_size"]


def test_operations_are_counted_as_the_equation_says() -> None:
    graph = random_graph(1)
    n, entities = len(graph.train), len(graph.entities)
    core = DenseCore.build(3, 2, 4)
    model = RelationalTucker(entities, 4, core)
    model.reset(torch.Generator().manual_seed(0))
    recipe = Recipe().changed([f"train.batch_size={n}", "train.negatives=5"])
    # One batch has every relation: M_k is built four times.
    expected = 6 * (4 * 3 * 3 * 2 + 2 * n * 9 + 2 * n * 6 * 3)
    assert epoch_operations(recipe, model, graph) == pytest.approx(expected)
    assert query_operations(model) == 2 * (9 + 3 * entities)
    # With batches of one triple it is built for each of them.
    recipe = Recipe().changed(["train.batch_size=1", "train.negatives=5"])
    each = 6 * (n * 3 * 3 * 2 + 2 * n * 9 + 2 * n * 6 * 3)
    assert epoch_operations(recipe, model, graph) == pytest.approx(each, rel=0.2)


def test_sparse_matrices_cost_what_is_left_of_them(fits: Fits) -> None:
    fit = fits.named("srt_&_8")
    model = fit.open().model
    counts = [int(torch.count_nonzero(model.mixing_matrix(k))) for k in range(12)]
    assert fit.sizes.core_density < 0.9
    assert mixing_entries(model) == pytest.approx(np.mean(counts))
    assert fit.cost["query_operations"] == pytest.approx(2 * (np.mean(counts) + model.E.numel()))
    assert fit.sizes == sizes_of(model)


def test_the_cost_is_what_training_noted(
    runs: Path, tables: dict[str, list[dict[str, Any]]]
) -> None:
    for row in tables["cost"]:
        result = open_run(runs / row["run"]).result
        assert result is not None
        for key in ("epochs", "seconds", "seconds_per_epoch", "peak_memory_bytes"):
            assert row[key] == result[key]


def test_runs_without_noted_memory_are_compared(runs: Path, tmp_path: Path) -> None:
    """As they were written before training noted it."""
    shutil.copytree(runs / "complex-4", tmp_path / "old")
    result = json.loads((tmp_path / "old" / "result.json").read_text())
    del result["peak_memory_bytes"], result["checksum"]
    (tmp_path / "old" / "result.json").write_text(json.dumps(result))
    comparison = compare_fits(
        read_fits([tmp_path / "old"], progress=False), Options(certainty=QUICK)
    )
    (row,) = comparison.tables()["cost"].rows
    assert row["peak_mebibytes"] is None
    comparison.write(tmp_path / "out")


def test_other_graphs_splits_and_unfinished_runs_are_refused(runs: Path, tmp_path: Path) -> None:
    first = runs / "complex-4"
    run = open_run(first)

    def copied(name: str, **changes: Any) -> Path:
        """The run as if it had been trained on another graph."""
        folder = RunFolder.create(tmp_path / name, run.recipe, replace(run.graph, **changes))
        for file in ("best.safetensors", "result.json"):
            shutil.copy(first / file, folder.path / file)
        return folder.path

    other_test = copied("other-test", test=run.graph.test[1:])
    names = Vocabulary([f"x{k}" for k in range(12)], kind="relation")
    with pytest.raises(RunError, match=r"other-test .*their test triples differ.*one graph"):
        read_fits([first, other_test], progress=False)
    with pytest.raises(RunError, match=r"other-graph .*another graph or split"):
        read_fits([first, copied("other-graph", relations=names)], progress=False)
    with pytest.raises(RunError, match="has no test triples, so its runs"):
        read_fits([copied("no-test", test=run.graph.test[:0])], progress=False)
    strange = np.array([[run.graph.seen_entities, 0, 0]], dtype=np.int32)
    with pytest.raises(RunError, match="no test triples whose entities and relation occur in"):
        read_fits([copied("strange", test=strange)], progress=False)
    with pytest.raises(RunError, match="given twice"):
        read_fits([first, runs / "." / "complex-4"], progress=False)
    (other_test / "result.json").write_text('{"epochs": 1}')
    with pytest.raises(RunError, match=r"result.json is damaged"):
        read_fits([other_test], progress=False)
    (other_test / "result.json").unlink()
    with pytest.raises(RunError, match="reltucker resume"):
        read_fits([first, other_test], progress=False)


def test_named_runs_and_wrong_settings(fits: Fits) -> None:
    options = Options(sparse="complex-8", against="srt_&_8", certainty=QUICK)
    parts = compare_fits(fits, options).parts
    assert any("ComplEx (complex-8) and SRT (srt_&_8)" in part.text for part in parts.values())
    for wrong, message in (
        (Options(sparse="nothing", certainty=QUICK), "nothing is not one of the runs"),
        (Options(sparse="complex-8", against="complex-8", certainty=QUICK), "with itself"),
        (Options(relations=("r99",), certainty=QUICK), "no relation is called"),
    ):
        with pytest.raises(ReltuckerError, match=message):
            compare_fits(fits, wrong)
    with pytest.raises(ReltuckerError, match="at least 100"):
        Certainty(resamples=10)
    with pytest.raises(ReltuckerError, match="confidence"):
        Certainty(confidence=95)


def test_charts_say_of_which_graph_split_and_protocol(comparison: Comparison) -> None:
    titles = {
        name: chart.to_dict()["title"]
        for part in comparison.parts.values()
        for name, (chart, _) in part.charts.items()
    }
    assert all(title["text"] and "random" in title["subtitle"] for title in titles.values())
    for name in ("best", "entity-size", "skyline", "relations", "baselines"):
        assert titles[name]["subtitle"] == "random, test, protocol seen"
    assert titles["training"]["subtitle"] == "random, valid, protocol seen"
    assert titles["pattern-1"]["subtitle"] == "SRT (srt_&_8), random"


def test_parts_that_do_not_apply_are_left_out(fits: Fits) -> None:
    def parts(*names: str, density: float = 0.1, **options: Any) -> dict[str, str]:
        chosen = [fits.named(name) for name in names]
        chosen = [replace(fit, sizes=replace(fit.sizes, core_density=density)) for fit in chosen]
        some = replace(fits, fits=tuple(chosen))
        found = compare_fits(some, Options(certainty=QUICK, **options)).parts
        return {name: part.heading for name, part in found.items()}

    sparse = parts("srt_&_8", "complex-8")
    assert sparse["patterns"] == "Learned sparsity patterns"
    assert "baselines" not in sparse
    dense = parts("srt_&_8", "complex-8", density=0.99)
    assert "patterns" not in dense
    assert "sparsity" not in " ".join(dense.values())
    # What is asked for by name is shown, and called what it is.
    assert parts("complex-8", relations=("r1",))["patterns"] == "Mixing matrices"
    alone = parts("complex-8")
    assert set(alone) == {"best", "training", "entity_size", "skyline", "cost", "all_fits"}
    assert "baselines" in parts("complex-8", "complex-8-r")


def test_a_graph_without_validation_triples_says_by_what_was_chosen(tmp_path: Path) -> None:
    small = ["model.name=complex", "model.entity_dim=4", "train.epochs=1", "train.negatives=6"]
    recipe = Recipe().changed(small)
    graph = random_graph(2, valid=0)
    for seed in (0, 1):
        changed = recipe.changed([f"train.seed={seed}"])
        train(graph, changed, out=tmp_path / str(seed), progress=False)
    comparison = compare_fits(
        read_fits([tmp_path / "0", tmp_path / "1"], progress=False), Options(certainty=QUICK)
    )
    tables = comparison.to_dict()["tables"]
    assert tables["best"][0]["mrr"] == max(row["mrr"] for row in tables["fits"])
    comparison.write(tmp_path / "out")
    assert "which flatters it" in (tmp_path / "out" / "comparison.html").read_text("utf-8")


class Texts(HTMLParser):
    """The texts and tags of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_every_form_is_written_and_names_are_escaped(
    comparison: Comparison, tmp_path: Path
) -> None:
    files = comparison.write(tmp_path / "out")
    assert sorted(p for p in (tmp_path / "out").rglob("*") if p.is_file()) == sorted(files)
    tables = comparison.tables()
    subjects = {"best", "entity-size", "skyline", "patterns", "relations", "cost", "baselines"}
    assert subjects <= set(tables)
    written = {path.relative_to(tmp_path / "out").as_posix() for path in files}
    assert {f"tables/{name}.{s}" for name in tables for s in ("md", "csv", "tex")} <= written
    drawn = (
        (subjects - {"patterns"}) | {"training"} | {f"pattern-{number}" for number in (1, 2, 3, 4)}
    )
    assert {f"pictures/{name}.{s}" for name in drawn for s in ("png", "svg")} <= written

    folder = tmp_path / "out" / "tables"
    latex = (folder / "relations.tex").read_text("utf-8")
    escaped = r"50\% \& \textless{}b\textgreater{}\_\{x\}\textbar{}"
    assert escaped in latex
    columns = len(tables["relations"].columns)
    body = latex[latex.index("\\midrule\n") : latex.index("\\bottomrule\n")]
    for line in body.splitlines()[1:]:
        assert line.endswith("\\\\")
        assert line.replace("\\&", "").count("&") == columns - 1
    markdown = (folder / "relations.md").read_text("utf-8").splitlines()
    assert len({line.replace("\\|", "").count("|") for line in markdown[2:]}) == 1
    with open(folder / "relations.csv", encoding="utf-8", newline="") as file:
        assert HOSTILE in [row["relation"] for row in csv.DictReader(file)]
    page = Texts((tmp_path / "out" / "comparison.html").read_text("utf-8"))
    assert HOSTILE in page.texts
    assert not {"script", "b", "link"} & set(page.tags)
    assert page.tags.count("img") == len(drawn)
    document = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))
    assert document == json.loads(json.dumps(comparison.to_dict()))
