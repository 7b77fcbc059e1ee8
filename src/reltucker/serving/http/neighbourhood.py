"""What is around an entity: facts that the graph holds, and new ones that the model predicts."""

import numpy as np
import numpy.typing as npt

from reltucker.graph import COLUMNS, Direction
from reltucker.serving.http.predictor import Options, Predictor, Row
from reltucker.serving.naming import find_id
from reltucker.serving.prediction import Question

SIDES: tuple[Direction, Direction] = ("object", "subject")
ASKED = 20
"""Relations, the most frequent around the entity, that new facts are asked for, on either side."""


def neighbourhood(run: Predictor, name: str, known: int, predicted: int) -> Row:
    """At most so many facts of either kind; known ones of many relations rather than of one."""
    graph = run.graph
    entity = find_id(graph, "subject", name)
    found, questions = [], []
    for direction in SIDES:
        triples = _facts(run, entity, direction)
        found.append(triples)
        relations, counts = np.unique(triples[:, 1], return_counts=True)
        counts[relations >= graph.seen_relations] = 0
        frequent = np.argsort(-counts, kind="stable")[: min(ASKED, np.count_nonzero(counts))]
        questions += [Question(direction, entity, int(k)) for k in relations[frequent]]
    facts = np.unique(np.concatenate(found), axis=0)
    shown = facts[np.argsort(_within(facts[:, 1]), kind="stable")[:known]]
    new: list[Row] = []
    if predicted and questions:
        answers = run.answers(questions, Options(top=3, in_range=True))
        new = sorted((a for some in answers for a in some), key=_order)
        new = list({(a["subject"], a["relation"], a["object"]): a for a in new}.values())
    return {
        "name": run.entities.name(entity),
        "label": run.entities.label(entity),
        "facts": len(facts),
        "known": [_labelled(run, *triple) for triple in graph.named(shown).iter_rows()],
        "predicted": [
            {
                **_labelled(run, a["subject"], a["relation"], a["object"]),
                "score": a["score"],
                "probability": a["probability"],
            }
            for a in new[:predicted]
        ],
    }


def _order(answer: Row) -> tuple[float, float]:
    """Most probable first; scores of several relations are compared where nothing else is there."""
    return -(answer["probability"] or 0.0), -answer["score"]


def _facts(run: Predictor, entity: int, direction: Direction) -> npt.NDArray[np.int64]:
    """The facts (n, 3) with the entity as subject (asking for objects) or as object."""
    index = run.graph.answers(direction)
    begin, end = np.searchsorted(index.keys, [entity * index.width, (entity + 1) * index.width])
    counts = np.diff(index.offsets[begin : end + 1])
    triples = np.empty((int(counts.sum()), 3), dtype=np.int64)
    first, second, answer = COLUMNS[direction]
    triples[:, first] = entity
    triples[:, second] = np.repeat(index.keys[begin:end] % index.width, counts)
    triples[:, answer] = index.answers[index.offsets[begin] : index.offsets[end]]
    return triples


def _within(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each entry, how many of its group stand before it."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(groups)))
    within = np.empty(len(groups), dtype=np.int64)
    within[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return within


def _labelled(run: Predictor, subject: str, relation: str, object_: str) -> Row:
    names = {"subject": subject, "relation": relation, "object": object_}
    row: Row = {}
    for position, name in names.items():
        vocabulary = run.vocabulary("relation" if position == "relation" else "entity")
        row |= {position: name, f"{position}_label": vocabulary.label(vocabulary.find(name))}
    return row
