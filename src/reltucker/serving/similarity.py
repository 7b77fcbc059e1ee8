"""What is alike: entities that give the same scores to everything, relations that hold for the same
pairs; likely duplicates."""

import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import polars as pl
import torch
from torch import Tensor

from reltucker.arguments import check_choice, check_count
from reltucker.choices import Alikeness, NameKind
from reltucker.errors import ScoreError
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.progress import track
from reltucker.serving.best import Best, rows_at_once
from reltucker.serving.candidates import Ids
from reltucker.serving.naming import find_id

GRAM_BYTES = 256 << 20
"""How much of all mixing matrices is held at once."""


@torch.no_grad()
def similar(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    name: str,
    *,
    kind: NameKind = "entity",
    top: int = 10,
    by: Alikeness = "queries",
) -> pl.DataFrame:
    """The entities (or relations) of train that are most like the one of this name or label.

    Columns: rank, name, label, similarity (from -1 to 1; 1 is the same).
    """
    check_choice("kind", kind, get_args(NameKind))
    check_choice("by", by, get_args(Alikeness))
    check_count("top", top, kind)
    number = find_id(graph, "relation" if kind == "relation" else "object", name)
    if kind == "entity":
        vocabulary, profiles = graph.entities, entity_profiles(model, graph, by)
        similarities = profiles @ profiles[number]
    else:
        vocabulary = graph.relations
        similarities = _relation_similarities(model, graph, by)[number]
    similarities[number] = -math.inf
    values, chosen = torch.topk(similarities, min(top, len(similarities) - 1))
    ids = chosen.cpu().numpy()
    return pl.DataFrame(
        {
            "rank": pl.Series(range(1, len(ids) + 1), dtype=pl.UInt32),
            "name": vocabulary.names.gather(ids),
            "label": vocabulary.shown.gather(ids),
            "similarity": _clamped(values),
        }
    )


@torch.no_grad()
def duplicates(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    *,
    top: int = 100,
    least: float = 0.9,
    by: Alikeness = "queries",
    progress: bool = True,
    watch: Callable[[], None] | None = None,
) -> pl.DataFrame:
    """The `top` pairs of entities that are most alike, of those with a similarity above `least`:
    likely duplicates. Columns: rank, first, second (names), similarity, shared (the share of the
    known facts of either one that both have). `watch` is called after every block; what it raises
    ends the work."""
    check_count("top", top, "pair")
    profiles = entity_profiles(model, graph, by)
    size = len(profiles)
    block = rows_at_once(size, profiles.shape[1])
    best = Best(top, profiles, least)
    numbers = torch.arange(size, device=profiles.device)
    with track("comparing", size, "entities", progress) as advance:
        for begin in range(0, size, block):
            end = min(begin + block, size)
            # Each pair once: the columns from the block's own on, without those left of a row.
            values = profiles[begin:end] @ profiles[begin:].t()
            values[:, : end - begin].masked_fill_(
                numbers[: end - begin] <= numbers[: end - begin, None], -math.inf
            )
            best.look(values, numbers[begin:end] * size, numbers[begin:])
            if advance is not None:
                advance(end - begin)
            if watch is not None:
                watch()
    values, order = torch.sort(best.values, descending=True, stable=True)
    keys = best.keys[order].cpu().numpy()
    first, second = keys // size, keys % size
    return pl.DataFrame(
        {
            "rank": pl.Series(range(1, len(keys) + 1), dtype=pl.UInt32),
            "first": graph.entities.names.gather(first),
            "second": graph.entities.names.gather(second),
            "similarity": _clamped(values),
            "shared": _shared(graph, np.column_stack([first, second])),
        },
        schema_overrides={"shared": pl.Float64},
    )


def entity_profiles(model: RelationalTucker, graph: KnowledgeGraph, by: Alikeness) -> Tensor:
    """Unit vectors (n, d_e) of the entities of train, whose products are their similarities.

    `embeddings`: the rows of E. `queries`: an entity a asks (a, k, ?) with the query M_k^T e_a and
    (?, k, a) with one of its own, and each gives scores to all entities. How much the scores of a
    and b differ, the mean of all questions apart (it changes no rank), is

        |e_a - e_b|_W^2,  W = sum_k f_k / 2 (M_k C M_k^T + N_k C N_k^T),

    where C is the covariance of the rows of E, f_k the share of training triples with relation k,
    and N_k = M_k^T, or M of the inverse relation. So the profile of a is (e_a - mean e) W^(1/2):
    the similarity is the correlation of the scores that two entities give to everything.
    """
    rows = _finite(model.E[: graph.seen_entities])
    if by == "queries":
        rows = rows - rows.mean(dim=0)
        half = _root(rows.t() @ rows / max(len(rows), 1))
        metric = torch.zeros_like(half)
        frequency = np.bincount(graph.train[:, 1], minlength=graph.seen_relations)
        for k in np.flatnonzero(frequency).tolist():
            share = float(frequency[k] / len(graph.train))
            for matrix in both_mixings(model, k):
                product = matrix @ half
                metric.addmm_(product, product.t(), alpha=share / 2)
        rows = rows @ _root(metric)
    return torch.nn.functional.normalize(rows, dim=1)


