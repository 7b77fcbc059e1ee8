"""Objectives with drawn negatives.

For a triple (i, k, j), with J the drawn objects and I the drawn subjects,

    loss = -log softmax(s_ij'k : j' in {j} + J)[j] - log softmax(s_i'jk : i' in {i} + I)[i],

averaged over the triples of a batch. Negatives are drawn without replacement from the entities
that occur in train; the true entity is never among them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reltucker.graph import KnowledgeGraph
from reltucker.kernels import (
    Entries,
    Precision,
    draw_candidates,
    gradients_into,
    has_loops,
    new_scores,
    sampled_softmax,
    scatter_gradient,
    scores_into,
    shared_softmax,
)
from reltucker.model import RelationalTucker
from reltucker.training.objectives.batches import Batch, TripleBatches
from reltucker.training.objectives.entities import EntityRows
from reltucker.training.objectives.gradients import Gradient
from reltucker.training.objectives.objective import Keys, Objective

if TYPE_CHECKING:
    from reltucker.training.settings import TrainSettings


class NegativeSampling(Objective):
    """Every question has negatives of its own, as published."""

    reads = frozenset({"negatives", "shared_negatives", "answer_weights"})
    by_rows = True

    @classmethod
    def of(cls, settings: TrainSettings) -> type[Objective]:
        """With negatives of each question's own, or shared ones."""
        return SharedNegatives if settings.shared_negatives else NegativeSampling

    @classmethod
    def build(
        cls, model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
    ) -> Objective:
        """Triples, each against drawn entities."""
        batches = TripleBatches(model, graph, settings.answer_weights == "frequency")
        return cls(model, settings, batches, graph.seen_entities)

    @classmethod
    def candidates(cls, settings: TrainSettings, entities: int) -> int:
        """The answer and its negatives."""
        return 1 + settings.negatives

    @classmethod
    def drawn_share(cls, settings: TrainSettings, population: int) -> float:
        """As often as it is drawn."""
        return settings.negatives / (population - 1)

    def _entities_touched(self) -> int:
        return 2 * self.settings.batch_size * (2 + self.settings.negatives)

    def _candidates(self, batch: Batch, keys: Keys) -> Tensor:
        """For each question the answer, then its negatives: (Q, 1 + negatives)."""
        negatives = self.settings.negatives
        rows = batch.numbers[batch.own] if batch.numbers else None
        return draw_candidates(batch.answers, negatives, self.population, keys.candidates, rows)

    def _judge(
        self,
        batch: Batch,
        queries: Tensor,
        entities: EntityRows,
        answers: Tensor,
        candidates: Tensor,
    ) -> tuple[Tensor, Tensor]:
        losses, scores, dq = sampled_softmax(
            queries, entities.matrix, candidates, batch.weights, entities.pending
        )
        self._scored = candidates, scores, queries
        return losses, dq

    def _entity_gradient(self, entities: EntityRows, places: Tensor, rows: Tensor) -> Gradient:
        added, dropout, ids = (*self._scored, places, rows), entities.dropout, entities.ids
        if not has_loops(rows):
            return scatter_gradient(*added, dropout, entities.gradient)
        entries = Entries.of(*added, len(entities.matrix), dropout, ids)
        return entries if ids is None else entities.written_out(entries)


class SharedNegatives(NegativeSampling):
    """All questions of a batch have the same negatives, so that their scores are one product.

    Where a question's own answer is among them, it is left out for that question.
    """

    by_rows = False

    def _entities_touched(self) -> int:
        return 2 * self.settings.batch_size + self.settings.negatives

    def _candidates(self, batch: Batch, keys: Keys) -> Tensor:
        """The negatives of the batch: (negatives,)."""
        return draw_shared(batch, self.settings.negatives, self.population, keys)

    def _judge(
        self,
        batch: Batch,
        queries: Tensor,
        entities: EntityRows,
        answers: Tensor,
        candidates: Tensor,
    ) -> tuple[Tensor, Tensor]:
        true, others = entities.rows(answers), entities.rows(candidates)
        precision = self.settings.products
        scores = scores_into(new_scores(queries, others), queries, others, precision)
        own = (queries * true).sum(dim=1)
        losses = shared_softmax(own, scores, places_of(answers, candidates), batch.weights)
        chosen, d_others = own.unsqueeze(1), torch.empty_like(others)
        dq = gradients_into(d_others, scores, queries, others, precision)
        entities.gradient.zero_()
        entities.add(candidates, d_others)
        entities.add(answers, chosen * queries)
        return losses, dq.addcmul_(chosen, true)

    def _entity_gradient(self, entities: EntityRows, places: Tensor, rows: Tensor) -> Gradient:
        return Objective._entity_gradient(self, entities, places, rows)


def draw_shared(batch: Batch, negatives: int, population: int, keys: Keys) -> Tensor:
    """Entities for all questions of a batch (negatives,)."""
    nobody = batch.answers.new_full((1,), population)
    return draw_candidates(nobody, negatives, population, keys.candidates)[0, 1:]


def places_of(answers: Tensor, candidates: Tensor) -> Tensor:
    """Where each answer stands among the candidates, -1 if nowhere."""
    ordered, order = torch.sort(candidates)
    place = torch.searchsorted(ordered, answers).clamp_(max=len(ordered) - 1)
    return torch.where(ordered[place] == answers, order[place], -1)


def judge_sample(
    batch: Batch,
    queries: Tensor,
    entities: EntityRows,
    answers: Tensor,
    candidates: Tensor,
    population: int | None,
    precision: Precision,
) -> tuple[Tensor, Tensor]:
    """Questions with all of their answers against n drawn entities that stand for all N, or where
    there is no N, for themselves (N = n below).

    With C the drawn ones that are not answers of the question,

        loss_b = w_b mean_a (log(exp s_ba + N / n sum_(j in C) exp s_bj) - s_ba),

    so that the sum is an estimate of that over all entities. Returns the losses (Q,) and the
    gradient for the queries (Q, d_e); that for the entities is added to theirs.
    """
    others = entities.rows(candidates)  # (n, d_e)
    scores = scores_into(new_scores(queries, others), queries, others, precision)  # (Q, n)
    question = batch.questions_of_answers()  # (A,)
    place = places_of(answers, candidates)
    among = place >= 0
    scores[question[among], place[among]] = -torch.inf
    e_answers, q = entities.rows(answers), queries.index_select(0, question)  # (A, d_e)
    own = (q * e_answers).sum(dim=1)
    sums = torch.logsumexp(scores, dim=1).clamp_min(-1e30)  # (Q,); of nothing, not -inf
    wrong = sums[question] + math.log((population or len(others)) / len(others))
    total = torch.logaddexp(own, wrong)
    weights = batch.by_answer(batch.weights)
    losses = torch.zeros_like(batch.weights).index_add_(0, question, weights * (total - own))
    # An answer is pulled by w (1 - p_a); the drawn ones share the push of all answers.
    pull = weights * torch.exp(wrong - total)
    push = torch.zeros_like(batch.weights).index_add_(0, question, pull)
    scores.sub_(sums.unsqueeze(1)).exp_().mul_(push.unsqueeze(1))
    d_others = torch.empty_like(others)
    dq = gradients_into(d_others, scores, queries, others, precision)
    entities.gradient.zero_()
    entities.add(candidates, d_others)
    entities.add(answers, q.mul_(-pull.unsqueeze(1)))
    return losses, dq.index_add_(0, question, e_answers.mul_(-pull.unsqueeze(1)))
