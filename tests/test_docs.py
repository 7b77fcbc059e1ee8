"""Figures in the documentation come from result files and cannot drift from them."""

import csv
import importlib.util
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from reltucker import Recipe
from reltucker.model import CORES

ROOT = Path(__file__).parents[1]


def load_script(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_results_is_made_from_the_result_files() -> None:
    script = load_script(ROOT / "docs" / "make_results.py")
    assert script.page() == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert list((ROOT / "docs" / "results" / "paper").glob("*.json"))


def test_the_pictures_of_cores_show_every_entry() -> None:
    script = load_script(ROOT / "docs" / "make_pictures.py")
    tensor = np.zeros((2, 2, 3))
    tensor[0, 0, 0], tensor[1, 0, 1] = 1.0, -2.5
    (cells,) = script.core_slices(tensor, "a core").to_dict()["datasets"].values()
    signs = {(cell["slice"], cell["i"], cell["j"]): cell["value"] for cell in cells}
    assert (len(signs), signs["G1", 0, 0], signs["G2", 1, 0]) == (12, "+1", "−1")


def test_every_result_has_its_recipe() -> None:
    for folder in ("best", "paper"):
        for path in (ROOT / "docs" / "results" / folder).glob("*.json"):
            result = json.loads(path.read_text(encoding="utf-8"))
            assert result["recipe"] == f"{folder}/{path.stem}"
            parts = [f"{folder}/{part['run']}" for part in result.get("merged_from", ())]
            for recipe in parts or [result["recipe"]]:
                assert (ROOT / "recipes" / f"{recipe}.toml").is_file()


def table_row(text: str, first: str) -> list[str]:
    (line,) = re.findall(rf"^\| {re.escape(first)} \|(.*)\|$", text, flags=re.M)
    return [cell.strip() for cell in line.split("|")]


def test_the_figures_of_speed_are_those_of_the_result_files() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    results = ROOT / "benchmarks" / "results"
    measured = json.loads((results / "epochs-and-ranking.json").read_text(encoding="utf-8"))
    drt = measured["epochs"]["drt 100/237"]
    assert table_row(text, "epoch of DRT 100/237, batch 500, 24+24 negatives") == [
        f"{drt['seconds_per_epoch']:.2f}",
        f"{drt['seconds_of_operations']:.2f}",
        f"{drt['ratio_to_operations']:.2f}",
        f"{drt['pykeen']['seconds_per_epoch']:,.0f}",
        f"{drt['pykeen']['seconds_per_epoch'] / drt['seconds_per_epoch']:.0f}",
    ]
    ranking = measured["ranking"]
    assert table_row(text, "full test ranking of DRT 100/237, three protocols") == [
        f"{ranking['seconds']:.2f}",
        f"{ranking['seconds_of_products']:.2f}",
        f"{ranking['ratio_to_products']:.2f}",
        f"{ranking['pykeen']['seconds']:.0f}",
        f"{ranking['pykeen']['seconds'] / ranking['seconds']:.0f}",
    ]
    steps = json.loads((results / "steps.json").read_text(encoding="utf-8"))
    for dim in (100, 200):
        expected = steps[f"family {dim}"]["milliseconds_per_step"].values()
        assert table_row(text, f"entity_dim {dim}") == [f"{ms:.2f}" for ms in expected]
    for sizes in ("100/237", "100/100", "200/200"):
        found = steps[f"sparsity {sizes}"]["milliseconds_per_step"]
        shown = ("complex", "drt", "srt 1", "srt 0.01", "srt 0.005", "srt 0.001")
        assert table_row(text, sizes) == [f"{found[name]:.2f}" for name in shown]


def test_the_figures_of_before_and_after_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    part = text.partition("## Before and after")[2].partition("\n## ")[0]
    path = ROOT / "benchmarks" / "results" / "before-and-after.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    assert f"{measured['matmul_2048_gflops']:.0f} GFLOPS" in part
    for name, figures in measured["milliseconds_per_step"].items():
        expected = [f"{figures[key]:.2f}" for key in ("before", "after", "ratio")]
        assert table_row(part, name) == expected


def test_the_figures_of_products_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    part = text.partition("## Products with all entities")[2].partition("\n## ")[0]
    path = ROOT / "benchmarks" / "results" / "products.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    assert f"runs at {measured['matmul_2048_gflops']:.0f}." in part
    for name, found in measured["rates"].items():
        assert table_row(part, name) == [f"{rate:.0f}" for rate in found.values()]
    for name, ms in measured["steps"].items():
        ratio = f"{ms['bfloat16'] / ms['float32']:.2f}"
        assert table_row(part, name) == [f"{ms['float32']:.0f}", f"{ms['bfloat16']:.0f}", ratio]


def test_the_figures_of_scale_are_those_of_the_result_files() -> None:
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    results = ROOT / "benchmarks" / "results"
    scaling, cluster = (
        json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("scaling", "cluster")
    )
    measured, on_paper = text.partition("## Measured on")[2].split("## On paper")
    for name, ways in scaling["cases"].items():
        slow = ways["1 process, 1 thread"]["items_per_second"]
        for way, found in ways.items():
            assert table_row(measured, f"{name}; {way}") == [
                f"{found['milliseconds_per_step']:.1f}",
                f"{found['items_per_second'] / slow:.2f}",
                f"{found['communication']:.0%}",
                f"{found['megabytes_per_step']:.1f}",
                f"{found['peak_gib']:.2f}",
            ]
    epochs = json.loads((results / "large-epoch.json").read_text(encoding="utf-8"))
    for way, found in epochs.items():
        assert table_row(text, f"a whole epoch of 5,000,000 entities; {way}") == [
            f"{found['seconds_per_epoch']:.0f}",
            f"{found['peak_gib']:.2f}",
            f"{found['loss']:.4f}",
        ]
    for name, ways in cluster["check"]["cases"].items():
        for way, found in ways.items():
            shown = [f"{found[key]:.1f}" for key in ("measured", "predicted")]
            assert table_row(on_paper, f"{name}; {way}") == [*shown, f"{found['ratio']:.2f}"]
    for name, rows in cluster["plans"].items():
        assert f"{name}: {cluster['knees'][name]}" in text
        for row in rows:
            sizes = (f"{row['gib']:.1f}", f"{row['megabytes']:.0f}", f"{row['communication']:.0%}")
            expected = [*sizes, f"{row['hours']:.1f}", f"{row['cost']:.0f}"]
            assert table_row(text, f"{name}; {row['nodes']}") == expected


def test_the_figures_of_the_first_minute_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    part = text.partition("## The first minute")[2].partition("\n## ")[0]
    path = ROOT / "benchmarks" / "results" / "first-minute.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    for name in ("complex", "drt", "srt"):
        figures = measured[f"6 epochs of {name}"]
        keys = ("compilation", "seconds", "seconds_with_loops")
        assert table_row(part, f"6 epochs of {name}") == [f"{figures[key]:.1f}" for key in keys]
    assert f"{measured['reltucker demo']['seconds']:.0f} s in this run" in part


def test_the_figures_of_prepared_graphs_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    part = text.partition("## Prepared graphs")[2].partition("\n## ")[0]
    path = ROOT / "benchmarks" / "results" / "prepare.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    assert f"{measured['file_gib']:.2f} GiB) read" in part
    assert f"in a folder ({measured['folder_gib']:.2f} GiB)" in part
    rows = {
        "load": "`load_graph` of the file",
        "prepare": "`prepare`, in a quarter of 23 GiB",
        "prepare in 1 GiB": "`prepare`, in 1 GiB",
        "open": "`load_graph` of the folder",
        "start from the file": "start from the file",
        "start from the folder": "start from the folder",
    }
    assert rows.keys() == measured["sides"].keys()
    for side, row in rows.items():
        seconds, ratio = measured["sides"][side]["seconds"], measured["ratio_to_load"][side]
        shown = f"{ratio:.2f}" if ratio > 0.01 else f"{ratio:.4f}"
        peak = f"{measured['sides'][side]['peak_gib']:.2f} GiB"
        assert table_row(part, row) == [f"{seconds:.2f}", shown, peak]
    assert measured["sides"]["prepare in 1 GiB"]["peak_gib"] < 1
    sooner = [measured["sides"][f"start from the {end}"]["seconds"] for end in ("file", "folder")]
    assert f"begins {sooner[0] / sooner[1]:.1f} times as soon" in part


