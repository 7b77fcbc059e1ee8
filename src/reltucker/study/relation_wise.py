"""Two fits side by side, relation by relation, ordered by how diagonal the mixing matrices are."""

from collections import Counter
from typing import Any

import numpy as np

from reltucker.evaluation import Protocol
from reltucker.study.fits import Fit, Fits
from reltucker.study.inspection import MOST_FREQUENT, describe_mixing, most_frequent
from reltucker.study.quality import Certainty, Mask, Rows, adjust, differences, qualities

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
    run = first.open()
    chosen = {k: describe_mixing(run, k) for k in most_frequent(fits.graph, MOST_FREQUENT)}
    order = sorted(chosen, key=lambda k: -chosen[k]["diagonal"])
    size = min(GROUP, len(order) // 2)
    ends = {"top": order[:size], "bottom": order[len(order) - size :]} if size else {}
    labels = Counter(row["label"] for row in chosen.values())
    tested = first.ranking.triples[:, 1]

    def figures(where: Mask) -> dict[str, Any]:
        one, two = qualities([first, second], protocol, certainty, where)
        (difference,) = differences([(first, second)], protocol, certainty, where)
        tested = {"tested": one.pop("tested")}
        del two["tested"]
        of_first = {f"first_{key}": value for key, value in one.items()}
        of_second = {f"second_{key}": value for key, value in two.items()}
        return {**tested, **of_first, **of_second, **difference}

    relations: Rows = [
        {
            **chosen[k],
            # A label that two relations share would make them one in a chart.
            "shown": chosen[k]["label" if labels[chosen[k]["label"]] == 1 else "relation"],
            "group": next((name for name, members in ends.items() if k in members), ""),
            **figures(tested == k),
        }
        for k in order
    ]
    groups: Rows = [
        {
            "group": f"{name} {size}",
            "relations": [chosen[k]["relation"] for k in members],
            "diagonal": float(np.mean([chosen[k]["diagonal"] for k in members])),
            "triples": sum(chosen[k]["triples"] for k in members),
            **figures(np.isin(tested, members)),
        }
        for name, members in ends.items()
    ]
    adjust(relations)
    adjust(groups)
    return relations, groups
