"""Two fits side by side, relation by relation, ordered by how diagonal the mixing matrices are."""

from collections import Counter
from typing import Any

import numpy as np

from reltucker.evaluation import Protocol
from reltucker.study.fits import Fit, Fits
from reltucker.study.inspection import MOST_FREQUENT, describe_mixing, most_frequent
from reltucker.study.quality import Certainty, Rows, adjust

GROUP = 5
"""The paper looks at this many relations with the strongest and with the weakest diagonals."""


def compare_relations(
    fits: Fits, first: Fit, second: Fit, protocol: Protocol, certainty: Certainty
) -> tuple[Rows, Rows]:
    """Compare two fits on the most frequent relations, ordered by the diagonals of `first`.

    Gives rows for single relations, strongest diagonal first, and for the two groups at the ends.
    A row has `diagonal` (sum_i |m_ii|), the figures of both fits as `first_mrr`, `second_mrr`,
    `first_hits@10`, ... with intervals, and `difference`, `p` and `p_holm` of the MRR.
    """
    run = fits.open(first)
    described = [describe_mixing(run, k) for k in most_frequent(fits.graph, MOST_FREQUENT)]
    described.sort(key=lambda row: -row["diagonal"])
    size = min(GROUP, len(described) // 2)
    ends = {"top": described[:size], "bottom": described[len(described) - size :]} if size else {}
    labels = Counter(row["label"] for row in described)

    def figures(members: Rows) -> dict[str, Any]:
        ids = [fits.graph.relations.find(row["relation"]) for row in members]
        where = np.isin(first.ranking.triples[:, 1], ids)
        one, two = certainty.qualities([first, second], protocol, where)
        (difference,) = certainty.differences([(first, second)], protocol, where)
        tested = {"tested": one.pop("tested")}
        del two["tested"]
        of_first = {f"first_{key}": value for key, value in one.items()}
        of_second = {f"second_{key}": value for key, value in two.items()}
        return {**tested, **of_first, **of_second, **difference}

    relations: Rows = [
        {
            **row,
            # A label that two relations share would make them one in a chart.
            "shown": row["label"] if labels[row["label"]] == 1 else row["relation"],
            "group": next((name for name, members in ends.items() if row in members), ""),
            **figures([row]),
        }
        for row in described
    ]
    groups: Rows = [
        {
            "group": f"{name} {size}",
            "relations": [row["relation"] for row in members],
            "diagonal": float(np.mean([row["diagonal"] for row in members])),
            "triples": sum(row["triples"] for row in members),
            **figures(members),
        }
        for name, members in ends.items()
    ]
    adjust(relations)
    adjust(groups)
    return relations, groups
