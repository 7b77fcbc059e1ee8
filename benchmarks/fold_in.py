"""How well entities are known that were added after training: python -m benchmarks.fold_in

    python -m benchmarks.fold_in --out benchmarks/results/fold-in.json      # families, minutes
    python -m benchmarks.fold_in --graph fb15k-237 --preset fast --out ...  # an hour or two

One in twenty entities of train is hidden: every triple that names one of them is taken from train
and valid, and a model is trained on the rest. Each hidden entity keeps `--judged` of its triples to
be ranked, in both directions, and is added by 1, 3, 10 and 30 of its others. The same triples are
ranked by a model of the same recipe that is trained with all other triples. Triples that link two
hidden entities are left out; entities with too few triples are not hidden.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from reltucker import Run, load_graph, train
from reltucker.evaluation import rank_split
from reltucker.graph import KnowledgeGraph
from reltucker.graph.knowledge_graph import Triples
from reltucker.model import RelationalTucker
from reltucker.training import fold_in

COUNTS = (1, 3, 10, 30)
SHARE = 0.05


def main() -> None:
    """Measure and write the result file."""
    arguments = _arguments()
    graph = load_graph(arguments.graph)
    rest, known, judged, hidden = _hide(graph, arguments.judged, np.random.default_rng(0))
    facts = graph.named(np.concatenate([graph.train, graph.valid, graph.test]))
    settings = {} if arguments.epochs is None else {"train.epochs": arguments.epochs}
    settings |= {} if arguments.entity_dim is None else {"model.entity_dim": arguments.entity_dim}
    if arguments.model is not None:
        settings["model.name"] = arguments.model
    result: dict[str, Any] = {
        "graph": graph.name,
        "preset": arguments.preset,
        "settings": settings,
        "hidden_entities": len(hidden),
        "added_entities": len(known),
        "judged_triples": len(judged),
        "added": {},
    }
    with TemporaryDirectory() as folder:

        def trained(name: str, triples: Triples) -> Run:
            source = {"train": graph.named(triples), "valid": graph.named(rest["valid"])}
            return train(
                source, preset=arguments.preset, settings=settings, out=Path(folder) / name
            )

        without = trained("without", rest["train"])
        model, recipe = without.model, without.recipe
        result["model"] = f"{recipe.model.name} {recipe.model.entity_dim}"
        fold_in(model, without.graph, recipe, graph.named(known[0][:1]))  # compiles
        for count in COUNTS:
            given = np.concatenate([facts[:count] for facts in known])
            began = time.process_time()
            added = fold_in(model, without.graph, recipe, graph.named(given))
            seconds = time.process_time() - began
            result["added"][str(count)] = {
                "triples": len(given),
                "cpu_seconds_per_entity": seconds / len(known),
                **_judged(*added, graph.named(judged), facts),
            }
        one = np.concatenate([facts[:3] for facts in known[:1]])
        began = time.process_time()
        fold_in(model, without.graph, recipe, graph.named(one))
        result["cpu_seconds_of_one_with_3"] = time.process_time() - began
        everything = np.concatenate([rest["train"], *known])
        run = trained("with", everything)
        result["trained_with"] = _judged(run.model, run.graph, graph.named(judged), facts)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def _hide(
    graph: KnowledgeGraph, judged: int, rng: np.random.Generator
) -> tuple[dict[str, Triples], list[Triples], Triples, set[int]]:
    """Train and valid without the hidden entities, the triples of each that may be given, those
    that are judged by, and who is hidden."""
    ends = graph.train[:, [0, 2]]
    counts = np.bincount(ends.ravel(), minlength=graph.seen_entities)
    able = np.flatnonzero(counts >= judged + 10)
    hidden = rng.choice(able, min(len(able), round(SHARE * graph.seen_entities)), replace=False)
    hits = np.isin(ends, hidden).sum(axis=1)
    train = graph.train[hits == 0]
    facts = rng.permutation(graph.train[hits == 1])
    # What else they name must be left to learn from.
    seen = np.union1d(train[:, [0, 2]], hidden)
    facts = facts[np.isin(facts[:, [0, 2]], seen).all(axis=1) & np.isin(facts[:, 1], train[:, 1])]
    owners = np.where(np.isin(facts[:, 0], hidden), facts[:, 0], facts[:, 2])
    known, held = [], []
    for entity in hidden:
        own = facts[owners == entity]
        if len(own) > judged:
            held.append(own[:judged])
            known.append(own[judged:])
    valid = graph.valid[~np.isin(graph.valid[:, [0, 2]], hidden).any(axis=1)]
    rest = {"train": train, "valid": valid}
    return rest, known, np.concatenate(held), set(hidden.tolist())


def _judged(
    model: RelationalTucker, graph: KnowledgeGraph, judged: pl.DataFrame, facts: pl.DataFrame
) -> dict[str, float]:
    """MRR and HITS@10 of named triples; all other facts are filtered, known to the graph or not."""
    test, known = _ids(graph, judged), _ids(graph, facts)
    known = known[(known >= 0).all(axis=1)]
    metrics = rank_split(model, replace(graph, valid=known, test=test), "test").metrics()["seen"]
    return {"mrr": metrics.mrr, "hits@10": metrics.to_dict()["hits@10"]}


def _ids(graph: KnowledgeGraph, triples: pl.DataFrame) -> Triples:
    vocabularies = (graph.entities, graph.relations, graph.entities)
    columns = zip(vocabularies, triples, strict=True)
    return np.stack([names.ids(column) for names, column in columns], axis=1).astype(np.int32)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graph", default="families")
    parser.add_argument("--preset", default="good")
    parser.add_argument("--model")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--entity-dim", type=int)
    parser.add_argument("--judged", type=int, default=10, help="triples of each hidden entity")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