def both_mixings(model: RelationalTucker, relation: int) -> tuple[Tensor, Tensor]:
    """The matrices with which given entities ask for objects and for subjects."""
    matrix = model.mixing_matrix(relation)
    if model.reciprocal:
        return matrix, model.mixing_matrix(model.relations + relation)
    return matrix, matrix.t()


@torch.no_grad()
def relation_products(model: RelationalTucker, graph: KnowledgeGraph) -> tuple[Tensor, Tensor]:
    """<A_k, A_l> and <A_k, A_l^T> for all relations of train, (K, K) each, with
    <A, B> = tr(C A C B^T).

    A_k is M_k, or with inverse relations (M_k + M_k'^T) / 2, so that e_i^T A_k e_j is a triple's
    plausibility. With C = sum_i (e_i - mean)(e_i - mean)^T / N the product is the covariance of
    two relations' plausibilities over all pairs of entities, each plausibility without the mean of
    its subject and of its object: what remains is which pairs belong together.
    """
    rows = model.E[: graph.seen_entities]
    rows = rows - rows.mean(dim=0)
    half = _root(rows.t() @ rows / max(len(rows), 1))  # C = half half^T
    size, dim = graph.seen_relations, len(half)
    straight, crossed = (half.new_zeros(size, size, dtype=torch.float64) for _ in range(2))
    step = max(1, GRAM_BYTES // (8 * size * dim))
    for begin in range(0, dim, step):
        part = half[:, begin : begin + step].t()  # some rows of half^T A_k half, for all k
        there, back = (half.new_empty(size, len(part), dim) for _ in range(2))
        for k in range(size):
            forth, other = both_mixings(model, k)
            form = 0.5 * (forth + other.t())
            there[k] = part @ form @ half
            back[k] = part @ form.t() @ half
        straight += (there.flatten(1) @ there.flatten(1).t()).double()
        crossed += (there.flatten(1) @ back.flatten(1).t()).double()
    return _finite(straight), _finite(crossed)


def _relation_similarities(model: RelationalTucker, graph: KnowledgeGraph, by: Alikeness) -> Tensor:
    if by == "embeddings":
        rows = torch.nn.functional.normalize(model.R[: graph.seen_relations], dim=1)
        return rows @ rows.t()
    products, _ = relation_products(model, graph)
    norms = products.diagonal().clamp_min(1e-30).sqrt()
    return products / norms / norms[:, None]


def _root(matrix: Tensor) -> Tensor:
    """The symmetric square root of a positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh(_finite(matrix).double())
    root: Tensor = (vectors * values.clamp_min(0).sqrt()) @ vectors.t()
    return root.to(matrix.dtype)


def _finite(numbers: Tensor) -> Tensor:
    if not torch.isfinite(numbers).all():
        raise ScoreError("the model holds numbers that are not finite; train it again")
    return numbers


def _clamped(similarities: Tensor) -> pl.Series:
    """Rounding may lead out of [-1, 1]."""
    return pl.Series(similarities.clamp(-1.0, 1.0).float().cpu().numpy(), dtype=pl.Float32)


def _shared(graph: KnowledgeGraph, pairs: Ids) -> list[float]:
    """The share of the facts of a pair's entities that both have, (n, 2) ids to n shares."""
    members = np.unique(pairs)
    facts: dict[int, set[tuple[int, ...]]] = {entity: set() for entity in members.tolist()}
    for triples in (graph.train, graph.valid, graph.test):
        for place in (0, 2):
            for triple in triples[np.isin(triples[:, place], members)].tolist():
                facts[triple[place]].add((place, triple[1], triple[2 - place]))
    both = [(facts[a], facts[b]) for a, b in pairs.tolist()]
    return [len(a & b) / max(len(a | b), 1) for a, b in both]
