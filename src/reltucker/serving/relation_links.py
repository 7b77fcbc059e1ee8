"""Relations that others explain: symmetric ones, the same and inverse ones, sums of others."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from reltucker.errors import ReltuckerError
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.serving.candidates import Ids
from reltucker.serving.similarity import relation_products

Floats = npt.NDArray[np.float64]
Link = tuple[str, list[int], Floats, float]
"""What kind of link, to which relations, with which weights, and which share they explain."""

GAIN = 0.05
"""A further relation in a sum must explain this much more."""

SCHEMA: dict[str, pl.DataType] = {
    "relation": pl.String(),
    "kind": pl.String(),
    "others": pl.List(pl.String()),
    "weights": pl.List(pl.Float64()),
    **dict.fromkeys(["explained", "facts", "facts_back"], pl.Float64()),
}


def relation_links(
    model: RelationalTucker, graph: KnowledgeGraph, *, least: float = 0.8, terms: int = 3
) -> pl.DataFrame:
    """For each relation of train what explains at least the share `least` of it.

    A relation k with the form A_k (see `relation_products`) is approximated by one of these, with
    weights that are not negative and least squares under <A, B> = tr(C A C B^T); `explained` is
    1 - |A_k - approximation|^2 / |A_k|^2:

    - symmetric: A_k^T;
    - same, inverse: the best A_l, or A_l^T, of another relation;
    - sum: at least two A_l of others, at most `terms`, each the one that explains most of what is
      left (orthogonal matching pursuit) and at least 5 % more.

    `facts` is the share of the relation's training facts that hold for one of the others (that are
    in the graph, turned round where the form is), `facts_back` the share of theirs that hold for
    it. Columns: relation, kind, others, weights, explained, facts, facts_back; the best first.
    """
    if not 0 <= least <= 1:
        raise ReltuckerError(f"least {least}: give a share from 0 to 1")
    straight, crossed = (product.cpu().numpy() for product in relation_products(model, graph))
    names, held = graph.relations.names, _Pairs(graph)
    rows: list[dict[str, Any]] = []
    for k in range(graph.seen_relations):
        for kind, others, weights, explained in _links(k, straight, crossed, terms):
            if explained >= least:
                turned = kind in ("symmetric", "inverse")
                forth, back = held.shares(k, others, turned)
                rows.append(
                    {
                        "relation": names[k],
                        "kind": kind,
                        "others": [names[l] for l in others],
                        "weights": weights.tolist(),
                        "explained": explained,
                        "facts": forth,
                        "facts_back": back,
                    }
                )
    return pl.DataFrame(rows, schema=SCHEMA).sort("explained", descending=True, maintain_order=True)


def _links(k: int, straight: Floats, crossed: Floats, terms: int) -> Iterator[Link]:
    """The best link of each kind."""
    norms = np.maximum(straight.diagonal(), 1e-30)
    for kind, products in (
        ("symmetric", crossed[k]),
        ("same", straight[k]),
        ("inverse", crossed[k]),
    ):
        cosines = np.maximum(products, 0.0) / np.sqrt(norms * norms[k])
        if kind == "symmetric":
            l = k
        elif len(cosines) == 1:
            continue
        else:
            l = int(np.argmax(np.where(np.arange(len(cosines)) == k, -1.0, cosines)))
        yield kind, [l], products[l : l + 1] / norms[l], float(min(cosines[l], 1.0)) ** 2
    others, weights, explained = _sum(k, straight, norms, terms)
    if len(others) > 1:
        yield "sum", others, weights, explained


def _sum(k: int, products: Floats, norms: Floats, terms: int) -> tuple[list[int], Floats, float]:
    """Relations whose weighted sum is near A_k, with weights >= 0, and the share it explains."""
    from scipy.optimize import nnls  # takes longer to import than all of serving

    others: list[int] = []
    weights, explained = np.empty(0), 0.0
    while len(others) < terms:
        left = (products[k] - weights @ products[others]) / np.sqrt(norms)
        left[[k, *others]] = -np.inf
        further = [*others, int(np.argmax(left))]
        if left[further[-1]] <= 0:
            break
        # |A_k - sum w_l A_l|^2 = |F w - y|^2 + what no weight changes, with the products F^T F.
        gram = products[np.ix_(further, further)]
        factor = np.linalg.cholesky(gram + 1e-9 * np.diag(norms[further]))
        fitted, _ = nnls(factor.T, np.linalg.solve(factor, products[further, k]))
        now = (2 * fitted @ products[further, k] - fitted @ gram @ fitted) / norms[k]
        if now < explained + GAIN:
            break
        used = fitted > 0
        others, weights = (
            [l for l, is_used in zip(further, used, strict=True) if is_used],
            fitted[used],
        )
        explained = float(min(now, 1.0))
    return others, weights, explained


class _Pairs:
    """The pairs (subject, object) of every relation, as keys i N + j."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.size, self.relations = len(graph.entities), len(graph.relations)
        self.train = self._by_relation(graph.train)
        self.known = self._by_relation(np.concatenate([graph.train, graph.valid, graph.test]))

    def shares(self, k: int, others: Sequence[int], turned: bool) -> tuple[float, float]:
        """Of the training facts of k those that hold for one of the others, and the reverse."""
        return self._share([k], others, turned), self._share(others, [k], turned)

    def _share(self, these: Sequence[int], those: Sequence[int], turned: bool) -> float:
        pairs = np.unique(np.concatenate([self.train[k] for k in these]), axis=0)
        known = np.concatenate([self.known[k] for k in those])
        held = np.isin(self._keys(pairs[:, ::-1] if turned else pairs), self._keys(known))
        return float(held.mean()) if len(held) else 0.0

    def _keys(self, pairs: Ids) -> Ids:
        return pairs[:, 0] * self.size + pairs[:, 1]

    def _by_relation(self, triples: npt.NDArray[np.int32]) -> list[Ids]:
        ordered = triples[np.argsort(triples[:, 1], kind="stable")].astype(np.int64)
        ends = np.cumsum(np.bincount(ordered[:, 1], minlength=self.relations))
        return np.split(ordered[:, [0, 2]], ends[:-1])
