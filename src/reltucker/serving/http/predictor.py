"""A run that is served: model, graph and everything that answers need, made before the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from reltucker.errors import ReltuckerError
from reltucker.evaluation import Calibration, break_down, rank_split, sampled
from reltucker.graph import KnowledgeGraph, SplitName
from reltucker.model import RelationalTucker
from reltucker.serving.candidates import limits_of
from reltucker.serving.explanation import explain
from reltucker.serving.http.names import IndexedVocabulary
from reltucker.serving.naming import POSITIONS, find_id, parse_triples
from reltucker.serving.prediction import Question, answer, parse_question
from reltucker.serving.scoring import score_triples
from reltucker.training import Recipe, fold_in

RANKED = 2_000
"""Triples that the results by relation are taken from at the most: they are made at the start."""
MAPPED = 5_000
"""Entities on the map: the most frequent."""
MATRIX = 256
"""Rows and columns of a mixing matrix as it is sent."""

Row = dict[str, Any]


class OpenedRun(Protocol):
    """What is needed of a run; `reltucker.run.Run` has it."""

    @property
    def path(self) -> Path: ...
    @property
    def recipe(self) -> Recipe: ...
    @property
    def graph(self) -> KnowledgeGraph: ...
    @property
    def model(self) -> RelationalTucker: ...
    @property
    def calibration(self) -> Calibration | None: ...
    @property
    def result(self) -> dict[str, Any] | None: ...

    def epochs(self) -> list[dict[str, Any]]: ...
    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Options:
    """How questions are answered; those with equal options are answered together."""

    top: int = 10
    known: bool = False
    held_out: bool = False
    in_range: bool = False
    among: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        """Whether some entities cannot be answers."""
        return self.in_range or self.among is not None or bool(self.where)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A served run. Nothing in it changes after it was made."""

    name: str
    model: RelationalTucker
    graph: KnowledgeGraph
    entities: IndexedVocabulary
    relations: IndexedVocabulary
    calibration: Calibration | None
    recipe: Recipe
    summary: Row
    sizes: Row
    epochs: list[Row]
    results: Row
    density: Row
    maps: Mapping[str, list[Row]]

    @classmethod
    def of(cls, run: OpenedRun, name: str) -> "Predictor":
        """Read the run and make its indexes."""
        plain, model = run.graph, run.model
        counts = np.bincount(plain.train[:, [0, 2]].ravel(), minlength=len(plain.entities))
        entities = IndexedVocabulary(plain.entities, counts)
        counts = np.bincount(plain.train[:, 1], minlength=len(plain.relations))
        relations = IndexedVocabulary(plain.relations, counts)
        graph = replace(plain, entities=entities, relations=relations)
        for direction in POSITIONS:
            graph.answers(direction)
            if direction != "relation":
                graph.occurring(0, direction)
        results = _results(model, graph)
        sizes = run.describe()
        summary = {
            "name": name,
            "graph": graph.name,
            "model": sizes["model"],
            "entities": len(entities),
            "relations": len(relations),
            "triples": {split: len(graph.split(split)) for split in ("train", "valid", "test")},
            "effective_parameters": sizes["effective_parameters"],
            "calibrated": run.calibration is not None,
            "figures": _figures(run.result),
        }
        density = model.core.nonzero_by_slice().cpu().numpy() / model.core.entity_dim**2
        return cls(
            name=name,
            model=model,
            graph=graph,
            entities=entities,
            relations=relations,
            calibration=run.calibration,
            recipe=run.recipe,
            summary=summary,
            sizes=sizes,
            epochs=run.epochs(),
            results=results,
            density={"density": model.core.density(), "slices": density.tolist()},
            maps={
                "entity": _map(model.E, entities, graph.seen_entities),
                "relation": _map(model.R, relations, graph.seen_relations),
            },
        )

    def vocabulary(self, kind: str) -> IndexedVocabulary:
        """The entities or the relations."""
        return self.relations if kind == "relation" else self.entities

    def parse(self, questions: Sequence[Sequence[str | None]], options: Options) -> list[Question]:
        """Names to questions; a mistake is told with the number of its question."""
        return _parsed(self.graph, questions, options)

    def answers(self, questions: Sequence[Question], options: Options) -> list[list[Row]]:
        """The best answers of every question."""
        return _answers(self.model, self.graph, questions, options, self.calibration)

    def score(self, triples: Sequence[Sequence[str]]) -> list[Row]:
        """Named triples to scores, probabilities and ranks."""
        ids = parse_triples(self.graph, [tuple(triple) for triple in triples], unseen=True)
        frame = score_triples(self.model, self.graph, ids, calibration=self.calibration)
        return frame.to_dicts()

    def reliability(self) -> Row:
        """How the probabilities were made, and how far they hold."""
        if self.calibration is None:
            raise ReltuckerError(
                f"the run {self.name!r} has no probabilities; `reltucker calibrate` makes them"
            )
        found = self.calibration.to_dict()
        return {
            **{key: found[key] for key in ("split", "triples", "corrupted", "threshold")},
            "reliability": found["reliability"],
            "relations": [
                {
                    "relation": self.relations.name(int(k)),
                    "label": self.relations.label(int(k)),
                    "triples": own["triples"],
                    "threshold": own["threshold"],
                }
                for k, own in found["relations"].items()
            ],
        }

    def why(self, triple: Sequence[str], top: int) -> Row:
        """The parts of a triple's score and the facts that support it."""
        texts = zip(POSITIONS, triple, strict=True)
        i, k, j = (find_id(self.graph, position, text) for position, text in texts)
        found = explain(
            self.model, self.graph, self.recipe, (i, k, j), top=top, calibration=self.calibration
        )
        return found.to_dict()

    def add(
        self,
        triples: Sequence[Sequence[str]],
        questions: Sequence[Sequence[str | None]],
        options: Options,
    ) -> Row:
        """Answers of this model with new entities, which nobody else sees."""
        rows = [tuple(triple) for triple in triples]
        model, graph = fold_in(self.model, self.graph, self.recipe, rows)
        names = graph.entities.names[self.graph.seen_entities : graph.seen_entities]
        asked = _parsed(graph, questions, options)
        answers = _answers(model, graph, asked, options, self.calibration)
        return {"entities": names.to_list(), "answers": answers}

    def names(self, prefix: str, kind: str, limit: int) -> list[Row]:
        """Names and labels in which a word begins with `prefix`."""
        vocabulary = self.vocabulary(kind)
        return [
            {"name": vocabulary.name(i), "label": vocabulary.label(i), "count": int(weight)}
            for i in vocabulary.complete(prefix, limit)
            for weight in (vocabulary.weights[i],)
        ]

    def mixing(self, relation: str) -> Row:
        """M_k (d_e, d_e) of a relation; where it is large, of each block of rows and columns the
        entry with the largest absolute value."""
        number = find_id(self.graph, "relation", relation)
        matrix = self.model.mixing_matrix(number).float().cpu().numpy()
        step = -(-len(matrix) // MATRIX)
        if step > 1:
            side = -(-len(matrix) // step)
            filled = np.zeros((side * step, side * step), dtype=np.float32)
            filled[: len(matrix), : len(matrix)] = matrix
            blocks = filled.reshape(side, step, side, step).swapaxes(1, 2).reshape(side, side, -1)
            strongest = np.abs(blocks).argmax(axis=2, keepdims=True)
            matrix = np.take_along_axis(blocks, strongest, axis=2)[..., 0]
        return {
            "relation": self.relations.name(number),
            "label": self.relations.label(number),
            "entity_dim": self.model.core.entity_dim,
            "step": step,
            "values": [[float(f"{value:.4g}") for value in row] for row in matrix.tolist()],
        }


def _parsed(
    graph: KnowledgeGraph, questions: Sequence[Sequence[str | None]], options: Options
) -> list[Question]:
    parsed = []
    for number, question in enumerate(questions, start=1):
        try:
            parsed.append(parse_question(graph, *question))
        except ReltuckerError as error:
            raise type(error)(f"question {number}: {error}") from None
        if parsed[-1].direction == "relation" and options.is_limited:
            raise ReltuckerError(
                f"question {number}: candidates can be limited where an entity is asked for, not "
                "for a relation; leave in_range, among and where out"
            )
    return parsed


def _answers(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    questions: Sequence[Question],
    options: Options,
    calibration: Calibration | None,
) -> list[list[Row]]:
    limits = limits_of(
        graph,
        in_range=options.in_range,
        among=options.among,
        where=options.where,
        held_out=options.held_out,
    )
    frame = answer(
        model,
        graph,
        questions,
        top=options.top,
        known=options.known,
        held_out=options.held_out,
        limits=limits,
        calibration=calibration,
    )
    found: list[list[Row]] = [[] for _ in questions]
    for row in frame.iter_rows(named=True):
        found[row.pop("question") - 1].append(row)
    return found


def name_runs(paths: Sequence[Path]) -> list[str]:
    """A name for each run: that of its folder, with a number where several have the same."""
    names: list[str] = []
    for path in paths:
        stem = path.resolve().name or "run"
        name, number = stem, 1
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        names.append(name)
    return names


def _figures(result: dict[str, Any] | None) -> Row:
    """What training ended with, without times."""
    if result is None:
        return {}
    kept = ("best_epoch", "epochs", "seen", "standard", "paper")
    return {key: result[key] for key in kept if key in result}


def _results(model: RelationalTucker, graph: KnowledgeGraph) -> Row:
    """Metrics by relation, on the test triples or else the validation triples."""
    split: SplitName = "test" if len(graph.test) else "valid"
    triples = sampled(graph.split(split), RANKED)
    if not len(triples):
        return {"split": split, "triples": 0, "metrics": {}, "relations": []}
    ranking = rank_split(model, graph, split, triples=triples)
    return {
        "split": split,
        "triples": len(triples),
        "metrics": {name: metrics.to_dict() for name, metrics in ranking.metrics().items()},
        "relations": break_down(ranking, graph, "relation"),
    }


@torch.no_grad()
def _map(matrix: torch.Tensor, vocabulary: IndexedVocabulary, seen: int) -> list[Row]:
    """The rows of the most frequent names in two dimensions: their first principal components."""
    chosen = np.argsort(-vocabulary.weights[:seen], kind="stable")[:MAPPED]
    points = matrix.detach()[torch.from_numpy(chosen).to(matrix.device)].double().cpu()
    points = points - points.mean(dim=0)
    vectors = torch.linalg.eigh(points.T @ points).eigenvectors
    places = (points @ vectors[:, -2:]).numpy()[:, ::-1]
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    return [
        {
            "name": vocabulary.name(int(i)),
            "label": vocabulary.label(int(i)),
            "count": int(vocabulary.weights[i]),
            "x": round(float(x), 6),
            "y": round(float(y), 6),
        }
        for i, (x, y) in zip(chosen, places, strict=True)
    ]