def test_the_figures_of_objectives_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "objectives.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    for name, figures in measured["objectives"].items():
        assert table_row(text, name) == [
            f"{figures['milliseconds_per_step']:.1f}",
            f"{figures['gflop_per_step']:.1f}",
            f"{figures['share_of_matmul_rate']:.0%}",
            f"{figures['seconds_per_epoch']:.1f}",
            f"{figures['peak_gib']:.2f}",
        ]
    small, large = measured["pykeen"]["100/237"], measured["pykeen"]["200/200"]
    assert (
        f"{small['seconds_per_epoch']:,.0f} s an epoch at 100/237 and "
        f"{large['seconds_per_epoch']:,.0f} s at 200/200, {small['times_slower']:.0f} and "
        f"{large['times_slower']:.0f} times as long, with {small['times_more_memory']:.1f} and "
        f"{large['times_more_memory']:.1f} times as much memory"
    ) in text


def test_the_profile_of_a_wide_model_is_that_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "profile-complex-2000.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    whole, products = measured["ms_per_step"], measured["ms_of_operations"]
    assert f"{whole:.1f} ms, where they take {products:.1f} at the matmul rate" in text
    (adagrad,) = (r["ms"] for r in measured["functions"] if "_fused_adagrad_" in r["function"])
    assert f"takes {adagrad:.0f} of the rest" in text


