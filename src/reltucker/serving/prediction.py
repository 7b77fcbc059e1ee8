"""Ranked answers to questions such as (Alma, mother, ?), with names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from reltucker.errors import NameNotFoundError, ReltuckerError, ScoreError
from reltucker.graph import COLUMNS, Direction, KnowledgeGraph, Vocabulary
from reltucker.model import RelationalTucker

UNKNOWN = "?"
BLOCK_BYTES = 32 << 20

POSITIONS = ("subject", "relation", "object")


@dataclass(frozen=True)
class Question:
    """A triple of ids with one position asked for: direction, and the two given ids in the order
    of `COLUMNS[direction]`."""

    direction: Direction
    first: int
    second: int


def parse_question(
    graph: KnowledgeGraph, subject: str | None, relation: str | None, object_: str | None
) -> Question:
    """Names or labels to a question; `?` or None stands for what is asked for."""
    texts = [None if text in (None, UNKNOWN) else text for text in (subject, relation, object_)]
    asked = [position for position, text in enumerate(texts) if text is None]
    if len(asked) != 1:
        raise ReltuckerError(
            "ask for exactly one of subject, relation and object with '?', for example: "
            f"SUBJECT RELATION '?' (got {_spell(texts)})"
        )
    direction: Direction = POSITIONS[asked[0]]  # type: ignore[assignment]
    vocabularies = (graph.entities, graph.relations, graph.entities)
    first, second, _ = COLUMNS[direction]
    given = []
    for position in (first, second):
        text = texts[position]
        assert text is not None
        given.append(_find_seen(graph, vocabularies[position], text))
    return Question(direction, *given)


def _find_seen(graph: KnowledgeGraph, vocabulary: Vocabulary, text: str) -> int:
    """An id that the model has learned something about."""
    number = vocabulary.find(text)
    seen = graph.seen_entities if vocabulary is graph.entities else graph.seen_relations
    if number >= seen:
        raise NameNotFoundError(
            f"the {vocabulary.kind} {text!r} stands in valid or test only; nothing was learned "
            "about it, so there is nothing to predict"
        )
    return number


def _spell(texts: Sequence[str | None]) -> str:
    return " ".join(UNKNOWN if text is None else repr(text[:80]) for text in texts)


@torch.no_grad()
def answer(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    questions: Sequence[Question],
    *,
    top: int = 10,
    known: bool = False,
    held_out: bool = False,
    advance: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The `top` candidates of every question, best first.

    Candidates are the entities (or relations) that occur in train. Facts that stand in the graph
    are left out unless `known` is set; with `held_out`, facts of the test split count as unknown,
    so that one can see whether the model finds them. Columns: question (1, 2, ...), rank, subject,
    relation, object (names), answer and label of the candidate, score, known.
    """
    if top < 1:
        raise ReltuckerError(f"--top {top}: ask for at least one answer")
    frames = [_empty()]
    directions = sorted({question.direction for question in questions})
    for direction in directions:
        numbers = np.array([n for n, q in enumerate(questions) if q.direction == direction])
        pairs = np.array([(questions[n].first, questions[n].second) for n in numbers])
        size = graph.seen_relations if direction == "relation" else graph.seen_entities
        # A query over relations goes through d_e^2 products of coordinates.
        width = max(size, model.core.entity_dim**2) if direction == "relation" else size
        block = max(1, BLOCK_BYTES // (4 * width))
        for begin in range(0, len(numbers), block):
            part = slice(begin, begin + block)
            frames.append(
                _answer_block(
                    model, graph, direction, numbers[part], pairs[part], top, known, held_out
                )
            )
            if advance is not None:
                advance(len(numbers[part]))
    return pl.concat(frames).sort("question", "rank", maintain_order=True)


def _answer_block(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    direction: Direction,
    numbers: npt.NDArray[np.int64],
    pairs: npt.NDArray[np.int64],
    top: int,
    known: bool,
    held_out: bool,
) -> pl.DataFrame:
    device = model.E.device
    is_relation = direction == "relation"
    size = graph.seen_relations if is_relation else graph.seen_entities
    index = graph.answers(direction)
    facts = index.rows(index.key(pairs[:, 0], pairs[:, 1]))
    counted = (facts.answers < size) & ((facts.splits < 2) | (not held_out))
    rows, facts_of_rows = facts.rows[counted], facts.answers[counted]

    first, second = (torch.from_numpy(column).to(device) for column in pairs.T.copy())
    queries = model.queries(direction, first, second)
    scores = queries @ model.candidates(direction)[:size].t()
    if not torch.isfinite(scores).all():
        raise ScoreError("the model gives scores that are not finite numbers; train it again")
    if not known:
        scores[
            torch.from_numpy(rows).to(device), torch.from_numpy(facts_of_rows).to(device)
        ] = -torch.inf
    values, chosen = (t.cpu().numpy() for t in torch.topk(scores, min(top, size), dim=1))

    row, column = np.nonzero(np.isfinite(values))
    candidate = chosen[row, column]
    is_known = np.isin(row * size + candidate, rows * size + facts_of_rows)
    triple = np.empty((len(row), 3), dtype=np.int64)
    given_first, given_second, asked = COLUMNS[direction]
    triple[:, given_first], triple[:, given_second] = pairs[row].T
    triple[:, asked] = candidate
    vocabulary = graph.relations if is_relation else graph.entities
    return pl.DataFrame(
        {
            "question": (numbers[row] + 1).astype(np.uint32),
            "rank": (column + 1).astype(np.uint32),
            **graph.named(triple).to_dict(),
            "answer": vocabulary.names.gather(candidate),
            "label": vocabulary.shown.gather(candidate),
            "score": values[row, column],
            "known": is_known,
        }
    )


def _empty() -> pl.DataFrame:
    text = dict.fromkeys([*POSITIONS, "answer", "label"], pl.String)
    return pl.DataFrame(
        schema={
            "question": pl.UInt32,
            "rank": pl.UInt32,
            **text,
            "score": pl.Float32,
            "known": pl.Boolean,
        }
    )
