"""Corrupted triples: what true ones must be told from.

Each true triple is asked both ways, as in ranking, and in each way its answer is replaced

- by its rival, the best of the wrong answers,
- by an entity drawn from the relation's range: those at that place of it in train,
- by an entity drawn from all in train.

Known facts, of whatever split, are never used as corrupted triples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from reltucker.errors import ScoreError
from reltucker.evaluation.ranking import ENTITY_DIRECTIONS, EntityDirection, block_of
from reltucker.graph import COLUMNS, IntArray, KnowledgeGraph
from reltucker.kernels import padded, score_rows, scores_into
from reltucker.model import RelationalTucker

TRUE, RIVAL, IN_RANGE, ANY = range(4)
TRIES = 30
"""So often is an entity drawn anew where it makes a known fact."""

Rows = npt.NDArray[np.int64]
Replaced = tuple[Rows, Rows]
"""Corrupted triples (m, 3), and which triple each was made from (m,)."""


@dataclass(frozen=True, eq=False)
class JudgedTriples:
    """True triples, each once for either way to ask for it, and corrupted ones.

    triples (m, 3), kinds (m,): TRUE, RIVAL, IN_RANGE or ANY; sources (m,): the row of the given
    triple that each comes from
    """

    triples: Rows
    kinds: npt.NDArray[np.uint8]
    sources: Rows

    @property
    def is_true(self) -> npt.NDArray[np.bool_]:
        """Which triples are true (m,)."""
        return np.asarray(self.kinds == TRUE)

    @property
    def is_pair(self) -> npt.NDArray[np.bool_]:
        """Which triples are true, or corrupted within the range: about as many of either."""
        return np.asarray((self.kinds == TRUE) | (self.kinds == IN_RANGE))


def corrupt(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    triples: IntArray,
    *,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> JudgedTriples:
    """The triples (n, 3), whose entities and relations must be seen, beside corrupted ones.

    `advance` is called with the number of questions asked since the last call.
    """
    rows: Rows = triples.astype(np.int64)
    rng = np.random.default_rng(seed)

    def anywhere(places: Rows) -> Rows:
        return rng.integers(graph.seen_entities, size=len(places))

    parts: list[tuple[int, Replaced]] = []
    for direction in ENTITY_DIRECTIONS:
        asked = COLUMNS[direction][2]
        parts += [
            (TRUE, (rows, np.arange(len(rows), dtype=np.int64))),
            (RIVAL, _rivals(model, graph, rows, direction, advance)),
            (IN_RANGE, _redrawn(graph, rows, asked, _in_range(graph, rows, direction, rng))),
            (ANY, _redrawn(graph, rows, asked, anywhere)),
        ]
    return JudgedTriples(
        np.concatenate([made for _, (made, _) in parts]),
        np.concatenate([np.full(len(made), kind, dtype=np.uint8) for kind, (made, _) in parts]),
        np.concatenate([sources for _, (_, sources) in parts]),
    )


def _in_range(
    graph: KnowledgeGraph, triples: Rows, direction: EntityDirection, rng: np.random.Generator
) -> Callable[[Rows], Rows]:
    """Draws an entity for rows of the triples from the range of the relation of each."""
    distinct, places = np.unique(triples[:, 1], return_inverse=True)
    ranges = [graph.occurring(relation, direction) for relation in distinct.tolist()]
    starts = np.cumsum([0, *map(len, ranges)])
    members = np.concatenate([np.empty(0, dtype=np.int64), *ranges])

    def draw(rows: Rows) -> Rows:
        return np.asarray(members[rng.integers(starts[places[rows]], starts[places[rows] + 1])])

    return draw


def _redrawn(
    graph: KnowledgeGraph, triples: Rows, column: int, draw: Callable[[Rows], Rows]
) -> Replaced:
    """The triples with drawn entities; those left out for which no draw gave an unknown triple."""
    index = graph.answers("object")
    made = triples.copy()
    open_rows = np.arange(len(made))
    for _ in range(TRIES):
        made[open_rows, column] = draw(open_rows)
        open_rows = open_rows[index.holds(made[open_rows])]
        if not len(open_rows):
            break
    kept = np.setdiff1d(np.arange(len(made)), open_rows)
    return made[kept], kept


def _rivals(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    triples: Rows,
    direction: EntityDirection,
    advance: Callable[[int], None] | None,
) -> Replaced:
    """The best wrong answer to the question that each triple answers, where there is one."""
    given, _, asked = COLUMNS[direction]
    size = graph.seen_entities
    index, device = graph.answers(direction), model.E.device
    ids = torch.from_numpy(model.own(np.arange(size))).to(device)
    candidates = model.candidates(direction)[: len(ids)]
    order = np.argsort(triples[:, 1], kind="stable")
    block = block_of(size)
    buffer = model.E.new_empty(min(block, len(order)) * padded(len(ids)))
    made = triples.copy()
    for begin in range(0, len(order), block):
        rows = order[begin : begin + block]
        facts = index.rows(index.query_of(triples[rows]))
        places = facts.answers - model.first
        known = (places >= 0) & (places < len(ids))
        first, relations = (
            torch.from_numpy(triples[rows, column]).to(device) for column in (given, 1)
        )
        queries = model.queries(direction, first, relations)
        with torch.no_grad():
            scores = scores_into(score_rows(buffer, len(rows), len(ids)), queries, candidates)
        scores[facts.rows[known], places[known]] = -torch.inf
        best = model.peers.best(scores, ids, 1)
        values, chosen = (t.squeeze(1).cpu().numpy() for t in best)
        if np.isnan(values).any() or np.isposinf(values).any():
            raise ScoreError("the model gives scores that are not finite numbers; train it again")
        made[rows, asked] = np.where(values > -np.inf, chosen, -1)
        if advance is not None:
            advance(len(rows))
    kept = np.flatnonzero(made[:, asked] >= 0)
    return made[kept], kept