def test_the_profile_is_that_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "profile-shared-negatives.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    found = {row["function"]: f"{row['ms']:.2f}" for row in measured["functions"]}
    rows = re.findall(r"^\| `([\w.]+)` \| [^|]+ \| (\d+\.\d\d) \|$", text, re.MULTILINE)
    rows += re.findall(r"`(sampled\._judge|torch\.\w+)` \((\d+\.\d\d)\)", text)
    assert len(rows) == 10
    for name, ms in rows:
        function = next(full for full in found if name in full)
        assert ms == found[function]
    whole = f"{measured['ms_per_step']:.1f} ms, where the necessary operations take"
    assert f"{whole} {measured['ms_of_operations']:.1f}." in text


def test_the_figures_of_a_large_graph_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "large-graph.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    for name, side in (("FB15K-237", "fb15k-237"), ("5 million entities", "large")):
        figures = measured[side]
        assert table_row(text, name) == [
            f"{figures['milliseconds_per_step']:.2f}",
            f"{figures['microseconds_per_triple']:.1f}",
            f"{figures['milliseconds_per_query']:.2f}",
            f"{figures['peak_gib']:.2f} GiB",
        ]
    assert f"A triple costs {measured['cost_of_a_triple']:.2f} times as much" in text


def test_the_figures_of_new_facts_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "discovery.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    rows = {
        "those of the relation in train, all 237 relations": ("facts", "seconds"),
        "anywhere, 15 relations": ("facts_anywhere", "seconds_anywhere"),
    }
    for name, (facts, seconds) in rows.items():
        assert table_row(text, name) == [f"{measured[facts]:,}", f"{measured[seconds]:.2f}"]
    products, seconds = measured["seconds_of_products"], measured["seconds_anywhere"]
    assert f"takes {products:.2f} s: {seconds / products:.2f} of that" in text
    all_relations = seconds * measured["relations"] / measured["relations_anywhere"]
    assert f"would take {all_relations:.0f} s at this rate" in text
    text = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")
    by_probability, by_score = (measured[f"test_facts_by_{w}"] for w in ("probability", "score"))
    assert f"{by_probability} of the first 100 facts by probability are facts of the test" in text
    assert f"and {by_score} of the first 100 by score" in text


def test_the_figures_of_added_entities_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")
    part = text.partition("## New entities")[2]
    path = ROOT / "benchmarks" / "results" / "fold-in.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    for count, figures in measured["added"].items():
        keys = ("mrr", "hits@10", "cpu_seconds_per_entity")
        assert table_row(part, count) == [f"{figures[key]:.3f}" for key in keys]
    trained = measured["trained_with"]
    assert table_row(part, "trained with them") == [
        f"{trained['mrr']:.3f}",
        f"{trained['hits@10']:.3f}",
        "",
    ]
    large = json.loads(path.with_name("fold-in-fb15k-237.json").read_text(encoding="utf-8"))
    *others, last = (f"{figures['mrr']:.3f}" for figures in large["added"].values())
    assert f"MRR {', '.join(others)} and {last} with 1, 3, 10 and 30 triples each" in part
    assert f"nine epochs) has {large['trained_with']['mrr']:.3f}" in part


def test_the_figures_of_serving_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "serving.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    sides, names = measured["sides"], ("1 client", "8 clients", "64 clients", "PyKEEN")
    for name, figures in zip(names, sides.values(), strict=True):
        times = [f"{figures[key]:.1f} ms" for key in ("p50_ms", "p99_ms")]
        assert table_row(text, name) == [f"{figures['requests_per_second']:,.0f}", *times]
    found = measured["names"]
    assert f"of {found['count']:,} it is made in {found['build_seconds']:.1f} s" in text
    assert f"take less than {found['p50_ms']:.2f} ms" in text


def test_the_figures_of_loading_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "load-graph.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    for name, side in (("polars alone", "polars"), ("reltucker", "reltucker")):
        figures = measured["sides"][side]
        expected = [f"{figures['seconds']:.2f}", f"{figures['peak_gib']:.2f} GiB"]
        assert table_row(text, name) == expected
    assert f"The ratio is {measured['ratio']:.2f} " in text


