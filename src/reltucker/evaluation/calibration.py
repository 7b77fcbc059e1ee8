"""Probabilities: how often triples of such a plausibility are true."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from reltucker.atomic import read_json, write_json
from reltucker.checksums import signed, unsigned
from reltucker.errors import ReltuckerError, RunError
from reltucker.evaluation.corruption import corrupt
from reltucker.evaluation.curves import (
    METHODS,
    Bools,
    Curve,
    Fit,
    Floats,
    Isotonic,
    Platt,
    Reliability,
    Share,
    Stored,
    best_threshold,
    log_loss,
)
from reltucker.evaluation.plausibility import plausibilities
from reltucker.evaluation.ranking import sampled
from reltucker.graph import IntArray, KnowledgeGraph, SplitName
from reltucker.model import RelationalTucker
from reltucker.progress import track

CALIBRATION = "calibration.json"
"""The file of a run."""
FEWEST = 10
"""With fewer triples there are no probabilities."""
ENOUGH = 50
"""So many triples of a relation may have a curve of their own."""
MOST, LEAST = 5_000, 500
"""Of more triples than MOST, so many are drawn; fewer where questions about them would take more
than WORK multiplications, but not fewer than LEAST."""
WORK = 2e12
FOLDS = 5

Ids = npt.NDArray[np.int64]


class RelationCalibration(Stored):
    """What a relation with enough triples has of its own."""

    triples: int = Field(ge=1)
    curve: Curve | None
    """None where the common curve is the better one."""
    threshold: Share


class Calibration(Stored):
    """Curves from the plausibility of a triple to its probability: one for each relation of
    `relations`, by id, that has its own, and one for all others.

    reliability is that of probabilities for triples which the curves were not fitted to: those of
    each fold by curves of the other folds. A triple whose probability reaches the threshold is
    taken to be true.
    """

    split: SplitName
    triples: int = Field(ge=1)
    corrupted: int = Field(ge=1)
    curve: Curve
    threshold: Share
    relations: dict[int, RelationCalibration]
    reliability: Reliability

    def probabilities(self, plausibilities: Floats, relations: IntArray) -> Floats:
        """Plausibilities (n,) and ids of relations (n,) to probabilities (n,)."""
        found = self.curve(plausibilities)
        for relation in np.unique(relations).tolist():
            own = self.relations.get(relation)
            if own is not None and own.curve is not None:
                rows = relations == relation
                found[rows] = own.curve(plausibilities[rows])
        return found

    def thresholds(self, relations: IntArray) -> Floats:
        """Ids of relations (n,) to their thresholds (n,)."""
        distinct, places = np.unique(relations, return_inverse=True)
        own = [self.relations.get(relation) for relation in distinct.tolist()]
        found = [self.threshold if each is None else each.threshold for each in own]
        return np.asarray(found, dtype=np.float64)[places]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return self.model_dump(mode="json")

    def save(self, folder: Path) -> None:
        """Write the file of a run folder."""
        write_json(folder / CALIBRATION, signed(self.to_dict()))

    @classmethod
    def load(cls, folder: Path) -> "Calibration | None":
        """The inverse of `save`; None where there is no file, and a damaged one is named."""
        path = folder / CALIBRATION
        try:
            return cls.model_validate(unsigned(read_json(path)))
        except FileNotFoundError:
            return None
        except ValidationError as cause:
            first = cause.errors()[0]
            place = ".".join(map(str, first["loc"]))
            reason = f"{place}: {first['msg']}" if place else first["msg"]
        except OSError as cause:
            reason = str(cause.strerror)
        except ValueError as cause:
            reason = str(cause)
        raise RunError(
            f"{path} is damaged ({reason}); make it again with `reltucker calibrate {folder}`"
        )


def calibrate(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    split: SplitName = "valid",
    *,
    progress: bool = False,
) -> Calibration:
    """Fit probabilities on the split's triples, beside corrupted ones (see `corruption`)."""
    triples = judged_of(graph, split)
    if len(triples) < FEWEST:
        raise ReltuckerError(
            f"split {split} has {len(triples)} triples whose names are all in train; probabilities "
            f"need at least {FEWEST}"
        )
    most = int(np.clip(WORK / (2 * graph.seen_entities * model.core.entity_dim), LEAST, MOST))
    triples = sampled(triples, most)
    with track("calibrating", 2 * len(triples), "queries", progress) as advance:
        judged = corrupt(model, graph, triples, advance=advance)
    return fit_calibration(
        plausibilities(model, judged.triples),
        judged.triples[:, 1],
        judged.is_true,
        judged.sources,
        judged.is_pair,
        split,
    )


