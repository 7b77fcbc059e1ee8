"""Which known facts support a triple: influence by one refitted embedding row.

The plausibility p of a triple (i, k, j) is linear in e_i, and in e_j. Let L be the training
objective of such a row, all else fixed (`training.objectives.rows`), and the row refitted by it.
With H the second derivative of L there, and l_f the share of fact f in L, to leave f out moves the
row by one Newton step H^-1 grad l_f, hence

    support of f = p - p without f = - u^T H^-1 grad l_f,  u = grad p,

where v = H^-1 u is solved once, by conjugate gradients, for all facts of the row. Derivatives
along v are differences, so that nothing is asked of a core but its queries.
"""

from collections.abc import Callable

import polars as pl
import torch
from torch import Tensor

from reltucker.graph import KnowledgeGraph
from reltucker.model import Arrangement, RelationalTucker
from reltucker.training import RowObjective, TrainSettings, solve

STEPS = 20
"""Of conjugate gradients, at the most."""

FACTS, FACT_NUMBERS = (100, 1_000), 200_000
"""Of an entity in more facts, so many are drawn as their rows have this many numbers, but at least
and at most these: somebody waits for the answer."""

SMALL = 3e-3
"""How far a row is moved for a difference, relative to its length."""


def supporting_facts(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    settings: TrainSettings,
    triple: tuple[int, int, int],
    *,
    top: int,
) -> pl.DataFrame:
    """The `top` training triples with the largest influence on a triple of ids, by names: subject,
    relation, object, of (the entity whose row they move: subject, object or both), support."""
    objective = settings.objective_class.build(model, settings, graph)
    i, _, j = triple
    most = min(max(FACTS[0], FACT_NUMBERS // model.core.entity_dim), FACTS[1])
    frames = []
    for entity, u in slopes(model, triple).items():
        ids = torch.tensor([entity], device=u.device)
        row = RowObjective(objective, ids, graph.seen_entities, most)
        facts, support = influences(row, solve(row, model.E.detach()[entity][None]), u[None])
        frames.append(
            pl.DataFrame(facts.cpu().numpy(), ["i", "k", "j"], orient="row").with_columns(
                pl.Series("support", support.double().cpu().numpy()),
                of=pl.lit("both" if i == j else "subject" if entity == i else "object"),
            )
        )
    of = pl.when(pl.len() > 1).then(pl.lit("both")).otherwise(pl.col("of").first())
    found = (
        pl.concat(frames)
        .group_by("i", "k", "j", maintain_order=True)
        .agg(of.alias("of"), pl.col("support").sum())
        .sort(pl.col("support").abs(), descending=True, maintain_order=True)
        .head(top)
    )
    names = graph.named(found.select("i", "k", "j").to_numpy())
    return names.with_columns(found["of"], found["support"])


def slopes(model: RelationalTucker, triple: tuple[int, int, int]) -> dict[int, Tensor]:
    """The derivative of a triple's plausibility by the row (d_e,) of each of its entities."""
    i, k, j = triple
    ends = list(dict.fromkeys([i, j]))
    rows = model.E.detach()[ends].requires_grad_()
    ways = [(rows[:1], k, rows[-1])]
    if model.reciprocal:
        ways.append((rows[-1:], k + model.relations, rows[0]))
    total = rows.new_zeros(())
    for given, relation, other in ways:
        asked = torch.tensor([relation], device=rows.device)
        arrangement = Arrangement.of(asked, torch.zeros_like(asked, dtype=torch.bool), len(model.R))
        query = model.ask(arrangement, given, model.R.detach()[asked])
        total = total + (query[0] * other).sum() / len(ways)
    (found,) = torch.autograd.grad(total, rows)
    return dict(zip(ends, found, strict=True))


def influences(objective: RowObjective, row: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The facts (F, 3) of a row (1, d_e) and what each adds (F,) to a quantity of this slope
    (1, d_e)."""

    def gradient(at: Tensor) -> Tensor:
        at = at.detach().requires_grad_()
        (found,) = torch.autograd.grad(objective.value(at), at)
        return found

    def difference(of: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
        h = SMALL * row.norm().clamp_min(1e-6) / v.norm().clamp_min(1e-30)
        found: Tensor = (of(row + h * v) - of(row - h * v)) / (2 * h)
        return found

    v = _solved(lambda direction: difference(gradient, direction), slope)
    with torch.no_grad():
        support = -difference(objective.losses, v)[objective.is_open]
    facts, place = torch.unique(objective.facts[objective.is_open], dim=0, return_inverse=True)
    return facts, support.new_zeros(len(facts)).index_add_(0, place, support)


def _solved(product: Callable[[Tensor], Tensor], wanted: Tensor) -> Tensor:
    """x with product(x) = wanted, nearly, by conjugate gradients."""
    x, rest = torch.zeros_like(wanted), wanted.clone()
    direction, size = rest, rest.square().sum()
    enough = 1e-6 * size
    for _ in range(STEPS):
        if size <= enough:
            break
        changed = product(direction)
        curvature = (direction * changed).sum()
        if curvature <= 0:
            break
        step = size / curvature
        x, rest = x + step * direction, rest - step * changed
        size, before = rest.square().sum(), size
        direction = rest + size / before * direction
    return x