def test_the_figures_of_probabilities_are_those_of_the_result_file() -> None:
    text = (ROOT / "docs" / "probabilities.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks" / "results" / "probabilities.json"
    keys = ("valid_error", "test_error", "valid_brier", "test_brier", "accuracy", "roc_auc")
    for name, figures in json.loads(path.read_text(encoding="utf-8")).items():
        expected = [f"{figures[key]:.3f}" for key in keys]
        for rank in (1, 10):
            said, true = figures[f"said_at_{rank}"], figures[f"true_at_{rank}"]
            expected.append(f"{said:.2f}, {true:.2f}")
        assert table_row(text, name) == expected


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "study").glob("*/comparison.json")), ids=lambda p: p.parent.name
)
def test_a_comparison_is_that_of_the_recorded_runs(path: Path) -> None:
    """Its figures are those of the result files, its differences theirs, its tables made of it."""
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    mrr = {}
    for row in tables["fits"]:
        result = ROOT / "docs" / "results" / "paper" / f"{row['run']}.json"
        test = json.loads(result.read_text(encoding="utf-8"))["test"]
        for metric in ("mrr", "hits@1", "hits@3", "hits@10"):
            assert row[metric] == pytest.approx(test["seen"][metric], abs=1e-4)
            assert row[f"paper {metric}"] == pytest.approx(test["paper"][metric], abs=1e-4)
        assert row["effective_parameters"] == test["effective_parameters"]
        assert row["mrr_low"] < row["mrr"] < row["mrr_high"]
        mrr[row["run"]] = row["mrr"]
    for row in tables["differences"]:
        first, second = (re.findall(r"\((.+)\)", row[side])[0] for side in ("first", "second"))
        assert row["difference"] == pytest.approx(mrr[first] - mrr[second], abs=1e-9)
    headers = {"MRR": "mrr", "difference of MRR": "difference", "diagonal": "diagonal"}
    compared = 0
    for name, rows in tables.items():
        text = (path.parent / "tables" / f"{name}.csv").read_text(encoding="utf-8")
        found = list(csv.DictReader(io.StringIO(text)))
        assert len(found) == len(rows)
        for shown, row in zip(found, rows, strict=True):
            for header, key in headers.items():
                if shown.get(header):
                    assert float(shown[header]) == pytest.approx(row[key])
                    compared += 1
    assert compared > 30


def test_the_reference_is_made_from_the_program() -> None:
    script = load_script(ROOT / "docs" / "make_reference.py")
    pages = script.pages()
    assert pages.keys() == {"commands", "settings", "http"}
    for name, text in pages.items():
        path = ROOT / "docs" / "reference" / f"{name}.md"
        assert text == path.read_text(encoding="utf-8"), "run python docs/make_reference.py"
    row = re.compile(r"^\| `((?:recipe|graph|model|core|train)\.\w+)` \|", re.MULTILINE)
    found = row.findall(pages["settings"])
    sections = {section: type(getattr(Recipe(), section)) for section in Recipe.model_fields}
    declared = [(s, kind) for s, kind in sections.items() if s != "core"]
    declared += [("core", core.Options) for core in CORES.values()]
    assert found == [f"{s}.{name}" for s, kind in declared for name in kind.model_fields]


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.stem)
def test_links_and_pictures_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target


def test_the_table_of_small_sparse_cores_is_that_of_its_file() -> None:
    rows = json.loads((ROOT / "docs" / "results" / "own-srt.json").read_text())
    told = (ROOT / "docs" / "sparse.md").read_text()
    for row in rows:
        figures = f"{row['core_density']:.1%} | {row['best_epoch']} of {row['epochs']}"
        mrr = row["test"]["seen"]["mrr"]
        assert f"| {row['graph']} | {row['preset']} | {figures} | {mrr:.3f} |" in told


def test_the_figures_of_the_readme_are_those_of_the_result_files() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    def mrr(name: str) -> str:
        path = ROOT / "docs" / "results" / "best" / f"{name}.json"
        return f"{100 * json.loads(path.read_text())['test']['standard']['mrr']:.1f}"

    one = f"{mrr('fb15k-237-complex-2000')} MRR on FB15K-237 and {mrr('wn18rr-rescal-256')} on"
    merged = f"{mrr('fb15k-237-merged')} and {mrr('wn18rr-merged')} with a merged one"
    assert one in text
    assert merged in text
    measured = json.loads((ROOT / "benchmarks/results/epochs-and-ranking.json").read_text())
    times = {
        name: found["pykeen"]["seconds_per_epoch"] / found["seconds_per_epoch"]
        for name, found in measured["epochs"].items()
    }
    assert f"takes 1/{times['drt 100/237']:.0f} of the time" in text
    assert f"one of ComplEx 200 1/{times['complex 200']:.0f}," in text
    ranking = measured["ranking"]
    assert f"a full ranking 1/{ranking['pykeen']['seconds'] / ranking['seconds']:.0f} " in text
    cores = ROOT / "src" / "reltucker" / "model" / "cores"
    lines = [len((cores / f"{n}.py").read_text().splitlines()) for n in ("distmult", "complex")]
    assert f"DistMult is a file of {lines[0]} lines, ComplEx of {lines[1]}," in text


def test_links_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (ROOT / target).exists(), target
