"""The most probable facts that the graph does not hold, of all subjects, relations and objects."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from reltucker.arguments import check_count
from reltucker.errors import ReltuckerError, ScoreError
from reltucker.evaluation import Calibration, plausibilities
from reltucker.graph import Direction, KnowledgeGraph
from reltucker.kernels import padded, score_rows, scores_into
from reltucker.model import RelationalTucker
from reltucker.progress import track
from reltucker.serving.best import Best, rows_at_once
from reltucker.serving.candidates import Ids, located
from reltucker.serving.naming import find_id

SCHEMA = {
    "rank": pl.UInt32,
    **dict.fromkeys(["subject", "relation", "object"], pl.String),
    "score": pl.Float32,
    "probability": pl.Float64,
}
PART = 200_000
"""So many entities are looked at as answers at a time; their rows are copied."""
SCORE_RANGE = 1e6
"""Where the border of a probability is looked for; what lies beyond is never left out."""


@dataclass(frozen=True, eq=False)
class _Found:
    """Facts (n, 3), best first, with their plausibilities (n,) and probabilities (n,)."""

    triples: Ids
    scores: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]

    def last(self) -> tuple[float, float]:
        """Probability and plausibility of the last one."""
        return float(self.probabilities[-1]), float(self.scores[-1])

    @classmethod
    def joined(cls, parts: "Sequence[_Found]", top: int) -> "_Found":
        """The best of all; where probabilities are equal, plausibility decides."""
        triples = np.concatenate([part.triples for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        probabilities = np.concatenate([part.probabilities for part in parts])
        order = np.lexsort((*triples.T[::-1], -scores, -probabilities))[:top]
        return cls(triples[order], scores[order], probabilities[order])


@dataclass(frozen=True, eq=False)
class _Area:
    """Pairs of each of the given entities with each of those that are asked for."""

    direction: Direction
    given: Ids
    asked: Ids
    with_loops: bool

    @property
    def size(self) -> int:
        return len(self.given) * len(self.asked)

    @classmethod
    def of(cls, subjects: Ids, objects: Ids, with_loops: bool) -> "list[_Area]":
        """Of each of the subjects with each of the objects; the smaller side is given, and the
        other one taken in parts that memory can hold."""
        direction: Direction = "object" if len(subjects) <= len(objects) else "subject"
        given, asked = (subjects, objects) if direction == "object" else (objects, subjects)
        if not len(given):
            return []
        parts = [asked[begin : begin + PART] for begin in range(0, len(asked), PART)]
        return [cls(direction, given, part, with_loops) for part in parts]


@torch.no_grad()
def discover(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    *,
    top: int = 100,
    relations: Sequence[str] | None = None,
    entities: Sequence[str] | None = None,
    per_relation: bool = False,
    min_probability: float | None = None,
    anywhere: bool = False,
    held_out: bool = False,
    calibration: Calibration | None = None,
    progress: bool = True,
    watch: Callable[[int, int], None] | None = None,
) -> pl.DataFrame:
    """The `top` facts that are most probable and not in the graph, or as many of each relation.

    Candidates (i, k, j) have a subject and an object that stand there in training triples of k,
    with i = j, and with i != j, only where train has such triples of k; with `anywhere`, any
    entities of train.
    `relations` and `entities` keep facts with one of those. With `held_out`, facts of the test
    split count as unknown. Probabilities order facts of all relations where there is a calibration;
    without one plausibilities do. Columns: rank, subject, relation, object (names), score (the
    plausibility), probability (null without calibration).

    `watch` is told after every block how many facts of how many were looked at; what it raises ends
    the work.
    """
    check_count("top", top, "fact")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise ReltuckerError(f"min_probability = {min_probability}: give a number from 0 to 1")
    if min_probability is not None and calibration is None:
        raise ReltuckerError(
            "a minimal probability needs a calibration, which this run does not have; make one "
            "with `reltucker calibrate RUN` or run.calibrate()"
        )
    areas = dict(_areas(graph, relations, entities, anywhere))
    total = sum(area.size for parts in areas.values() for area in parts)
    least = min_probability or 0.0
    found = [_Found(np.empty((0, 3), dtype=np.int64), np.empty(0), np.empty(0))]
    with track("discovering", total, "facts", progress) as shown:
        advance = _watched(shown, watch, total)
        for relation, parts in areas.items():
            beaten = None if per_relation or len(found[0].scores) < top else found[0].last()
            best = Best(top, model.E, _floor(calibration, relation, beaten, least))
            for area in parts:
                _search(model, graph, relation, area, best, held_out, advance)
            best.join(model.peers)
            if len(best.keys):
                fresh = _judged(model, relation, best, calibration)
                found = [*found, fresh] if per_relation else [_Found.joined([*found, fresh], top)]
    return _frame(graph, found, calibration is not None, least)


def _watched(
    shown: Callable[[int], None] | None, watch: Callable[[int, int], None] | None, total: int
) -> Callable[[int], None]:
    """Tells both what was done since."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if shown is not None:
            shown(count)
        if watch is not None:
            watch(done, total)

    return advance


