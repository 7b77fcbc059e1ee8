"""One set of triples becomes train, valid and test, so that train knows every name."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Triples = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

SHARE = 10
"""Valid and test get one triple in ten each."""

BLOCK = 1 << 20
"""Triples that are counted at a time; they may lie in a file that is larger than memory."""


def split_triples(
    triples: Triples, entities: int, relations: int, seed: int
) -> tuple[Triples, Triples, Triples]:
    """Train, valid and test (80/10/10) of distinct triples (n, 3), each in the given order.

    Every entity and relation of valid and test occurs in train; where that leaves less than a
    fifth of the triples, valid and test share what there is.
    """
    part = split_numbers(triples, entities, relations, seed)
    train, valid, test = (
        triples.take(np.flatnonzero(part == number), axis=0) for number in range(3)
    )
    return train, valid, test


def split_numbers(
    triples: Triples, entities: int, relations: int, seed: int
) -> npt.NDArray[np.uint8]:
    """For each of the triples 0, 1 or 2: whether it goes to train, valid or test."""
    order = np.random.default_rng(seed).permutation(len(triples))
    share = (len(triples) + SHARE // 2) // SHARE
    held_out = _spare(triples, order, 2 * share, entities, relations)
    if len(held_out) < 2 * share:
        in_train = np.ones(len(triples), dtype=bool)
        in_train[held_out] = False
        rest = order[in_train[order]]
        more = _spare_one_by_one(triples, rest, 2 * share - len(held_out), entities, relations)
        held_out = np.concatenate([held_out, more])
    share = min(share, len(held_out) // 2)
    part = np.zeros(len(triples), dtype=np.uint8)
    part[held_out[:share]] = 1
    part[held_out[share : 2 * share]] = 2
    return part


def _occurrences(blocks: Iterator[Triples], entities: int, relations: int) -> Counts:
    """How often each entity, and behind them each relation, occurs."""
    counts = np.zeros(entities + relations, dtype=np.int64)
    for subjects, linked, objects in (block.T for block in blocks):
        counts[:entities] += np.bincount(subjects, minlength=entities)
        counts[:entities] += np.bincount(objects, minlength=entities)
        counts[entities:] += np.bincount(linked, minlength=relations)
    return counts


def _spare(
    triples: Triples, order: npt.NDArray[np.int64], wanted: int, entities: int, relations: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, batch by batch in the given order.

    A batch gives up the triples whose names would be left even if all of the batch went.
    """

    def occurrences(triples: Triples) -> Counts:
        begins = range(0, len(triples), max(BLOCK, entities))
        parts = (triples[begin : begin + begins.step] for begin in begins)
        return _occurrences(parts, entities, relations)

    left = occurrences(triples)
    spare: list[npt.NDArray[np.int64]] = []
    start = 0
    while wanted and start < len(order):
        size = max(wanted, len(order) // 50)
        rows = order[start : start + size]
        start += size
        batch = triples.take(rows, axis=0)
        stays = left > occurrences(batch)
        free = stays[batch[:, 0]] & stays[entities:][batch[:, 1]] & stays[batch[:, 2]]
        gone = np.flatnonzero(free)[:wanted]
        left -= occurrences(batch[gone])
        spare.append(rows[gone])
        wanted -= len(gone)
    return np.concatenate([order[:0], *spare])


def _spare_one_by_one(
    triples: Triples, train: npt.NDArray[np.int64], wanted: int, entities: int, relations: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, one after the other.

    Each triple that goes changes what the next one may, hence the loop; only graphs with few
    triples for each entity come here.
    """
    left = np.zeros(entities + relations, dtype=np.int64)
    blocks = range(0, len(train), BLOCK)
    for begin in blocks:
        block = triples.take(train[begin : begin + BLOCK], axis=0)
        left += _occurrences(iter([block]), entities, relations)
        is_loop = block[:, 0] == block[:, 2]  # which has its entity once
        left[:entities] -= np.bincount(block[is_loop, 0], minlength=entities)
    counts = left.data  # quicker than an array where entries are taken one by one
    removed: list[int] = []
    for begin in blocks:
        rows = train[begin : begin + BLOCK]
        names = triples.take(rows, axis=0) + np.array([0, entities, 0])
        for triple, (s, r, o) in zip(rows.tolist(), names.tolist(), strict=True):
            if len(removed) == wanted:
                return np.array(removed, dtype=np.int64)
            if counts[s] > 1 and counts[r] > 1 and counts[o] > 1:
                for name in {s, r, o}:
                    counts[name] -= 1
                removed.append(triple)
    return np.array(removed, dtype=np.int64)
