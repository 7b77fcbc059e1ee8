"""What PyKEEN needs for the same work; runs in PyKEEN's own environment (see peers.py).

Training: TuckER with d_e and d_r of ours, or ComplEx with half of d_e (its numbers are complex);
sLCWA, batch 500, 48 negatives for each positive (24 + 24 of ours), AdaGrad. The time of a step is
the difference between epochs of few and of more steps, so that set-up costs do not count; an epoch
is extrapolated from it. Ranking: filtered ranks of some test triples, extrapolated to all.
"""

import argparse
import contextlib
import json
import logging
import resource
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx, TuckER
from pykeen.predict import predict_target
from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop
from pykeen.training.callbacks import TrainingCallback
from pykeen.triples import CoreTriplesFactory, TriplesFactory


def load(folder: Path) -> list[TriplesFactory]:
    """Train, valid and test with the vocabulary of train, as PyKEEN does it."""
    paths = [next(folder.glob(f"{split}.*")) for split in ("train", "valid", "test")]
    train = TriplesFactory.from_path(paths[0])
    known = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    return [train, *(TriplesFactory.from_path(path, **known) for path in paths[1:])]


def make(options: argparse.Namespace, train: TriplesFactory) -> torch.nn.Module:
    """The model of the same sizes."""
    if options.model == "complex":
        return ComplEx(triples_factory=train, embedding_dim=options.entity_dim // 2)
    return TuckER(
        triples_factory=train,
        embedding_dim=options.entity_dim,
        relation_dim=options.relation_dim,
        dropout_0=0.3,
        dropout_1=0.2,
        dropout_2=0.0,
    )


def epoch(options: argparse.Namespace, train: TriplesFactory) -> dict[str, float]:
    """Seconds of a step, and of an epoch at that rate."""
    model = make(options, train)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)

    def run(steps: int) -> float:
        part = CoreTriplesFactory(
            train.mapped_triples[: steps * options.batch_size],
            num_entities=train.num_entities,
            num_relations=train.num_relations,
        )
        loop = SLCWATrainingLoop(
            model=model,
            triples_factory=part,
            optimizer=optimizer,
            negative_sampler_kwargs={"num_negs_per_pos": 2 * options.negatives},
        )
        began = time.perf_counter()
        loop.train(part, num_epochs=1, batch_size=options.batch_size, use_tqdm=False)
        return time.perf_counter() - began

    run(1)
    few, more = run(1), run(1 + options.steps)
    step = (more - few) / options.steps
    steps = -(-train.num_triples // options.batch_size)
    return {"seconds_per_step": step, "seconds_per_epoch": step * steps, "steps": options.steps}


def lcwa(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Seconds of a step of LCWA with inverse triples, and of an epoch at that rate."""
    path = next(folder.glob("train.*"))
    train = TriplesFactory.from_path(path, create_inverse_triples=True)
    model = make(options, train)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    pairs = len(torch.unique(train.mapped_triples[:, :2], dim=0)) + len(
        torch.unique(train.mapped_triples[:, 1:], dim=0)
    )

    watch = StopWatch(1 + options.steps)
    loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=optimizer)
    with contextlib.suppress(EnoughError):
        loop.train(
            train,
            num_epochs=1,
            batch_size=options.batch_size,
            use_tqdm=False,
            callbacks=watch,
        )
    step = (watch.ends[-1] - watch.ends[0]) / options.steps
    steps = -(-pairs // options.batch_size)
    return {"seconds_per_step": step, "seconds_per_epoch": step * steps, "steps": options.steps}


class EnoughError(Exception):
    """The steps that were wanted are done."""


class StopWatch(TrainingCallback):
    """Notes when steps end, and stops after some."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.ends: list[float] = []

    def post_batch(self, epoch: int, batch: object, **kwargs: object) -> None:
        """A step has ended."""
        self.ends.append(time.perf_counter())
        if len(self.ends) == self.steps:
            raise EnoughError


def ranking(options: argparse.Namespace, splits: list[TriplesFactory]) -> dict[str, float]:
    """Seconds of ranking some test triples, and of all at that rate."""
    train, valid, test = splits
    model = make(options, train).eval()
    some = test.mapped_triples[torch.randperm(len(test.mapped_triples))[: options.triples]]
    known = [train.mapped_triples, valid.mapped_triples, test.mapped_triples]
    evaluator = RankBasedEvaluator(filtered=True)

    def run(triples: torch.Tensor) -> float:
        began = time.perf_counter()
        evaluator.evaluate(
            model, triples, additional_filter_triples=known, batch_size=32, use_tqdm=False
        )
        return time.perf_counter() - began

    run(some[:32])
    few, more = run(some[: len(some) // 4]), run(some)
    each = (more - few) / (len(some) - len(some) // 4)
    return {"seconds": each * len(test.mapped_triples), "triples": len(some)}


def predict(options: argparse.Namespace, splits: list[TriplesFactory]) -> dict[str, float]:
    """Questions a second that predict_target answers one by one, without known triples: the ten
    best objects of (subject, relation, ?)."""
    train, _, test = splits
    model = make(options, train).eval()
    known = train.mapped_triples
    labels = train.entity_id_to_label, train.relation_id_to_label
    times = []
    for head, relation, _ in test.mapped_triples[: options.triples + 10].tolist():
        began = time.perf_counter()
        found = predict_target(
            model=model,
            head=labels[0][head],
            relation=labels[1][relation],
            triples_factory=train,
        )
        found.filter_triples(known).df.head(10)
        times.append(time.perf_counter() - began)
    ordered = sorted(times[10:])
    return {
        "requests_per_second": len(ordered) / sum(ordered),
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[len(ordered) * 99 // 100],
    }


def main() -> None:
    """Measure one task and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["epoch", "lcwa", "ranking", "predict"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="tucker")
    parser.add_argument("--entity-dim", type=int, default=100)
    parser.add_argument("--relation-dim", type=int, default=237)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--negatives", type=int, default=24)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--triples", type=int, default=512)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.task == "lcwa":
        result = lcwa(options, options.folder)
    else:
        splits = load(options.folder)
        if options.task == "epoch":
            result = epoch(options, splits[0])
        else:
            result = (ranking if options.task == "ranking" else predict)(options, splits)
    result["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result["version"] = version("pykeen")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
