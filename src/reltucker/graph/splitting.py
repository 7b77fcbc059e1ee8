"""One set of triples becomes train, valid and test, so that train knows every name."""

import numpy as np
import numpy.typing as npt

Triples = npt.NDArray[np.int32]

SHARE = 10
"""Valid and test get one triple in ten each."""

BLOCK = 2**18
"""Ids that are counted at a time: what a processor's cache holds."""


def split_triples(
    triples: Triples, entities: int, relations: int, seed: int
) -> tuple[Triples, Triples, Triples]:
    """Train, valid and test (80/10/10) of distinct triples (n, 3), each in the given order.

    Every entity and relation of valid and test occurs in train; where that leaves less than a
    fifth of the triples, valid and test share what there is.
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    share = (len(triples) + SHARE // 2) // SHARE
    held_out = _spare(triples, order, 2 * share, entities, relations)
    if len(held_out) < 2 * share:
        in_train = np.ones(len(triples), dtype=bool)
        in_train[held_out] = False
        more = _spare_one_by_one(triples, order[in_train[order]], 2 * share - len(held_out))
        held_out = np.concatenate([held_out, more])
    share = min(share, len(held_out) // 2)
    part = np.zeros(len(triples), dtype=np.uint8)
    part[held_out[:share]] = 1
    part[held_out[share : 2 * share]] = 2
    train, valid, test = (_rows(triples, np.flatnonzero(part == number)) for number in range(3))
    return train, valid, test


def _spare(
    triples: Triples, order: npt.NDArray[np.int64], wanted: int, entities: int, relations: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, batch by batch in the given order.

    A batch gives up the triples whose names would be left even if all of the batch went.
    """
    of_entity = _occurrences(triples[:, 0], entities) + _occurrences(triples[:, 2], entities)
    of_relation = _occurrences(triples[:, 1], relations)
    spare: list[npt.NDArray[np.int64]] = []
    start = 0
    while wanted and start < len(order):
        size = max(wanted, len(order) // 50)
        rows = order[start : start + size]
        start += size
        batch = _rows(triples, rows)
        subjects, kinds, objects = batch[:, 0], batch[:, 1], batch[:, 2]
        entity_left = of_entity - _occurrences(subjects, entities)
        entity_left -= _occurrences(objects, entities)
        relation_left = of_relation - _occurrences(kinds, relations)
        free = (entity_left > 0)[subjects] & (entity_left > 0)[objects]
        free &= (relation_left > 0)[kinds]
        gone = np.flatnonzero(free)[:wanted]
        of_entity -= _occurrences(subjects[gone], entities)
        of_entity -= _occurrences(objects[gone], entities)
        of_relation -= _occurrences(kinds[gone], relations)
        spare.append(rows[gone])
        wanted -= len(gone)
    return np.concatenate([order[:0], *spare])


def _occurrences(ids: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.int64]:
    """How often each id occurs, in blocks, for bincount would copy all ids to 64 bits first."""
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(ids), BLOCK):
        np.add.at(counts, ids[start : start + BLOCK].astype(np.intp), 1)
    return counts


def _rows(triples: Triples, rows: npt.NDArray[np.int64]) -> Triples:
    """Some rows; as one value for each row, for numpy moves those twice as fast as three."""
    whole = np.ascontiguousarray(triples).view("V12")
    return whole.reshape(-1).take(rows).view(np.int32).reshape(-1, 3)


def _spare_one_by_one(
    triples: Triples, train: npt.NDArray[np.int64], wanted: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, one after the other.

    Each triple that goes changes what the next one may, hence the loop; only graphs with few
    triples for each entity come here.
    """
    subjects, relations, objects = (triples[train, column].tolist() for column in range(3))
    of_entity: dict[int, int] = {}
    of_relation: dict[int, int] = {}
    for s, r, o in zip(subjects, relations, objects, strict=True):
        of_relation[r] = of_relation.get(r, 0) + 1
        for entity in {s, o}:
            of_entity[entity] = of_entity.get(entity, 0) + 1
    removed: list[int] = []
    for triple, s, r, o in zip(train.tolist(), subjects, relations, objects, strict=True):
        if len(removed) == wanted:
            break
        if of_relation[r] > 1 and of_entity[s] > 1 and of_entity[o] > 1:
            of_relation[r] -= 1
            for entity in {s, o}:
                of_entity[entity] -= 1
            removed.append(triple)
    return np.array(removed, dtype=np.int64)
