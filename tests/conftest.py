"""What several test rooms share: small graphs, and where the big data sets may be."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reltucker.graph import SPLITS, KnowledgeGraph, Vocabulary
from reltucker.graph.knowledge_graph import Triples
from reltucker.model import CORES, Core


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The folder with the published archives; tests that need it skip where it is missing."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("RELTUCKER_DATASETS", root.parent / "shared" / "datasets"))
    if not (folder / "FB15k-237.tar.gz").is_file():
        pytest.skip(f"the published archives are not in {folder} (RELTUCKER_DATASETS names it)")
    return folder


def random_graph(
    seed: int,
    *,
    entities: int = 30,
    unseen: int = 3,
    relations: int = 4,
    train: int = 150,
    valid: int = 30,
    test: int = 40,
) -> KnowledgeGraph:
    """A graph with unseen entities, several answers to a query, and overlapping splits."""
    rng = np.random.default_rng(seed)

    def triples(count: int, size: int) -> np.ndarray:
        drawn = np.stack(
            [
                rng.integers(size, size=count),
                rng.integers(relations, size=count),
                rng.integers(size, size=count),
            ],
            axis=1,
        )
        return np.unique(drawn, axis=0).astype(np.int32)

    known = triples(train, entities)
    # Every entity and relation below the limits occurs in train.
    cover = np.stack(
        [np.arange(entities), np.arange(entities) % relations, np.roll(np.arange(entities), 1)],
        axis=1,
    ).astype(np.int32)
    return KnowledgeGraph(
        "random",
        Vocabulary([f"e{i}" for i in range(entities + unseen)], kind="entity"),
        Vocabulary([f"r{k}" for k in range(relations)], kind="relation"),
        np.unique(np.concatenate([known, cover]), axis=0),
        triples(valid, entities + unseen),
        triples(test, entities + unseen),
        entities,
        relations,
    )


def disjoint(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph without triples of valid and test that stand in an earlier split."""

    def apart(triples: Triples, *others: Triples) -> Triples:
        known = {tuple(triple) for other in others for triple in other.tolist()}
        return triples[[tuple(triple) not in known for triple in triples.tolist()]]

    valid = apart(graph.valid, graph.train)
    return replace(graph, valid=valid, test=apart(graph.test, graph.train, valid))


def write_graph(graph: KnowledgeGraph, folder: Path) -> Path:
    """The graph as a folder with a file for each split."""
    folder.mkdir()
    for split in SPLITS:
        graph.named(graph.split(split)).write_csv(
            folder / f"{split}.tsv", separator="\t", include_header=False
        )
    return folder


def parts_of(name: str, entity_dim: int) -> dict[str, Any]:
    """The options without which a core cannot be built: those of cores side by side."""
    if name != "merged":
        return {}
    half = entity_dim // 2
    rest = entity_dim - half
    first = {"name": "drt", "entity_dim": half, "relation_dim": 3}
    second = {"name": "analogy", "entity_dim": rest, "relation_dim": rest}
    return {"parts": [first, {**second, "options": {"scalar_share": 0.25}}]}


def core_settings(name: str, entity_dim: int) -> dict[str, Any]:
    """The settings of a recipe for a core, by dotted key."""
    options = {f"core.{key}": value for key, value in parts_of(name, entity_dim).items()}
    return {"model.name": name, "model.entity_dim": entity_dim, **options}


def build_core(name: str, entity_dim: int, relations: int, **options: Any) -> Core:
    """The core of that name with the d_r that it suggests."""
    return CORES[name].build(entity_dim, None, relations, **parts_of(name, entity_dim), **options)
