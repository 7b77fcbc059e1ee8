"""What a graph looks like before anything is fitted: sizes, unseen names, kinds, hints, degrees."""

from typing import Any

import numpy as np
import polars as pl

from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, Triples

KINDS = ("1-1", "1-N", "N-1", "N-N", "unseen")
MANY = 1.5
"""From this average on, a side of a relation counts as "N" (Bordes et al., 2013)."""

HINT_SHARE = 0.8
HINT_TRIPLES = 5
"""A relation with fewer train triples gets no hint: its shares say little."""

MOST = 10
"""How many of the most frequent relations and most connected entities are listed."""


def describe_graph(graph: KnowledgeGraph) -> dict[str, Any]:
    """The figures of a graph, JSON-ready; "seen" means that all names also occur in train.

    `symmetric`, `inverse` and `contained` hint at relations that repeat each other: `share` of a
    relation's train triples (i, k, j) with i != j come with (j, k, i), (j, other, i) or
    (i, other, j) in any split. Whoever reads a score should know that a test triple whose reverse
    is in train is no secret.
    """
    relations, hints = _relations(graph), _hints(graph)
    frequent = relations.filter(pl.col("triples") > 0)
    frequent = frequent.sort("triples", descending=True, maintain_order=True).head(MOST)
    degree = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.seen_entities)
    connected = [int(i) for i in np.argsort(-degree, kind="stable")[:MOST] if degree[i]]
    if not len(degree):
        degree = np.zeros(1, dtype=np.intp)
    triples = {split: len(graph.split(split)) for split in SPLITS}
    seen = {split: int(graph.is_seen(graph.split(split)).sum()) for split in SPLITS}
    is_same = pl.col("relation") == pl.col("other")
    kinds = relations["kind"].to_list()
    return {
        "name": graph.name,
        "entities": len(graph.entities),
        "seen_entities": graph.seen_entities,
        "unseen_entities": len(graph.entities) - graph.seen_entities,
        "relations": len(graph.relations),
        "seen_relations": graph.seen_relations,
        "unseen_relations": len(graph.relations) - graph.seen_relations,
        "triples": triples,
        "seen_triples": seen,
        "unseen_triples": {split: triples[split] - seen[split] for split in SPLITS},
        "counts": dict(graph.counts),
        "relation_kinds": {kind: kinds.count(kind) for kind in KINDS},
        "most_frequent_relations": [
            {"relation": graph.relations.name(k), "label": graph.relations.label(k), **figures}
            for k, figures in zip(
                frequent["relation"], frequent.drop("relation").to_dicts(), strict=True
            )
        ],
        "symmetric": hints.filter("reversed", is_same).drop("reversed", "other").to_dicts(),
        "inverse": hints.filter("reversed", ~is_same).drop("reversed").to_dicts(),
        "contained": hints.filter(~pl.col("reversed")).drop("reversed").to_dicts(),
        "degree": {
            "min": int(degree.min()),
            "median": float(np.median(degree)),
            "mean": float(degree.mean()),
            "percentile_99": float(np.percentile(degree, 99)),
            "max": int(degree.max()),
        },
        "most_connected_entities": [
            {
                "entity": graph.entities.name(i),
                "label": graph.entities.label(i),
                "degree": int(degree[i]),
            }
            for i in connected
        ],
    }


def relation_kinds(graph: KnowledgeGraph) -> list[str]:
    """The kind of every relation by id: 1-1, 1-N, N-1 or N-N, and "unseen" without train triples.

    1-N is a relation with one subject and many objects: on average over train, at least 1.5
    objects for each (subject, relation) and fewer than 1.5 subjects for each (relation, object).
    """
    return _relations(graph)["kind"].to_list()


def _frame(triples: Triples) -> pl.DataFrame:
    columns = ("subject", "relation", "object")
    return pl.DataFrame({column: triples[:, n] for n, column in enumerate(columns)})


def _relations(graph: KnowledgeGraph) -> pl.DataFrame:
    """For every relation by id: its train triples, its kind, and the averages behind the kind."""
    counted = (
        _frame(graph.train)
        .group_by("relation")
        .agg(
            triples=pl.len(),
            objects_per_subject=pl.len() / pl.col("subject").n_unique(),
            subjects_per_object=pl.len() / pl.col("object").n_unique(),
        )
    )
    ids = pl.DataFrame({"relation": np.arange(len(graph.relations), dtype=np.int32)})
    subjects, objects = (
        pl.when(pl.col(average) >= MANY).then(pl.lit("N")).otherwise(pl.lit("1"))
        for average in ("subjects_per_object", "objects_per_subject")
    )
    kind = pl.when(pl.col("triples") > 0).then(pl.format("{}-{}", subjects, objects))
    return ids.join(counted, on="relation", how="left", maintain_order="left").select(
        "relation",
        "triples",
        kind.otherwise(pl.lit("unseen")).alias("kind"),
        "objects_per_subject",
        "subjects_per_object",
    )


def _hints(graph: KnowledgeGraph) -> pl.DataFrame:
    """Columns relation, other, share, triples and reversed, the largest shares first."""
    triples = pl.concat(
        _frame(graph.split(split)).with_columns(is_train=pl.lit(split == "train"))
        for split in SPLITS
    ).filter(pl.col("subject") != pl.col("object"))
    sizes = triples.filter("is_train").group_by("relation").agg(triples=pl.len())
    # Most pairs of entities have one triple in most graphs; they need not be joined.
    low, high = pl.min_horizontal("subject", "object"), pl.max_horizontal("subject", "object")
    shared = triples.filter((low.cast(pl.Int64) * len(graph.entities) + high).is_duplicated())
    train = shared.filter("is_train").join(
        sizes.filter(pl.col("triples") >= HINT_TRIPLES), on="relation"
    )
    known = shared.drop("is_train").unique().rename({"relation": "other"}).lazy()

    def companions(pair: list[str], is_reversed: bool) -> pl.LazyFrame:
        together = train.lazy().join(known, left_on=["subject", "object"], right_on=pair)
        if not is_reversed:
            together = together.filter(pl.col("relation") != pl.col("other"))
        counted = together.group_by("relation", "other", "triples").agg(share=pl.len())
        return counted.with_columns(
            pl.col("share") / pl.col("triples"), pl.lit(is_reversed).alias("reversed")
        ).filter(pl.col("share") >= HINT_SHARE)

    # Entities with many relations between them make many rows; streaming never holds them all.
    hints = (
        pl.concat(
            [companions(["subject", "object"], False), companions(["object", "subject"], True)]
        )
        .sort("share", "triples", "relation", "other", descending=[True, True, False, False])
        .collect(engine="streaming")
    )
    named = {key: graph.relations.names.gather(hints[key]) for key in ("relation", "other")}
    return hints.with_columns(**named).select("relation", "other", "share", "triples", "reversed")
