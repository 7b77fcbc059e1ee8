"""What a user gets on a graph of their own, without tuning: python -m benchmarks.own_graphs FOLDER

Trains presets, and searches for a while where asked, on every graph of a folder (a subfolder or
file for each) and writes what came out to docs/results/own/NAME.json, a file for each graph; what
stands there of other presets is kept. `python docs/make_results.py` puts it into docs/results.md.
No triple is written. `--subsets` makes two graphs of the middle size in the folder first, from the
catalog: the triples between the most frequent entities of FB15K-237 and WN18RR, split anew.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np

from reltucker import KnowledgeGraph, Run, load_graph, open_run, train
from reltucker.atomic import write_json
from reltucker.choices import PresetName
from reltucker.graph import SPLITS
from reltucker.graph.knowledge_graph import Triples
from reltucker.search.graph_sizes import GraphSizes

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "own"
SUBSETS = {"fb15k-237": (2_000, 42, 36_500), "wn18rr": (6_000, 11, 30_000)}
"""Entities, relations and triples at the most."""

HELD_OUT = 0.05
"""Share of valid, and of test, in a subset."""


def main() -> None:
    """Train, search and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.own_graphs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", help="only these graphs, separated by commas")
    parser.add_argument("--presets", default="good,best", help="separated by commas; may be empty")
    parser.add_argument("--minutes", type=int, help="search each graph for so long")
    parser.add_argument("--subsets", action="store_true", help="make the subsets first")
    parser.add_argument("--built-in", action="store_true", help="with the graph `families`")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    presets = [name for name in options.presets.split(",") if name]
    if unknown := set(presets) - set(get_args(PresetName)):
        parser.error(f"there is no preset {', '.join(sorted(unknown))}")
    if options.subsets:
        make_subsets(options.folder)
    wanted = None if options.names is None else options.names.split(",")
    for name, source in graphs_of(options.folder, options.built_in):
        if wanted is None or name in wanted:
            measure(name, source, presets, options.minutes, options.out)


def graphs_of(folder: Path, built_in: bool) -> Iterator[tuple[str, str]]:
    """Names and sources of the graphs of a folder."""
    if built_in:
        yield "families", "families"
    for path in sorted(folder.iterdir()):
        yield path.name.partition(".")[0], str(path)


def measure(name: str, source: str, presets: list[Any], minutes: int | None, out: Path) -> None:
    """Train every preset on a graph, search it, and add what came out to its file."""
    graph, path = load_graph(source), out / f"{name}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    split = {f"{part}_triples": len(graph.split(part)) for part in SPLITS}
    found |= {"graph": name, "sizes": {**GraphSizes.of(graph)._asdict(), **split}}
    with tempfile.TemporaryDirectory() as folder:
        for preset in presets:
            say(f"{name}: {preset}")
            run = train(graph, preset=preset, out=Path(folder) / preset, progress=False)
            found[preset] = figures(run, run.result["seconds"] if run.result else 0.0)
            write_json(path, found)
        if minutes is not None:
            say(f"{name}: search, {minutes} minutes")
            began = time.monotonic()
            searched = search(source, minutes, Path(folder) / "search")
            found["search"] = figures(searched, time.monotonic() - began)
            write_json(path, found)


def search(source: str, minutes: int, out: Path) -> Run:
    """The run that a search within a time ends with."""
    command = [sys.executable, "-m", "reltucker", "search", source, "--minutes", str(minutes)]
    done = subprocess.run(
        [*command, "--out", str(out), "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    return open_run(json.loads(done.stdout)["run"])


def figures(run: Run, seconds: float) -> dict[str, Any]:
    """The model, and its quality on valid and test."""
    result, recipe, metrics = run.result, run.recipe, ("mrr", "hits@1", "hits@10")
    assert result is not None
    test = run.evaluate("test", progress=False).to_dict()
    return {
        "model": recipe.model.name,
        "entity_dim": recipe.model.entity_dim,
        "objective": recipe.train.objective,
        "epochs": result["epochs"],
        "best_epoch": result["best_epoch"],
        "seconds": round(seconds, 1),
        "valid": {"seen": {metric: result["seen"][metric] for metric in metrics}},
        "test": {p: {m: test[p][m] for m in metrics} for p in ("standard", "seen")},
    }


# -- subsets ------------------------------------------------------------------------------------


def make_subsets(folder: Path) -> None:
    """Write a folder NAME-ENTITIES for each graph of SUBSETS."""
    for source, (entities, relations, triples) in SUBSETS.items():
        graph = load_graph(source)
        parts = subset(graph, entities, relations, triples)
        path = folder / f"{source}-{entities}"
        path.mkdir(parents=True, exist_ok=True)
        for name, part in zip(SPLITS, parts, strict=True):
            named = graph.named(part)
            named.write_csv(path / f"{name}.tsv", separator="\t", include_header=False)


def subset(
    graph: KnowledgeGraph, entities: int, relations: int, triples: int, seed: int = 0
) -> tuple[Triples, Triples, Triples]:
    """The triples between the most frequent entities, of the most frequent relations, as train,
    valid and test; what is held out has entities that train has."""
    rows = np.concatenate([graph.train, graph.valid, graph.test])
    frequent = np.argsort(-np.bincount(rows[:, [0, 2]].ravel()), kind="stable")[:entities]
    rows = rows[np.isin(rows[:, 0], frequent) & np.isin(rows[:, 2], frequent)]
    frequent = np.argsort(-np.bincount(rows[:, 1]), kind="stable")[:relations]
    rows = rows[np.isin(rows[:, 1], frequent)]
    rows = np.random.default_rng(seed).permutation(rows)[:triples]
    ends = rows[:, [0, 2]]
    first = np.zeros(ends.size, dtype=bool)
    first[np.unique(ends.ravel(), return_index=True)[1]] = True
    free = np.flatnonzero(~first.reshape(ends.shape).any(axis=1))  # brings no entity of its own
    count = min(int(HELD_OUT * len(rows)), len(free) // 2)
    valid, test = free[:count], free[count : 2 * count]
    train_rows = np.delete(rows, np.concatenate([valid, test]), axis=0)
    return train_rows, rows[valid], rows[test]


def say(text: str) -> None:
    """Tell what is being measured."""
    print(f"measuring: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
