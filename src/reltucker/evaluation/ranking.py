"""Entity ranking in both directions, under all protocols, in one pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reltucker.errors import ScoreError
from reltucker.evaluation.metrics import Metrics
from reltucker.evaluation.protocols import FULL_FILTER, PROTOCOLS, Protocol
from reltucker.graph import COLUMNS, KnowledgeGraph, SplitName
from reltucker.kernels import count_above, padded, ranks_of, score_rows, scores_into
from reltucker.model import RelationalTucker

EntityDirection = Literal["object", "subject"]
ENTITY_DIRECTIONS: tuple[EntityDirection, ...] = ("object", "subject")

Scores = Callable[[EntityDirection, Tensor, Tensor], Iterator[Tensor]]
"""Ids of given entities and relations (B,) to scores (B, N), once for each ranking."""

SCORE_BLOCK_BYTES = 16 << 20
"""How large a block of scores may be: small enough to stay near the caches while it is counted."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks of the true entity for every triple (n, 3) of a split, both directions.

    ranks : (2, n, 3) float64 by direction (object, subject), triple, protocol
    seen  : (n,) which triples count under `seen` and `paper`
    """

    triples: npt.NDArray[np.int32]
    ranks: npt.NDArray[np.float64]
    seen: npt.NDArray[np.bool_]

    def of(
        self,
        protocol: Protocol,
        direction: EntityDirection | None = None,
        where: npt.NDArray[np.bool_] | None = None,
    ) -> npt.NDArray[np.float64]:
        """The ranks that count under a protocol, for one or both directions, for some triples."""
        counted = np.ones_like(self.seen) if protocol == "standard" else self.seen
        if where is not None:
            counted = counted & where
        chosen = self.ranks[:, counted, PROTOCOLS.index(protocol)]
        if direction is not None:
            chosen = chosen[ENTITY_DIRECTIONS.index(direction)]
        return np.asarray(chosen.reshape(-1))

    def metrics(
        self,
        direction: EntityDirection | None = None,
        where: npt.NDArray[np.bool_] | None = None,
    ) -> dict[Protocol, Metrics]:
        """Metrics under every protocol."""
        return {p: Metrics.of(self.of(p, direction, where)) for p in PROTOCOLS}


def rank_split(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    split: SplitName = "test",
    *,
    triples: npt.NDArray[np.int32] | None = None,
    filter_test: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Ranking:
    """Rank the true entity of every triple of a split (or of the given `triples` of it).

    With `filter_test`, the answers of test are left out when another split is ranked, too, so that
    its figures can be laid beside those of test: for information, never for a choice.
    `advance` is called with the number of queries done since the last call.
    Raises ScoreError when a score is NaN or infinite.
    """
    held = len(model.E)
    buffer = model.E.new_empty(block_of(model.entities) * padded(held))

    def scores(direction: EntityDirection, given: Tensor, relations: Tensor) -> Iterator[Tensor]:
        vectors = model.queries(direction, given, relations)
        scored = score_rows(buffer, len(vectors), held)
        yield scores_into(scored, vectors, model.candidates(direction))

    triples = graph.split(split) if triples is None else triples
    filtered: SplitName = "test" if filter_test else split
    return _rank(scores, 1, model, graph, filtered, triples, advance)[0]


def fully_filtered(
    model: RelationalTucker, graph: KnowledgeGraph, valid: npt.NDArray[np.int32]
) -> dict[str, Any]:
    """FULL_FILTER and its figures, for results of these validation triples; nothing where the graph
    has no test triples, whose answers could be left out."""
    if not len(graph.test):
        return {}
    ranking = rank_split(model, graph, "valid", triples=valid, filter_test=True)
    return {FULL_FILTER: ranking.metrics()["seen"].to_dict()}


def rank_weighted_sums(
    models: Sequence[RelationalTucker],
    weights: npt.NDArray[np.float64],
    graph: KnowledgeGraph,
    split: SplitName,
    *,
    triples: npt.NDArray[np.int32],
    advance: Callable[[int], None] | None = None,
) -> list[Ranking]:
    """As `rank_split`, by sums of the scores of models (P) with the weights (C, P): a ranking for
    each row of weights. Every model is asked once."""
    factors = torch.from_numpy(weights).to(models[0].E)

    def scores(direction: EntityDirection, given: Tensor, relations: Tensor) -> Iterator[Tensor]:
        parts = torch.stack(
            [m.queries(direction, given, relations) @ m.candidates(direction).t() for m in models]
        )
        summed = torch.empty_like(parts[0])
        for row in factors:
            yield torch.mv(parts.flatten(1).t(), row, out=summed.view(-1)).view_as(summed)

    return _rank(scores, len(weights), models[0], graph, split, triples, advance)


def sampled(triples: npt.NDArray[np.int32], count: int, seed: int = 0) -> npt.NDArray[np.int32]:
    """`count` of the triples at random (all, where there are no more), in their order."""
    if count >= len(triples):
        return triples
    chosen = np.random.default_rng(seed).choice(len(triples), count, replace=False)
    return triples[np.sort(chosen)]


def block_of(entities: int) -> int:
    """How many questions are scored at once."""
    return max(16, SCORE_BLOCK_BYTES // (4 * entities))


def _rank(
    scores: Scores,
    count: int,
    model: RelationalTucker,
    graph: KnowledgeGraph,
    split: SplitName,
    triples: npt.NDArray[np.int32],
    advance: Callable[[int], None] | None,
) -> list[Ranking]:
    """The `count` rankings by what `scores` yields."""
    ranks = np.empty((count, 2, len(triples), len(PROTOCOLS)))
    for number, direction in enumerate(ENTITY_DIRECTIONS):
        _rank_direction(scores, model, graph, split, triples, direction, ranks[:, number], advance)
    seen = graph.is_seen(triples)
    return [Ranking(triples, each, seen) for each in ranks]


def _rank_direction(
    scores: Scores,
    model: RelationalTucker,
    graph: KnowledgeGraph,
    split: SplitName,
    triples: npt.NDArray[np.int32],
    direction: EntityDirection,
    ranks: npt.NDArray[np.float64],
    advance: Callable[[int], None] | None,
) -> None:
    """Fill ranks (count, n, 3): each distinct query is scored once and serves all of its true
    answers."""
    if not len(triples):
        return
    given, _, asked = COLUMNS[direction]
    index = graph.answers(direction)
    # Ordered by relation, then by query: blocks have few distinct relations, queries are runs.
    order = np.lexsort((triples[:, given], triples[:, 1]))
    ordered = triples[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.any(ordered[1:, [given, 1]] != ordered[:-1, [given, 1]], axis=1)
    query_of = np.cumsum(fresh) - 1
    queries = ordered[fresh]
    known_starts, known_counts = index.ranges(index.query_of(queries))

    device = model.E.device

    def tensor(values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(device)

    answers, splits = index.answers, index.splits
    if split != "test":
        # Answers known from test only must not be filtered: they are taken out of the rows.
        kept = splits < 2
        before = np.concatenate([[0], np.cumsum(kept)])
        answers, splits = answers[kept], splits[kept]
        known_counts = before[known_starts + known_counts] - before[known_starts]
        known_starts = before[known_starts]
    known_answers, known_splits = tensor(answers), tensor(splits)
    block = block_of(len(graph.entities))
    for begin in range(0, len(queries), block):
        end = min(begin + block, len(queries))
        asked_rows = slice(*np.searchsorted(query_of, [begin, end]))
        first, relation = queries[begin:end, [given, 1]].astype(np.int64).T.copy()
        rest = (
            tensor(query_of[asked_rows] - begin),
            tensor(ordered[asked_rows, asked].astype(np.int64)),
            graph.seen_entities,
            tensor(known_starts[begin:end]),
            tensor(known_counts[begin:end]),
            known_answers,
            known_splits,
        )
        for number, scored in enumerate(scores(direction, tensor(first), tensor(relation))):
            result = _ranks(model, scored, *rest).cpu()
            if not torch.isfinite(result).all():
                raise ScoreError(
                    "the model gives scores that are not finite numbers (NaN or infinity), so no "
                    "rank can be trusted; train again with a lower learning rate"
                )
            ranks[number, order[asked_rows]] = result.numpy()
        if advance is not None:
            advance(asked_rows.stop - asked_rows.start)


def _ranks(
    model: RelationalTucker, scores: Tensor, rows: Tensor, targets: Tensor, *known: Any
) -> Tensor:
    """As `rank_by_counting`, by the scores of all entities, of which each process has its share."""
    place = targets - model.held.start
    here = (place >= 0) & (place < scores.shape[1])
    own = torch.where(here, scores[rows, torch.where(here, place, 0)], 0.0)
    own = model.peers.total(own)
    counted = count_above(scores, own, model.held.start, rows, targets, *known)
    return ranks_of(model.peers.total(counted))
