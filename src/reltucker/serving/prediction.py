"""Ranked answers to questions such as (Alma, mother, ?), with names."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import polars as pl
import torch

from reltucker.arguments import check_count
from reltucker.errors import ReltuckerError, ScoreError
from reltucker.evaluation import Calibration
from reltucker.graph import (
    COLUMNS,
    Direction,
    KnowledgeGraph,
    TripleSource,
    frame_of,
    read_names,
)
from reltucker.kernels import new_scores, scores_into
from reltucker.model import RelationalTucker
from reltucker.peers import ALONE
from reltucker.serving.candidates import Limits, located
from reltucker.serving.naming import POSITIONS, find_id
from reltucker.serving.scoring import probabilities

UNKNOWN = "?"
BLOCK_BYTES = 32 << 20
FEWEST = 16
"""So many questions are asked at once at the least, that a large E is not read for each."""
NO_LIMITS = Limits()

SCHEMA = {
    "question": pl.UInt32,
    "rank": pl.UInt32,
    **dict.fromkeys([*POSITIONS, "answer", "label"], pl.String),
    "score": pl.Float32,
    "probability": pl.Float64,
    "known": pl.Boolean,
}


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
    texts = [UNKNOWN if text is None else text for text in (subject, relation, object_)]
    asked = [isinstance(text, str) and text == UNKNOWN for text in texts]
    if sum(asked) != 1:
        got = " ".join(UNKNOWN if text == UNKNOWN else repr(str(text)[:80]) for text in texts)
        raise ReltuckerError(
            "ask for exactly one of subject, relation and object with '?', for example: "
            f"SUBJECT RELATION '?' (got {got}); `score` judges whole triples"
        )
    direction = POSITIONS[asked.index(True)]
    first, second = (
        find_id(graph, POSITIONS[position], texts[position]) for position in COLUMNS[direction][:2]
    )
    return Question(direction, first, second)


def parse_questions(graph: KnowledgeGraph, questions: TripleSource) -> list[Question]:
    """Questions of rows (subject, relation, object) one by one, of a polars or pandas frame, or of
    a file. In a frame, null stands for what is asked for too, and a missing column for it in every
    row."""
    parsed: list[Question] = []
    for number, row in enumerate(_rows(questions), start=1):
        try:
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
                raise ReltuckerError(
                    f"give (subject, relation, object), one of them '?', not {str(row)[:80]!r}"
                )
            parsed.append(parse_question(graph, *row))
        except ReltuckerError as error:
            raise type(error)(f"question {number}: {error}") from None
    return parsed


def _rows(questions: TripleSource) -> Iterable[Any]:
    if isinstance(questions, str | PathLike):
        return read_names(questions).iter_rows()
    frame = frame_of(questions, "the given questions")
    if frame is None:
        return questions.tolist() if isinstance(questions, np.ndarray) else questions
    missing = set(POSITIONS) - {column.lower() for column in frame.columns}
    if len(missing) == 1:
        frame = frame.with_columns(pl.lit(UNKNOWN).alias(missing.pop()))
    asked = [c for c in frame.columns if frame[c].null_count() and not frame[c].dtype.is_nested()]
    frame = frame.with_columns(pl.col(asked).cast(pl.String).fill_null(UNKNOWN))
    return read_names(frame).iter_rows()


def sort_out(
    graph: KnowledgeGraph, questions: Sequence[Sequence[str | None]]
) -> tuple[list[int], list[dict[str, Any]]]:
    """The numbers (1, 2, ...) of the questions that can be asked; and of each other one the number,
    its three parts and, as `error`, why it cannot. Refused where none can."""
    numbers: list[int] = []
    failed: list[dict[str, Any]] = []
    for number, question in enumerate(questions, start=1):
        try:
            parse_question(graph, *question)
            numbers.append(number)
        except ReltuckerError as error:
            parts: dict[str, Any] = dict(zip(POSITIONS, question, strict=True))
            failed.append({"question": number, **parts, "error": str(error)})
    if failed and not numbers:
        first = f"question {failed[0]['question']}: {failed[0]['error']}"
        all_of_them = f"none of the {len(failed):,} questions can be asked; "
        raise ReltuckerError(f"{all_of_them if len(failed) > 1 else ''}{first}")
    return numbers, failed


@torch.no_grad()
def answer(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    questions: Sequence[Question],
    *,
    top: int = 10,
    known: bool = False,
    held_out: bool = False,
    limits: Limits = NO_LIMITS,
    calibration: Calibration | None = None,
    advance: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The `top` candidates of every question, best first.

    Candidates are the entities (or relations) that occur in train, within the limits. Facts that
    stand in the graph are left out unless `known` is set; with `held_out`, facts of the test split
    count as unknown, so that one can see whether the model finds them. Columns: question (1, 2,
    ...), rank, subject, relation, object (names), answer and label of the candidate, score,
    probability (null without a calibration), known.
    """
    check_count("top", top, "answer")
    frames = [pl.DataFrame(schema=SCHEMA)]
    device = model.E.device
    for direction in sorted({question.direction for question in questions}):
        is_relation = direction == "relation"
        vocabulary = graph.relations if is_relation else graph.entities
        size = graph.seen_relations if is_relation else graph.seen_entities
        ids = limits.candidates(graph, direction)
        most = min(top, len(ids))
        # R is with every process, so that each answers for itself.
        peers = ALONE if is_relation else model.peers
        if not is_relation:
            ids = model.own(ids)
        # Few candidates are gathered, so that the product is as small as their number.
        columns = torch.from_numpy(ids).to(device)
        first_id = 0 if is_relation else model.first
        table = model.candidates(direction)[: max(0, size - first_id)]
        table = table if len(ids) == len(table) else table[columns - first_id]
        index = graph.answers(direction)
        asked_here = np.array([n for n, q in enumerate(questions) if q.direction == direction])
        # A query over relations goes through d_e^2 products of coordinates.
        width = max(len(ids), model.core.entity_dim ** (2 if is_relation else 1))
        block = max(FEWEST, BLOCK_BYTES // (4 * width))
        for number in range(0, len(asked_here), block):
            numbers = asked_here[number : number + block]
            pairs = np.array([(questions[n].first, questions[n].second) for n in numbers])
            facts = index.rows(index.key(pairs[:, 0], pairs[:, 1]))
            counted = (facts.answers < size) & ((facts.splits < 2) | (not held_out))
            fact_rows, fact_answers = facts.rows[counted], facts.answers[counted]

            first, second = (torch.from_numpy(column).to(device) for column in pairs.T.copy())
            queries = model.queries(direction, first, second)
            scores = scores_into(new_scores(queries, table), queries, table)
            if not torch.isfinite(scores).all():
                scores.fill_(torch.nan)  # which every process gets to see
            if not known:
                places, found = located(ids, fact_answers)
                scores[fact_rows[found], places[found]] = -torch.inf
            if limits.in_range:
                relations, places = np.unique(pairs[:, 1], return_inverse=True)
                outside = limits.outside(graph, direction, relations, ids)
                scores.masked_fill_(torch.from_numpy(outside[places]).to(device), -torch.inf)
            values, chosen = (t.cpu().numpy() for t in peers.best(scores, columns, most))
            if np.isnan(values).any():
                raise ScoreError(
                    "the model gives scores that are not finite numbers; train it again"
                )

            row, column = np.nonzero(np.isfinite(values))
            candidate = chosen[row, column]
            triples = np.empty((len(row), 3), dtype=np.int64)
            triples[:, COLUMNS[direction]] = np.column_stack([pairs[row], candidate])
            frame = {
                "question": numbers[row] + 1,
                "rank": column + 1,
                **graph.named(triples).to_dict(),
                "answer": vocabulary.names.gather(candidate),
                "label": vocabulary.shown.gather(candidate),
                "score": values[row, column],
                "probability": probabilities(calibration, model, triples),
                "known": np.isin(row * size + candidate, fact_rows * size + fact_answers),
            }
            frames.append(pl.DataFrame(frame, schema_overrides=SCHEMA))
            if advance is not None:
                advance(len(numbers))
    return pl.concat(frames).sort("question", "rank", maintain_order=True)
