"""What a step is about: triples with both of their questions, or distinct questions with all of
their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reltucker.graph import KnowledgeGraph
from reltucker.graph.answers import AnswerIndex
from reltucker.model import Arrangement, QueryDropout, RelationalTucker
from reltucker.peers import Peers


@dataclass(frozen=True, eq=False)
class Batch:
    """The questions of a step, in the order of their arrangement.

    given   : (Q,) the given entities
    starts  : (Q + 1,) where the answers of each question begin
    answers : the answers of all questions, ascending for each
    weights : (Q,) how much each question counts; the loss of the step is a weighted sum
    shares  : (Q,) the same for regularisers
    facts   : (F, 3) for relation prediction: subject, row of R, object

    Where several processes work on a step, each has a part of its batch:

    whole     : the batch of all of them; None where this is it
    numbers   : for each process (Q_p,) which of its questions that has
    own       : whose these are
    relations : (U,) which of its distinct relations these have
    """

    arrangement: Arrangement
    given: Tensor
    starts: Tensor
    answers: Tensor
    weights: Tensor
    shares: Tensor
    facts: Tensor
    whole: Batch | None = None
    numbers: tuple[Tensor, ...] = ()
    own: int = 0
    relations: Tensor | None = None

    def part(self, peers: Peers) -> Batch:
        """What this process has of it: of either way to ask, questions in order, and so only some
        of the relations."""
        if peers.size == 1:
            return self
        everyone = torch.arange(len(self.given), device=self.given.device)
        ways = everyone[: self.arrangement.objects], everyone[self.arrangement.objects :]
        of_each = tuple(
            torch.cat([way[peers.span(len(way), rank)] for way in ways])
            for rank in range(peers.size)
        )
        numbers = of_each[peers.rank]
        arrangement, relations = self.arrangement.part(numbers)
        counts = (self.starts[1:] - self.starts[:-1])[numbers]
        starts = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
        shift = torch.repeat_interleave(self.starts[numbers] - starts[:-1], counts)
        return Batch(
            arrangement,
            self.given[numbers],
            starts,
            self.answers[shift + torch.arange(len(shift), device=shift.device)],
            self.weights[numbers],
            self.shares[numbers],
            self.facts[peers.span(len(self.facts))],
            self,
            of_each,
            peers.rank,
            relations,
        )

    def masks(self, masks: QueryDropout) -> QueryDropout:
        """The masks of a step for this part of it."""
        if self.whole is None or self.relations is None:
            return masks
        asked, known = len(self.whole.given), len(self.whole.arrangement.relations)
        return masks.of_part(self.numbers[self.own], asked, self.relations, known)

    def asked(self) -> Batch:
        """The questions of all processes."""
        return self if self.whole is None else self.whole

    def from_all(self, rows: Tensor, peers: Peers) -> Tensor:
        """What each process has for its questions (Q_p, d), for those of all, in their order."""
        if self.whole is None:
            return rows
        joined = peers.joined(rows, [len(numbers) for numbers in self.numbers])
        return torch.empty_like(joined).index_copy_(0, torch.cat(self.numbers), joined)

    def to_own(self, rows: Tensor, peers: Peers) -> Tensor:
        """What all processes have for the questions of all (Q, d), summed, for the own ones."""
        return rows if self.whole is None else peers.total(rows)[self.numbers[self.own]]

    def questions_of_answers(self) -> Tensor:
        """The question that each answer belongs to (n,)."""
        counts = self.starts[1:] - self.starts[:-1]
        numbers = torch.arange(len(counts), device=counts.device)
        return torch.repeat_interleave(numbers, counts, output_size=len(self.answers))

    def by_answer(self, of_questions: Tensor) -> Tensor:
        """What belongs to questions (Q,), in equal parts to their answers (n,)."""
        counts = self.starts[1:] - self.starts[:-1]
        return (of_questions / counts)[self.questions_of_answers()]

    def by_relation(self, of_questions: Tensor) -> Tensor:
        """What belongs to questions (Q,), summed for each of their distinct relations (U,)."""
        index = self.arrangement.index
        total = of_questions.new_zeros(len(self.arrangement.relations))
        return total.index_add_(0, index, of_questions)


class Batches(Protocol):
    """Where batches come from."""

    def __len__(self) -> int:
        """How many items an epoch has."""

    def take(self, chosen: Tensor, generator: torch.Generator) -> Batch:
        """The batch of the items with these numbers; what is random comes from the generator."""

    def touching(self, entities: Tensor) -> Tensor:
        """The numbers of the items in which one of these entities stands."""


class TripleBatches:
    """The items are triples; each asks for its object and for its subject.

    `by_frequency`, an answer that is one for n training triples counts 0.9 n / n_max + 0.1, scaled
    so that the mean over all triples is 1.
    """

    def __init__(
        self, model: RelationalTucker, graph: KnowledgeGraph, by_frequency: bool = False
    ) -> None:
        self.model = model
        self.triples = torch.from_numpy(graph.train).to(model.E.device)
        self.answer_weights: Tensor | None = None
        if by_frequency:
            ends = self.triples[:, ::2].flatten().long()
            counts = torch.bincount(ends, minlength=len(graph.entities)).to(model.E)
            weights = 0.9 * counts / counts.max() + 0.1
            self.answer_weights = weights / weights[ends].mean()

    def __len__(self) -> int:
        return len(self.triples)

    def touching(self, entities: Tensor) -> Tensor:
        """The triples that one of these entities is an end of."""
        return torch.nonzero(torch.isin(self.triples[:, [0, 2]], entities).any(dim=1)).squeeze(1)

    def take(self, chosen: Tensor, generator: torch.Generator) -> Batch:
        """Two questions with one answer each for every triple."""
        triples = self.triples[chosen].long()
        subjects, relations, objects = triples.unbind(1)
        asks_subject = torch.arange(2 * len(triples), device=triples.device) >= len(triples)
        arrangement = self.model.arrange(torch.cat([relations, relations]), asks_subject)
        given = torch.cat([subjects, objects])[arrangement.order]
        answers = torch.cat([objects, subjects])[arrangement.order]
        starts = torch.arange(len(answers) + 1, device=answers.device)
        shares = self.model.E.new_full((len(answers),), 1.0 / len(triples))
        weights = shares if self.answer_weights is None else shares * self.answer_weights[answers]
        facts = triples
        if self.model.reciprocal:
            inverse = torch.stack([objects, relations + self.model.relations, subjects], dim=1)
            facts = torch.cat([triples, inverse])
        return Batch(arrangement, given, starts, answers, weights, shares, facts)


class QuestionBatches:
    """The items are the distinct questions of the training triples, with all of their answers.

    A question with n answers counts n^exponent: 0 lets all questions count the same, and with 1
    every triple counts the same, as in `one_vs_all`. The mean over all questions is 1. A question
    with more answers than `at_once` is asked several times, each time with that many of them.
    """

    def __init__(
        self,
        model: RelationalTucker,
        graph: KnowledgeGraph,
        exponent: float,
        at_once: int | None = None,
    ) -> None:
        self.model = model
        device = model.E.device
        entities, relations = len(graph.entities), len(graph.relations)
        for_objects = AnswerIndex.build("object", [graph.train], entities, relations)
        for_subjects = AnswerIndex.build("subject", [graph.train], entities, relations)
        keys = np.concatenate([for_objects.keys, for_subjects.keys])
        counts = np.concatenate([np.diff(for_objects.offsets), np.diff(for_subjects.offsets)])
        asks_subject = np.arange(len(keys)) >= len(for_objects.keys)
        if at_once is not None:
            times = -(-counts // at_once)
            last = counts - (times - 1) * at_once
            keys, asks_subject = np.repeat(keys, times), np.repeat(asks_subject, times)
            counts = np.full(len(keys), at_once, dtype=np.int64)
            counts[np.cumsum(times) - 1] = last
        weights = counts.astype(np.float64) ** exponent
        self.given = torch.from_numpy(keys // relations).to(device)
        self.relations = torch.from_numpy(keys % relations).to(device)
        self.asks_subject = torch.from_numpy(asks_subject).to(device)
        self.counts = torch.from_numpy(counts).to(device)
        self.starts = torch.cumsum(self.counts, 0) - self.counts
        self.answers = torch.from_numpy(
            np.concatenate([for_objects.answers, for_subjects.answers])
        ).to(device)
        self.weights = torch.from_numpy(weights / weights.mean()).to(model.E)

    def __len__(self) -> int:
        return len(self.given)

    def touching(self, entities: Tensor) -> Tensor:
        """The questions that give one of these entities, or have one as an answer."""
        touched = torch.isin(self.given, entities)
        places = torch.nonzero(torch.isin(self.answers, entities)).squeeze(1)
        touched[torch.searchsorted(self.starts, places, right=True) - 1] = True
        return torch.nonzero(touched).squeeze(1)

    def take(self, chosen: Tensor, generator: torch.Generator) -> Batch:
        """The questions with these numbers."""
        arrangement = self.model.arrange(self.relations[chosen], self.asks_subject[chosen])
        chosen = chosen[arrangement.order]
        given, counts = self.given[chosen], self.counts[chosen]
        starts = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
        total = int(starts[-1])
        shift = torch.repeat_interleave(
            self.starts[chosen] - starts[:-1], counts, output_size=total
        )
        answers = self.answers[shift + torch.arange(total, device=shift.device)].long()
        weights = self.weights[chosen] / len(chosen)
        # One of the answers, for relation prediction.
        one = (torch.rand(len(chosen), generator=generator).to(weights) * counts).long()
        asked = answers[starts[:-1] + torch.minimum(one, counts - 1)]
        rows, swapped = self.relations[chosen], self.asks_subject[chosen]
        if self.model.reciprocal:
            rows = rows + self.model.relations * swapped
            facts = torch.stack([given, rows, asked], dim=1)
        else:
            ends = torch.stack([given, rows, asked], dim=1)
            facts = torch.where(swapped.unsqueeze(1), ends.flip(1), ends)
        return Batch(arrangement, given, starts, answers, weights, weights, facts)
