"""The training objective as a function of a few rows of E, with all else fixed.

Let n be the entities whose rows are open. Of the sum over all questions b and their answers a,

    w_b / n_b (log Z_b - (1 - c) s_ba) + regulariser + relation prediction,

those are taken that give n or that n answers. Of other questions nothing is taken: who is known by
a handful of facts may well answer more than those. Z_b is the sum of exp s_bj over the answers and,
with the share with which training would draw them (1 where all are candidates), over all other
entities; where there are many, a sample stands for them. For the binary loss log(1 + exp s_bj) is
summed in place of log Z_b. There is no dropout, and normalisation is the fixed map of evaluation.
What held rows in training, beside the regulariser, was dropout and an early end; in their place,
with mean m_d and deviation v_d of coordinate d over the entities of train,

    HOLD / 2 sum_d ((e_nd - m_d) / v_d)^2.

A score is affine in a row, so that this is strictly convex in every single one of them, but for the
facts that link it with itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from reltucker.training.objectives.objective import Objective
from reltucker.training.objectives.sampled import places_of

HOLD = 0.05
"""Chosen on hidden entities of `families`, for three cores and objectives."""

CANDIDATE_NUMBERS = 4_000_000
"""How many numbers the rows of candidates, and their scores, may have; else a sample of them."""

FEWEST_CANDIDATES = 256

MOST_ITEMS = 1_000
"""Of entities that stand in more triples or questions, so many are drawn."""


class RowObjective:
    """The objective of the rows (m, d_e) that belong to `ids`; the objective's model has all else.

    facts   : (A, 3) the triple (i, k, j) of every answer a of the questions that are looked at
    is_open : (A,) whether an open row stands in that triple
    mean    : (d_e,) of the entities of train, which are the first `seen` ones
    """

    def __init__(
        self, objective: Objective, ids: Tensor, seen: int, most: int = MOST_ITEMS
    ) -> None:
        self.model, self.settings = objective.model, objective.settings
        self.regularizer, self.items = objective.regularizer, len(objective)
        generator = torch.Generator().manual_seed(self.settings.seed)
        E, R = self.model.E.detach(), self.model.R.detach()
        place = ids.new_full((len(E),), -1)
        place[ids] = torch.arange(len(ids), device=ids.device)

        touched = objective.batches.touching(ids)
        chosen = touched[_drawn(len(touched), most, generator).to(ids.device)]
        batch = objective.batches.take(chosen, generator)
        self.arrangement, self.question = batch.arrangement, batch.questions_of_answers()
        self.mixing = self.model.core.mixing(R[batch.arrangement.relations])
        # A batch has the mean over its items; what counts here is the sum over those touched.
        self.weights = len(touched) * batch.by_answer(batch.weights)
        self.shares = len(touched) * batch.by_answer(batch.shares)
        self.counts = (batch.starts[1:] - batch.starts[:-1]).to(E)[self.question]
        predicted = len(touched) * len(batch.facts) / (len(chosen) * len(batch.given))
        self.predicted = self.settings.relation_prediction * predicted / self.counts
        self.given, self.answers = place[batch.given], place[batch.answers]
        self.e_given, self.e_answers = E[batch.given], E[batch.answers]
        self.is_open = (self.given[self.question] >= 0) | (self.answers >= 0)
        self.facts = self._facts(batch.given, batch.answers)

        population = objective.population
        wanted = CANDIDATE_NUMBERS // max(E.shape[1], len(batch.given))
        drawn = _drawn(population, max(FEWEST_CANDIDATES, wanted), generator).to(ids.device)
        candidates = drawn[place[drawn] < 0]
        self.e_candidates = E[candidates]
        self.share = objective.drawn_share(self.settings, population)
        fixed = population - int((ids < population).sum())
        self.times = self.share * fixed / max(1, len(candidates))
        columns = places_of(batch.answers, candidates)
        self.hidden = self.question[columns >= 0], columns[columns >= 0]
        with torch.no_grad():
            queries = self.model.ask_mixed(self.arrangement, self.e_given, self.mixing)
            self.others = self._others(queries, self.hidden)
        # Only questions that give an open row are scored again and again.
        self.asking = torch.nonzero(self.given >= 0).squeeze(1)
        again = self.given[self.hidden[0]] >= 0
        numbers = torch.searchsorted(self.asking, self.hidden[0][again])
        self.hidden = numbers, self.hidden[1][again]
        known = candidates[candidates < seen]
        self.sum = E.sum(dim=0) - E[ids].sum(dim=0)
        self.mean, variance = E[known].mean(dim=0), E[known].var(dim=0, correction=0)
        self.hold = HOLD / (variance + 1e-3 * variance.mean() + 1e-12)

    def value(self, rows: Tensor) -> Tensor:
        """The objective of rows (m, d_e), a differentiable number."""
        decay = self.settings.weight_decay * self.items
        held = self.hold * (rows - self.mean).square() + decay * rows.square()
        return self.losses(rows).sum() + 0.5 * held.sum()

    def losses(self, rows: Tensor) -> Tensor:
        """The share of every answer in it (A,), differentiable; without what holds the rows."""
        e_given = _filled(self.e_given, rows, self.given)
        e_answers = _filled(self.e_answers, rows, self.answers)
        queries = self.model.ask_mixed(self.arrangement, e_given, self.mixing)
        others = self._others(queries[self.asking], self.hidden)
        others = self.others.index_copy(0, self.asking, others)
        question, is_row = self.question, self.answers >= 0
        s = (queries[question] * e_answers).sum(dim=1)  # (A,)
        t = queries @ rows.t()  # (Q, m); answers among them are counted apart
        t = t.index_put((question[is_row], self.answers[is_row]), t.new_tensor(-torch.inf))
        smoothing = self.settings.label_smoothing
        if self.settings.loss == "softmax":
            others = torch.logaddexp(others, torch.logsumexp(t, dim=1) + math.log(self.share))
            found = _log_sums(others, s, question)[question] - (1.0 - smoothing) * s
        else:
            sums = others + softplus(t).sum(dim=1)
            sums = sums.index_add(0, question, softplus(s))
            found = sums[question] - (1.0 - smoothing) * self.counts * s
        if smoothing:
            evenly = queries @ (self.sum + rows.sum(dim=0)) * (smoothing / len(self.model.E))
            found = found - evenly[question]
        held = self.regularizer.values(e_given, queries, e_answers, question)
        found = self.weights * found + self.shares * held
        if self.settings.relation_prediction:
            found = found + self.predicted * self._relation_losses(e_given[question], e_answers)
        return found

    def _relation_losses(self, given: Tensor, answers: Tensor) -> Tensor:
        """Cross-entropy of the relation of every answer's triple (A,)."""
        is_swapped = (self.question >= self.arrangement.objects).unsqueeze(1)
        first, second = (
            torch.where(is_swapped, *ends) for ends in ((answers, given), (given, answers))
        )
        scores = self.model.relation_queries(first, second) @ self.model.R.detach().t()
        rows = self.arrangement.relations[self.arrangement.index]
        return cross_entropy(scores, rows[self.question], reduction="none")

    def _others(self, queries: Tensor, hidden: tuple[Tensor, Tensor]) -> Tensor:
        """What candidates contribute to questions (n,); those hidden are answers."""
        scores = queries @ self.e_candidates.t()
        scores = scores.index_put(hidden, scores.new_tensor(-torch.inf))
        if self.settings.loss == "binary":
            return self.times * softplus(scores).sum(dim=1)
        sums: Tensor = torch.logsumexp(scores, dim=1).clamp_min(-1e30)
        return sums + math.log(self.times)

    def _facts(self, given: Tensor, answers: Tensor) -> Tensor:
        rows = self.arrangement.relations[self.arrangement.index]
        number = torch.arange(len(rows), device=rows.device)
        is_swapped = (number >= self.arrangement.objects) | (rows >= self.model.relations)
        ends = torch.stack([given[self.question], answers], dim=1)
        ends = torch.where(is_swapped[self.question].unsqueeze(1), ends.flip(1), ends)
        linked = (rows % self.model.relations)[self.question]
        return torch.stack([ends[:, 0], linked, ends[:, 1]], dim=1)


def _drawn(count: int, most: int, generator: torch.Generator) -> Tensor:
    """The numbers below `count`, or about `most` of them, ascending."""
    if count <= most:
        return torch.arange(count)
    drawn: Tensor = torch.unique(torch.randint(count, (most,), generator=generator))
    return drawn


def _filled(fixed: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """Rows (n, d) that are fixed but for those with a place (n,) among the open ones."""
    return torch.where((places >= 0).unsqueeze(1), rows[places.clamp_min(0)], fixed)


def _log_sums(others: Tensor, scores: Tensor, question: Tensor) -> Tensor:
    """log(exp others_b + sum over the answers of b of exp s_a): (Q,), (A,), (A,) to (Q,)."""
    largest = others.detach().scatter_reduce(0, question, scores.detach(), "amax")
    sums = (others - largest).exp().index_add(0, question, (scores - largest[question]).exp())
    total: Tensor = largest + sums.log()
    return total
