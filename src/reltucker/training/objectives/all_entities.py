"""Objectives over all entities: `one_vs_all` and `k_vs_all`.

The equations of the losses are those of `reltucker.kernels.losses`. The first objective asks both
questions of each triple with one answer; the second asks each distinct question once with all of
its answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.kernels import (
    RowSums,
    Targets,
    add_to_sums,
    binary_gradient,
    gradients_into,
    padded,
    score_rows,
    scores_into,
    softmax_gradient,
)
from reltucker.model import RelationalTucker
from reltucker.training.objectives.batches import Batch, Batches, QuestionBatches, TripleBatches
from reltucker.training.objectives.entities import EntityRows
from reltucker.training.objectives.objective import Keys, Objective
from reltucker.training.objectives.sampled import draw_shared, judge_sample

if TYPE_CHECKING:
    from reltucker.training.settings import TrainSettings


class OneVsAll(Objective):
    """Softmax or binary cross-entropy over the scores of all entities of the graph.

    Those that never occur in train are candidates too: they are only pushed away, and else their
    scores near 0 would outrank true answers.

    No more than one block of scores is held. Where all of them fit into `train.score_megabytes`,
    there is one block; softmax over several computes each twice, first for the sums over a row.

    In the first `sampled_epochs` epochs the entities that a batch is compared with are a sample of
    `negatives`, drawn anew for each batch, in place of all (`sampled.judge_sample`): a fraction of
    the work, while embeddings are far from where they will be. Labels are smoothed in the others
    alone.
    """

    reads = frozenset(
        {
            "loss",
            "label_smoothing",
            "score_megabytes",
            "answer_weights",
            "negatives",
            "sampled_epochs",
            "sampled_weights",
        }
    )

    @classmethod
    def build(
        cls, model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
    ) -> Objective:
        """Triples, each against all entities."""
        batches = TripleBatches(model, graph, settings.answer_weights == "frequency")
        return cls(model, settings, batches, len(graph.entities))

    def __init__(
        self, model: RelationalTucker, settings: TrainSettings, batches: Batches, population: int
    ) -> None:
        super().__init__(model, settings, batches, population)
        self._scores = model.E.new_empty(0)
        self._whole = self.table
        answers = 2 if self.items == "triples" else 1 + (settings.answers_at_once or 1)
        questions = settings.batch_size * (2 if self.items == "triples" else 1)
        self._sampled = self._table_for(settings.negatives + questions * answers)
        self.begin_epoch(1)

    @classmethod
    def check(cls, settings: TrainSettings) -> None:
        """A sample stands for the sum of softmax."""
        if settings.sampled_epochs:
            _softmax_only(settings, "sampled_epochs")

    @classmethod
    def candidates(cls, settings: TrainSettings, entities: int) -> int:
        """Those of most epochs."""
        sampled = 2 * settings.sampled_epochs > settings.epochs
        return settings.negatives if sampled else entities

    def begin_epoch(self, epoch: int) -> None:
        """Whether this one draws a sample."""
        self.is_sampled = epoch <= self.settings.sampled_epochs
        self.table = self._sampled if self.is_sampled else self._whole

    def _entities_touched(self) -> int:
        return self.model.entities

    def _candidates(self, batch: Batch, keys: Keys) -> Tensor:
        if not self.is_sampled:
            return batch.answers[:0]
        return draw_shared(batch, self.settings.negatives, self.population, keys)

    def _judge(
        self,
        batch: Batch,
        queries: Tensor,
        entities: EntityRows,
        answers: Tensor,
        candidates: Tensor,
    ) -> tuple[Tensor, Tensor]:
        precision = self.settings.products
        if self.is_sampled:
            stands_for = self.population if self.settings.sampled_weights == "all" else None
            return judge_sample(
                batch, queries, entities, answers, candidates, stands_for, precision
            )
        # Every process scores the entities that it holds, for the questions of all.
        asked, queries = batch.asked(), batch.from_all(queries, self.peers)
        (E, gradient, first), smoothing = entities.scored(), self.settings.label_smoothing
        targets = Targets(asked.starts, asked.answers, asked.weights, smoothing, self.population)
        losses = torch.zeros(len(queries), dtype=torch.float64, device=queries.device)
        sums, (buffer, width) = RowSums.of(queries), self._buffer(queries, len(E))
        blocks = [slice(begin, min(begin + width, len(E))) for begin in range(0, len(E), width)]

        def scores_of(block: slice) -> Tensor:
            part = score_rows(buffer, len(queries), block.stop - block.start)
            return scores_into(part, queries, E[block], precision)

        softmax = self.settings.loss == "softmax"
        known = softmax and (len(blocks) > 1 or self.peers.size > 1)
        scores = scores_of(blocks[0]) if len(blocks) == 1 else None
        if known:
            for block in blocks:
                add_to_sums(scores_of(block) if scores is None else scores, sums)
            sums = self._sums_of_all(sums)
        dq = torch.zeros_like(queries)
        for block in blocks:
            part = scores_of(block) if scores is None else scores  # and then their gradient
            ids = slice(first + block.start, first + block.stop)
            if softmax:
                softmax_gradient(part, ids, targets, sums, losses, known)
            else:
                binary_gradient(part, ids, targets, losses)
            dq += gradients_into(gradient[block], part, queries, E[block], precision)
        if softmax and self.peers.rank == 0:
            losses += asked.weights.double() * sums.logarithms()
        return losses, batch.to_own(dq, self.peers)

    def _sums_of_all(self, sums: RowSums) -> RowSums:
        """The sums over the entities of all processes."""
        if self.peers.size == 1:
            return sums
        own = torch.stack([sums.largest, sums.total]).unsqueeze(0)
        largest, total = self.peers.joined(own, [1] * self.peers.size).unbind(1)  # (P, Q) each
        greatest = largest.amax(dim=0)
        return RowSums(greatest, (total * (largest - greatest).exp()).sum(dim=0))

    def _buffer(self, queries: Tensor, entities: int) -> tuple[Tensor, int]:
        """For a block of scores, which lives as long as the run, and how many entities it takes."""
        limit = int(self.settings.score_megabytes * 2**20) // queries.element_size()
        width = max(1, min(entities, limit // len(queries)))
        size = len(queries) * padded(width)
        if len(self._scores) < size:
            self._scores = queries.new_empty(size)
        return self._scores, width


class KvsAll(OneVsAll):
    """The same over distinct questions, each with all of its answers."""

    reads = (OneVsAll.reads - {"answer_weights"}) | {"answer_exponent", "answers_at_once"}
    items = "questions"

    @classmethod
    def build(
        cls, model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
    ) -> Objective:
        """Questions, each with its answers against all entities."""
        exponent, at_once = settings.answer_exponent, settings.answers_at_once
        at_once = None if at_once is None else min(at_once, len(graph.entities))
        batches = QuestionBatches(model, graph, exponent, at_once)
        return cls(model, settings, batches, len(graph.entities))

    @classmethod
    def check(cls, settings: TrainSettings) -> None:
        """Answers can be taken apart for softmax only: for binary all others are wrong."""
        super().check(settings)
        if settings.answers_at_once:
            _softmax_only(settings, "answers_at_once")


def _softmax_only(settings: TrainSettings, key: str) -> None:
    if settings.loss != "softmax":
        raise RecipeError(
            f"train.{key} = {getattr(settings, key)}: it is for train.loss = 'softmax'; "
            "leave it out"
        )