def judged_of(graph: KnowledgeGraph, split: SplitName) -> npt.NDArray[np.int32]:
    """The triples of a split that a model can say something about."""
    triples = graph.split(split)
    return triples[graph.is_seen(triples)]


def add_calibration(
    model: RelationalTucker, graph: KnowledgeGraph, folder: Path, *, progress: bool = False
) -> None:
    """Calibrate a new run where it has validation triples enough; a failure is only told."""
    if len(judged_of(graph, "valid")) < FEWEST:
        return
    try:
        calibration = calibrate(model, graph, progress=progress)
        if model.peers.rank == 0:
            calibration.save(folder)
    except Exception as error:  # a trained model is worth more than its probabilities
        warnings.warn(f"{folder} has no probabilities: {error}", stacklevel=2)


def fit_calibration(
    plausibilities: Floats,
    relations: Ids,
    is_true: Bools,
    sources: Ids,
    is_pair: Bools,
    split: SplitName = "valid",
) -> Calibration:
    """Choose Platt or isotonic by the log loss on held-out folds: for all relations, and for each
    one with enough triples among these two and the curve for all; in the same way for the relations
    without a curve of their own together.

    All arrays are (m,), as in `JudgedTriples`; thresholds are chosen where `is_pair`.
    """
    if is_true.all() or not is_true.any():
        raise ReltuckerError(
            f"split {split} has no corrupted triples: every triple that can be made is a known fact"
        )
    count = int(sources.max()) + 1
    folds = np.random.default_rng(0).permutation(count)[sources] % FOLDS

    def held_out(fit: Fit, rows: Ids) -> Floats:
        """What is said about rows by curves that were fitted to the other folds of them."""
        said = np.empty(len(rows))
        for fold in range(FOLDS):
            out = folds[rows] == fold
            if out.any():
                rest = rows[~out]
                said[out] = fit(plausibilities[rest], is_true[rest])(plausibilities[rows[out]])
        return said

    def chosen(rows: Ids, *others: Floats) -> tuple[Fit | None, Floats]:
        """The best way to make a curve of rows, None for one of the others, and what it says."""
        ways: list[tuple[Fit | None, Floats]] = [(None, each) for each in others]
        ways += [(fit, held_out(fit, rows)) for fit in METHODS]
        return min(ways, key=lambda way: log_loss(way[1], is_true[rows]))

    def fitted(fit: Fit, rows: Ids) -> Platt | Isotonic:
        return fit(plausibilities[rows], is_true[rows])

    def threshold(rows: Ids) -> float:
        rows = rows[is_pair[rows]]
        return best_threshold(said[rows], is_true[rows])

    shared = np.arange(len(is_true))
    fit, said = chosen(shared)
    found: dict[int, tuple[int, Fit | None, Ids]] = {}
    for relation in np.unique(relations).tolist():
        rows = np.flatnonzero(relations == relation)
        triples = len(np.unique(sources[rows]))
        if triples >= ENOUGH and not is_true[rows].all():
            own, said[rows] = chosen(rows, said[rows])
            found[relation] = triples, own, rows
    # The curve for all is left with those that have none of their own, and may fit them better.
    left = np.setdiff1d(
        shared, np.concatenate([shared[:0], *(f[2] for f in found.values() if f[1])])
    )
    if len(np.unique(sources[left])) >= ENOUGH:
        again, said[left] = chosen(left, said[left])
        if again is not None:
            fit, shared = again, left
    assert fit is not None
    return Calibration(
        split=split,
        triples=count,
        corrupted=int(np.count_nonzero(~is_true)),
        curve=fitted(fit, shared),
        threshold=threshold(shared),
        relations={
            relation: RelationCalibration(
                triples=triples,
                curve=None if own is None else fitted(own, rows),
                threshold=threshold(rows),
            )
            for relation, (triples, own, rows) in found.items()
        },
        reliability=Reliability.of(said, is_true),
    )
