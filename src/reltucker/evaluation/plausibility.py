"""The plausibility of many triples, in blocks."""

import numpy as np
import numpy.typing as npt
import torch

from reltucker.errors import ScoreError
from reltucker.graph import IntArray
from reltucker.model import RelationalTucker

QUERY_BLOCK_BYTES = 16 << 20
"""How large a block of queries may be."""


def plausibilities(model: RelationalTucker, triples: IntArray) -> npt.NDArray[np.float64]:
    """`RelationalTucker.plausibility` of triples (n, 3) to (n,); ScoreError where a value is not
    finite."""
    found = np.empty(len(triples))
    # By relation, so that blocks have few distinct ones and M_k is seldom made twice.
    order = np.argsort(triples[:, 1], kind="stable")
    block = max(1, QUERY_BLOCK_BYTES // (4 * model.core.entity_dim))
    for begin in range(0, len(order), block):
        rows = order[begin : begin + block]
        ids = torch.from_numpy(triples[rows].astype(np.int64)).to(model.E.device)
        found[rows] = model.plausibility(ids).cpu().numpy()
    if not np.isfinite(found).all():
        raise ScoreError("the model gives scores that are not finite numbers; train it again")
    return found