def _areas(
    graph: KnowledgeGraph,
    relations: Sequence[str] | None,
    entities: Sequence[str] | None,
    anywhere: bool,
) -> Iterator[tuple[int, list[_Area]]]:
    """For each relation the pairs that are looked at; no pair comes twice."""
    asked = list(range(graph.seen_relations))
    if relations is not None:
        asked = list(dict.fromkeys(find_id(graph, "relation", name) for name in relations))
    about = None
    if entities is not None:
        about = np.unique([find_id(graph, "object", name) for name in entities])
    everyone = np.arange(graph.seen_entities)
    of_relation, is_loop = graph.train[:, 1], graph.train[:, 0] == graph.train[:, 2]
    triples = np.bincount(of_relation, minlength=graph.seen_relations)
    loops = np.bincount(of_relation[is_loop], minlength=graph.seen_relations)
    for k in asked:
        if not anywhere and loops[k] == triples[k]:
            continue  # all that could be are known
        subjects = everyone if anywhere else graph.occurring(k, "subject")
        objects = everyone if anywhere else graph.occurring(k, "object")
        with_loops = anywhere or bool(loops[k])
        if about is None:
            yield k, _Area.of(subjects, objects, with_loops)
        else:
            others = np.setdiff1d(subjects, about)
            ours = np.intersect1d(subjects, about), np.intersect1d(objects, about)
            those = _Area.of(ours[0], objects, with_loops)
            yield k, [*those, *_Area.of(others, ours[1], with_loops)]


def _search(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    relation: int,
    area: _Area,
    best: Best,
    held_out: bool,
    advance: Callable[[int], None],
) -> None:
    """Look at all pairs of an area, block by block; of several processes each looks at those with
    its own entities.

    A block of the given becomes queries q, and the plausibilities are one product
    (q, c) (E, 1)^T. By Cauchy and Schwarz none of a row is above |q| max |e| + c, so that rows that
    cannot reach the floor are left out of it.
    """
    given, asked = area.given, model.own(area.asked)
    # The key of a fact is i N + j.
    strides = (model.entities, 1) if area.direction == "object" else (1, model.entities)
    index, device = graph.answers(area.direction), model.E.device
    columns = torch.from_numpy(asked).to(device)
    table = model.E.new_ones(len(asked), model.core.entity_dim + 1)
    table[:, :-1] = model.E[columns - model.first]
    longest = table[:, :-1].norm(dim=1).max() if len(asked) else table.new_zeros(())
    finite = torch.isfinite(model.peers.total(longest.clone()))
    block = rows_at_once(-(-len(area.asked) // model.peers.size), table.shape[1])
    buffer = table.new_empty(min(block, len(given)) * padded(len(asked)))
    for begin in range(0, len(given), block):
        ids = given[begin : begin + block]
        rows = torch.from_numpy(ids).to(device)
        queries, shift = model.plausibility_queries(
            area.direction, model.rows(rows), torch.full_like(rows, relation)
        )
        bounds = queries.norm(dim=1) * longest + shift
        if not (finite & torch.isfinite(queries).all() & torch.isfinite(shift).all()):
            raise ScoreError("the model gives scores that are not finite numbers; train it again")
        kept = (bounds > best.floor).cpu().numpy()
        if kept.any() and len(asked):
            ids, rows = ids[kept], rows[kept]
            queries = torch.cat([queries, shift.unsqueeze(1)], dim=1)[kept]
            scores = scores_into(score_rows(buffer, len(queries), len(asked)), queries, table)
            facts = index.rows(index.key(ids, np.full(len(ids), relation)))
            counted = (facts.splits < 2) | (not held_out)
            gone = [(facts.rows[counted], facts.answers[counted])]
            if not area.with_loops:
                gone.append((np.arange(len(ids)), ids))
            for places, answers in gone:
                where, there = located(asked, answers)
                scores[places[there], where[there]] = -math.inf
            best.look(scores, rows * strides[0], columns * strides[1])
        advance(len(given[begin : begin + block]) * len(area.asked))


def _judged(
    model: RelationalTucker,
    relation: int,
    best: Best,
    calibration: Calibration | None,
) -> _Found:
    """What was found in a relation, best first, with the plausibilities that others see, too."""
    subjects, objects = best.keys // model.entities, best.keys % model.entities
    triples = torch.stack([subjects, torch.full_like(subjects, relation), objects], dim=1)
    ids = triples.cpu().numpy()
    scores = plausibilities(model, ids)
    probabilities = np.zeros(len(ids))
    if calibration is not None:
        probabilities = calibration.probabilities(scores, ids[:, 1])
    return _Found.joined([_Found(ids, scores, probabilities)], len(ids))


def _floor(
    calibration: Calibration | None,
    relation: int,
    beaten: tuple[float, float] | None,
    least: float,
) -> float:
    """The plausibility up to which a fact of the relation is not better than `beaten`, the last of
    the best so far, or not as probable as `least`."""
    if calibration is None:
        return -math.inf if beaten is None else beaten[1]
    # Probability grows with plausibility, so that the border is found by bisection, 64-fold.
    low, high = -SCORE_RANGE, SCORE_RANGE
    for _ in range(9):
        scores = low + (high - low) * np.linspace(0.0, 1.0, 65)
        probabilities = calibration.probabilities(scores, np.full(65, relation))
        enough = probabilities >= least
        if beaten is not None:
            equal = (probabilities == beaten[0]) & (scores > beaten[1])
            enough &= (probabilities > beaten[0]) | equal
        first = 65 - int(np.count_nonzero(enough))
        if first == 0:
            return -math.inf
        if first == 65:
            return high
        low, high = float(scores[first - 1]), float(scores[first])
    return low


def _frame(
    graph: KnowledgeGraph, found: Sequence[_Found], is_calibrated: bool, least: float
) -> pl.DataFrame:
    """The facts with names; ranks begin anew with each part."""
    frames = [pl.DataFrame(schema=SCHEMA)]
    for part in found:
        kept = part.probabilities >= least
        columns = {
            "rank": np.arange(1, np.count_nonzero(kept) + 1),
            **graph.named(part.triples[kept]).to_dict(),
            "score": part.scores[kept],
            "probability": part.probabilities[kept] if is_calibrated else None,
        }
        frames.append(pl.DataFrame(columns, schema_overrides=SCHEMA))
    return pl.concat(frames)
