"""Why a triple has its score: the parts that add up to it, and the known facts that support it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor

from reltucker.arguments import check_count
from reltucker.evaluation import Calibration
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.serving.support import supporting_facts
from reltucker.training import Recipe

Way = Literal["object", "subject"]
"""What was asked for; the ways differ with reciprocal relations only."""

BLOCK = 1 << 20
"""So many entries of a dense core at a time."""

Interactions = tuple[Tensor, Tensor, Tensor, Tensor]
"""a, b, l and g_abl of entries of the core; -1 is the coordinate that is always 1."""


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """One way to ask for a triple: score = sum of `parts` + rest.

    A row of `parts` is a path subject_coordinate -> relation_coordinate (a slice of the core) ->
    object_coordinate with the number that each of them has, whose product is the part; coordinates
    count from 0, and one that is null is the constant that batch normalisation adds. The rest is
    the sum of all further interactions; `interactions` is how many are not zero.
    """

    way: Way
    score: float
    parts: pl.DataFrame
    rest: float
    interactions: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "way": self.way,
            "score": self.score,
            "parts": self.parts.to_dicts(),
            "rest": self.rest,
            "interactions": self.interactions,
        }


@dataclass(frozen=True, eq=False)
class Explanation:
    """A triple by names, its score (asked for the object), its plausibility (the mean of all ways)
    with the probability where the run has one, its parts for every way to ask, and the training
    triples that support it.

    facts : subject, relation, object, of (whose embedding it shapes: subject, object or both) and
    support, by which the plausibility would fall without the fact; below 0 it speaks against.
    """

    subject: str
    relation: str
    object: str
    known: bool
    score: float
    plausibility: float
    probability: float | None
    asked: Sequence[ScoreParts]
    facts: pl.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as `reltucker why --json` prints it."""
        return {
            "subject": self.subject,
            "relation": self.relation,
            "object": self.object,
            "known": self.known,
            "score": self.score,
            "plausibility": self.plausibility,
            "probability": self.probability,
            "asked": [way.to_dict() for way in self.asked],
            "facts": self.facts.to_dicts(),
        }


def explain(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    recipe: Recipe,
    triple: tuple[int, int, int],
    *,
    top: int = 10,
    calibration: Calibration | None = None,
) -> Explanation:
    """Explain a triple (i, k, j) of ids with its `top` strongest parts and facts."""
    check_count("top", top, "part")
    ids = torch.tensor([triple], device=model.E.device)
    ways: tuple[Way, ...] = ("object", "subject") if model.reciprocal else ("object",)
    asked = [score_parts(model, triple, way, top=top) for way in ways]
    i, k, j = triple
    index = graph.answers("object")
    known = index.rows(index.query_of(ids.cpu().numpy())).answers
    plausibility, probability = float(model.plausibility(ids)), None
    if calibration is not None:
        probability = float(calibration.probabilities(np.array([plausibility]), np.array([k]))[0])
    return Explanation(
        subject=graph.entities.name(i),
        relation=graph.relations.name(k),
        object=graph.entities.name(j),
        known=bool((known == j).any()),
        score=float(model.score(ids)),
        plausibility=plausibility,
        probability=probability,
        asked=asked,
        facts=supporting_facts(model, graph, recipe.train, triple, top=top),
    )


@torch.no_grad()
def score_parts(
    model: RelationalTucker, triple: tuple[int, int, int], way: Way, *, top: int
) -> ScoreParts:
    """The interactions g_abl e_ga e_hb r_l of a triple, where g is the given entity, h the one
    that is asked for, and r the relation's row: s = sum over all (a, b, l)."""
    i, k, j = triple
    is_swapped = way == "subject" and model.reciprocal
    given, other = (j, i) if is_swapped else (i, j)
    one = model.E.new_ones(1, dtype=torch.float64)
    x, y = (torch.cat([model.E[row].double(), one]) for row in (given, other))
    r = torch.cat([model.R[k + is_swapped * model.relations].double(), one])
    total, count, strongest = 0.0, 0, []
    for a, b, l, g in _interactions(model):
        parts = g * x[a] * y[b] * r[l]
        total, count = total + float(parts.sum()), count + int(torch.count_nonzero(parts))
        best = torch.topk(parts.abs(), min(top, len(parts))).indices
        strongest.append(torch.stack([*(t[best].double() for t in (a, b, l, g)), parts[best]]))
    a, b, l, g, parts = torch.cat(strongest, dim=1)
    best = torch.topk(parts.abs(), min(top, len(parts))).indices
    best = best[parts[best] != 0]
    a, b, l = (t[best].long() for t in (a, b, l))
    columns = {
        "subject_coordinate": a,
        "relation_coordinate": l,
        "object_coordinate": b,
        "subject_value": x[a],
        "core": g[best],
        "relation_value": r[l],
        "object_value": y[b],
        "part": parts[best],
    }
    if is_swapped:
        for name in ("coordinate", "value"):
            first, second = f"subject_{name}", f"object_{name}"
            columns[first], columns[second] = columns[second], columns[first]
    frame = pl.DataFrame({name: values.cpu().numpy() for name, values in columns.items()})
    coordinates = pl.col("^.*_coordinate$")
    frame = frame.with_columns(pl.when(coordinates >= 0).then(coordinates))
    return ScoreParts(way, total, frame, total - float(frame["part"].sum()), count)


def _interactions(model: RelationalTucker) -> Iterator[Interactions]:
    """All entries of the core that may not be zero, a block at a time; with batch normalisation
    those of `without_normalisation`, of which nothing larger than d_e d_r is made."""
    blocks = _entries(model)
    if model.norm is None:
        yield from blocks
        return
    s_1, t_1, s_2, t_2 = (vector.double() for vector in model.norm.affine())
    shift = t_1.new_zeros(model.core.entity_dim, model.core.relation_dim)
    for a, b, l, g in blocks:
        shift.index_put_((b, l), g * t_1[a] * s_2[b], accumulate=True)
        yield a, b, l, g * s_1[a] * s_2[b]
    b, l = torch.nonzero(shift, as_tuple=True)
    yield torch.full_like(b, -1), b, l, shift[b, l]
    b = torch.arange(len(t_2), device=t_2.device)
    yield torch.full_like(b, -1), b, torch.full_like(b, -1), t_2


def _entries(model: RelationalTucker) -> Iterator[Interactions]:
    entries = {name: part.to(model.E.device) for name, part in model.core.explicit().items()}
    if "G" not in entries:
        yield entries["i"], entries["j"], entries["l"], entries["value"].double()
        return
    core = entries["G"]
    flat, (_, d_e, d_r) = core.flatten(), core.shape
    for begin in range(0, len(flat), BLOCK):
        place = torch.arange(begin, min(begin + BLOCK, len(flat)), device=flat.device)
        values = flat[begin : begin + BLOCK].double()
        yield place // (d_e * d_r), place // d_r % d_e, place % d_r, values
