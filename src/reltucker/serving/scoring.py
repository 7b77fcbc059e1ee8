"""Named triples to scores, probabilities and ranks."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.evaluation import PROTOCOLS, Calibration, plausibilities, rank_split
from reltucker.graph import IntArray, KnowledgeGraph
from reltucker.model import RelationalTucker


def score_triples(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    triples: IntArray,
    *,
    calibration: Calibration | None = None,
    advance: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """A row for each of the triples (n, 3): subject, relation, object (names), score (the
    plausibility), probability, object_rank and subject_rank, known.

    Ranks are those of protocol seen: among the entities of train, without the other known answers,
    ties at their mean. A triple with a name that is not in train has no score, probability or rank.
    """
    rows: npt.NDArray[np.int32] = triples.astype(np.int32)
    seen = graph.is_seen(rows)
    judged = rows[seen]
    ranks = rank_split(model, graph, triples=judged, advance=advance).ranks
    object_ranks, subject_ranks = ranks[..., PROTOCOLS.index("seen")]
    figures = pl.DataFrame(
        {
            "row": np.flatnonzero(seen),
            "score": plausibilities(model, judged),
            "probability": probabilities(calibration, model, judged),
            "object_rank": object_ranks,
            "subject_rank": subject_ranks,
        }
    )
    named = graph.named(rows).with_columns(row=pl.Series(np.arange(len(rows))))
    found = named.join(figures, on="row", how="left", maintain_order="left").drop("row")
    return found.with_columns(known=pl.Series(graph.answers("object").holds(rows)))


def probabilities(
    calibration: Calibration | None, model: RelationalTucker, triples: IntArray
) -> pl.Series:
    """The column of probabilities of triples (n, 3); null without a calibration."""
    if calibration is None:
        return pl.Series([None] * len(triples), dtype=pl.Float64)
    judged = plausibilities(model, triples)
    return pl.Series(calibration.probabilities(judged, triples[:, 1]), dtype=pl.Float64)
