"""One set of triples becomes train, valid and test, so that train knows every name."""

from collections import Counter
from itertools import chain

import numpy as np
import numpy.typing as npt

Triples = npt.NDArray[np.int32]

SHARE = 10
"""Valid and test get one triple in ten each."""


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
    train, valid, test = (
        triples.take(np.flatnonzero(part == number), axis=0) for number in range(3)
    )
    return train, valid, test


def _spare(
    triples: Triples, order: npt.NDArray[np.int64], wanted: int, entities: int, relations: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, batch by batch in the given order.

    A batch gives up the triples whose names would be left even if all of the batch went.
    """

    def occurrences(triples: Triples) -> npt.NDArray[np.int64]:
        """How often each entity, and behind them each relation, occurs."""
        subjects, linked, objects = triples.T
        counts = np.bincount(subjects, minlength=entities)
        counts += np.bincount(objects, minlength=entities)
        return np.concatenate([counts, np.bincount(linked, minlength=relations)])

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
    triples: Triples, train: npt.NDArray[np.int64], wanted: int
) -> npt.NDArray[np.int64]:
    """Up to `wanted` triples that train can do without, one after the other.

    Each triple that goes changes what the next one may, hence the loop; only graphs with few
    triples for each entity come here.
    """
    # A relation is counted under the complement of its id, which is no id of an entity.
    names = [column.tolist() for column in (triples[train] ^ np.array([0, -1, 0], np.int32)).T]
    left = Counter(chain.from_iterable(map(set, zip(*names, strict=True))))
    removed: list[int] = []
    for triple, s, r, o in zip(train.tolist(), *names, strict=True):
        if len(removed) == wanted:
            break
        if left[s] > 1 and left[r] > 1 and left[o] > 1:
            left.subtract({s, r, o})
            removed.append(triple)
    return np.array(removed, dtype=np.int64)
