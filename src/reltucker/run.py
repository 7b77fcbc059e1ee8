"""Runs: train a model on a graph, open it again, judge it, ask it."""

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from reltucker.choices import PresetName
from reltucker.errors import ReltuckerError, RunError
from reltucker.evaluation import (
    PROTOCOLS,
    Breakdown,
    Calibration,
    Classification,
    Metrics,
    Protocol,
    add_calibration,
    break_down,
    calibrate,
    classify_triples,
    rank_split,
    sampled,
)
from reltucker.graph import (
    DEFAULT_LANGUAGE,
    GraphSource,
    KnowledgeGraph,
    SplitName,
    TripleSource,
    has_splits,
    keep_splits,
    load_graph,
    read_labels,
    warn_of_trained,
)
from reltucker.model import RelationalTucker, Sizes, sizes_of
from reltucker.progress import TrainingProgress, track
from reltucker.search import DEFAULT_PRESET, filled
from reltucker.serving import (
    FORMATS,
    POSITIONS,
    Explanation,
    ExportFormat,
    Question,
    answer,
    explain,
    export_embeddings,
    find_id,
    parse_question,
    parse_triples,
    score_triples,
)
from reltucker.training import (
    Recipe,
    RunFolder,
    Training,
    add_to_run,
    check,
    merge_runs,
    save_start,
    settled,
    starting_recipe,
    trained_model,
)


@dataclass(frozen=True)
class Evaluation:
    """How a run does on one split, under every protocol."""

    split: SplitName
    model: str
    entity_dim: int
    relation_dim: int
    sizes: Sizes
    seconds: float
    metrics: dict[Protocol, Metrics]
    breakdown: tuple[Breakdown, list[dict[str, Any]]] | None = None
    classification: Classification | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as `reltucker evaluate --json` prints it."""
        more: dict[str, Any] = {}
        if self.breakdown is not None:
            more[f"by_{self.breakdown[0]}"] = self.breakdown[1]
        if self.classification is not None:
            more["classification"] = self.classification.to_dict()
        return {
            "split": self.split,
            "model": self.model,
            "entity_dim": self.entity_dim,
            "relation_dim": self.relation_dim,
            "effective_relation_size": self.sizes.effective_relation_size,
            "effective_parameters": self.sizes.effective_parameters,
            "seconds": self.seconds,
            "core_density": self.sizes.core_density,
            **{protocol: self.metrics[protocol].to_dict() for protocol in PROTOCOLS},
            **more,
        }

    def frame(self) -> pl.DataFrame:
        """A row for each protocol; with a break-down, for each of its groups and protocols."""
        whole = {protocol: self.metrics[protocol].to_dict() for protocol in PROTOCOLS}
        rows = [
            {
                **{key: value for key, value in group.items() if key not in PROTOCOLS},
                "protocol": protocol,
                **group[protocol],
            }
            for group in (self.breakdown[1] if self.breakdown else [whole])
            for protocol in PROTOCOLS
        ]
        return pl.DataFrame(rows)


class Run:
    """A run folder, opened. What is expensive (graph, weights) is read when first asked for."""

    def __init__(
        self,
        path: Path | str,
        labels: Path | str | None = None,
        language: str = DEFAULT_LANGUAGE,
    ) -> None:
        self.folder = RunFolder.existing(path)
        self.path = self.folder.path
        self.recipe = self.folder.recipe()
        self._labels = None if labels is None else read_labels(Path(labels), language)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The graph that the model was trained on, from the run's own files."""
        graph = self.folder.graph()
        return graph if self._labels is None else graph.labelled(self._labels)

    @cached_property
    def model(self) -> RelationalTucker:
        """The model with the weights of the best epoch."""
        return trained_model(self.folder, self.graph)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of plausibilities, or None where the run has none."""
        return Calibration.load(self.path)

    @property
    def result(self) -> dict[str, Any] | None:
        """What training ended with, or None while it has not."""
        return self.folder.result()

    def epochs(self) -> list[dict[str, Any]]:
        """The records of all epochs so far."""
        return self.folder.epochs()

    def resume(self, *, progress: bool = True) -> "Run":
        """Go on with an interrupted training; one that has ended stays as it is."""
        if self.result is None:
            _train(self.folder, self.recipe, self.graph, progress, restore=True)
            for stale in ("model", "calibration"):
                self.__dict__.pop(stale, None)
            _calibrated(self)
        return self

    def describe(self) -> dict[str, Any]:
        """The model's sizes, JSON-ready: in the fixed-core view and, under `constrained`, in the
        view with a constrained core."""
        model = self.model
        return {
            "model": self.recipe.model.name,
            "entity_dim": model.core.entity_dim,
            "relation_dim": model.core.relation_dim,
            "reciprocal": model.reciprocal,
            "entities": len(model.E),
            **sizes_of(model).to_dict(),
            "constrained": sizes_of(model, "constrained").to_dict(),
        }

    def evaluate(
        self,
        split: SplitName = "test",
        by: Breakdown | None = None,
        *,
        sample: int | None = None,
        classify: bool = False,
        progress: bool = True,
    ) -> Evaluation:
        """Rank the split's triples in both directions, under all protocols; with `sample`, only so
        many of them, drawn at random but the same ones for every run on the graph. With `classify`
        they are also told from corrupted ones, by their probabilities."""
        began = time.monotonic()
        calibration = self.calibration if classify else None
        if classify and calibration is None:
            raise RunError(
                f"{self.path} has no probabilities to classify by; `reltucker calibrate "
                f"{self.path}` makes them"
            )
        model, graph = self.model, self.graph
        triples = graph.split(split)
        if sample is not None:
            triples = sampled(triples, sample)
        with track(f"ranking {split}", 2 * len(triples), "queries", progress) as advance:
            ranking = rank_split(model, graph, split, triples=triples, advance=advance)
        return Evaluation(
            split=split,
            model=self.recipe.model.name,
            entity_dim=model.core.entity_dim,
            relation_dim=model.core.relation_dim,
            sizes=sizes_of(model),
            seconds=time.monotonic() - began,
            metrics=ranking.metrics(),
            breakdown=None if by is None else (by, break_down(ranking, graph, by)),
            classification=None
            if calibration is None
            else classify_triples(model, graph, calibration, split, sample=sample),
        )

    def calibrate(self, split: SplitName = "valid") -> Calibration:
        """Fit probabilities on the split's triples and keep them in the run; `train` has done so
        where there were validation triples."""
        calibration = calibrate(self.model, self.graph, split)
        calibration.save(self.path)
        self.__dict__["calibration"] = calibration
        return calibration

    def score(self, triples: TripleSource, *, progress: bool = True) -> pl.DataFrame:
        """Judge whole triples: rows (subject, relation, object) one by one, a frame or a file, by
        names or labels, to scores, probabilities and ranks in both directions."""
        ids = parse_triples(self.graph, triples, unseen=True)
        with track("scoring", 2 * len(ids), "queries", progress) as advance:
            return score_triples(
                self.model, self.graph, ids, calibration=self.calibration, advance=advance
            )

    def predict(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        *,
        top: int = 10,
        known: bool = False,
        held_out: bool = False,
    ) -> pl.DataFrame:
        """The best answers to one question: leave out (or give '?' for) what you ask for.

        Names or labels go in. Facts that the graph holds are left out unless `known` is set; with
        `held_out`, facts of the test split count as unknown.
        """
        question = parse_question(self.graph, subject, relation, object)
        answers = answer(
            self.model,
            self.graph,
            [question],
            top=top,
            known=known,
            held_out=held_out,
            calibration=self.calibration,
        )
        return answers.drop("question")

    def predict_many(
        self,
        questions: Iterable[Sequence[str | None]],
        *,
        top: int = 10,
        known: bool = False,
        held_out: bool = False,
        progress: bool = True,
    ) -> pl.DataFrame:
        """The best answers to many questions (subject, relation, object), each with one `?`."""
        parsed: list[Question] = []
        for number, question in enumerate(questions, start=1):
            try:
                parsed.append(parse_question(self.graph, *question))
            except ReltuckerError as error:
                raise type(error)(f"question {number}: {error}") from None
        ask = partial(answer, self.model, self.graph, top=top, known=known, held_out=held_out)
        with track("predicting", len(parsed), "questions", progress) as advance:
            return ask(parsed, calibration=self.calibration, advance=advance)

    def add(self, triples: TripleSource, *, out: Path | str, progress: bool = True) -> "Run":
        """Add the new entities of named triples without training; returns the run, in `out`, that
        has them. Their embeddings are solved by the objective of the recipe, all else stays."""
        add_to_run(self.folder, self.model, self.graph, triples, out, progress=progress)
        if self.calibration is not None:  # scores of known triples are the same
            self.calibration.save(Path(out))
        return Run(out)

    def why(self, subject: str, relation: str, object: str, *, top: int = 10) -> Explanation:
        """Explain the score of a triple, by names or labels: the `top` interactions of which it is
        made, and the `top` known facts that support it."""
        texts = zip(POSITIONS, (subject, relation, object), strict=True)
        i, k, j = (find_id(self.graph, position, text) for position, text in texts)
        return explain(
            self.model, self.graph, self.recipe, (i, k, j), top=top, calibration=self.calibration
        )

    def export(self, folder: Path | str, formats: Sequence[ExportFormat] = FORMATS) -> list[Path]:
        """Write the embeddings and the core for other tools; returns the files."""
        return export_embeddings(self.model, self.graph, Path(folder), formats)


def train(
    graph: KnowledgeGraph | GraphSource,
    recipe: Recipe | None = None,
    *,
    preset: PresetName | None = None,
    settings: dict[str, Any] | None = None,
    start: Run | Path | str | None = None,
    out: Path | str | None = None,
    progress: bool = True,
) -> Run:
    """Train a model on a graph; returns the run, whose folder is `out` (or a new one in runs/).

    `graph` is a KnowledgeGraph, a catalog name, a file or folder, or whatever `load_graph` takes.
    What neither the recipe nor `settings`, by dotted key, has set is chosen by the preset: without
    a recipe that is `good`, and a recipe that names none keeps to its defaults.

    With `start`, training begins with the weights of that run, whose recipe is the default: rows of
    names that it has trained, the core and the normalisation. The graph is all that is trained on,
    so it has the former triples, too, unless they are to be forgotten; in one set of triples, those
    that the run knew keep their split.
    """
    origin = start if start is None or isinstance(start, Run) else Run(start)
    graph, recipe = prepared(graph, recipe, preset=preset, settings=settings, start=origin)
    path = Path(out) if out is not None else _free_folder(graph.name, recipe.model.name)
    if origin is not None:
        target = RunFolder(path)
        target.refuse_taken()
        save_start(target, origin.folder, origin.model, origin.graph, graph)
    folder = RunFolder.create(path, recipe, graph)
    _train(folder, recipe, graph, progress, restore=False)
    return _calibrated(Run(path))


def merge(
    runs: Iterable[Run | Path | str],
    out: Path | str,
    *,
    weights: Sequence[float] | None = None,
    progress: bool = True,
) -> Run:
    """Merge runs on one graph; returns the run, whose scores are a weighted sum of theirs.

    Weights that are not given are chosen on the validation triples.
    """
    paths = [run.path if isinstance(run, Run) else run for run in runs]
    merge_runs(paths, out, weights=weights, progress=progress)
    return _calibrated(Run(out))


def prepared(
    graph: KnowledgeGraph | GraphSource,
    recipe: Recipe | None = None,
    *,
    preset: PresetName | None = None,
    settings: dict[str, Any] | None = None,
    start: Run | None = None,
) -> tuple[KnowledgeGraph, Recipe]:
    """The graph and the full recipe that `train` would train with the same arguments; what cannot
    be trained is refused."""
    if recipe is None and start is not None:
        recipe = start.recipe.on(None)
    if recipe is None:
        recipe = Recipe.preset(preset or DEFAULT_PRESET)
    elif preset is not None:
        recipe = recipe.by_preset(preset)
    recipe = recipe.with_values(settings or {})
    if isinstance(graph, str | Path):
        recipe = recipe.with_values({"graph.source": str(graph)})
    if start is not None:
        recipe = starting_recipe(start.folder, start.model, recipe)
    if not isinstance(graph, KnowledgeGraph):
        is_split = has_splits(graph)
        graph = load_graph(graph, **recipe.graph.reading())
        if start is not None and not is_split:
            graph = keep_splits(graph, start.graph)
    if start is not None:
        warn_of_trained(graph, start.graph)
    recipe = filled(recipe, graph)
    check(recipe, graph)
    return graph, settled(recipe, graph)


def open_run(
    path: Path | str, *, labels: Path | str | None = None, language: str = DEFAULT_LANGUAGE
) -> Run:
    """Open the folder of a run; names may get other labels, from a table of (id, name) or from
    the labels of an RDF file, in one language where there are several."""
    return Run(path, labels, language)


def _train(
    folder: RunFolder, recipe: Recipe, graph: KnowledgeGraph, progress: bool, restore: bool
) -> None:
    shown = TrainingProgress(recipe.model.name, recipe.train.epochs) if progress else None
    with shown or nullcontext():
        training = Training(recipe, graph, folder, shown)
        if restore:
            training.restore()
            stopping = training.stopping
            if shown is not None and stopping.best_epoch > 0:
                shown.best = (stopping.best_mrr, stopping.best_epoch)
        training.run()


def _calibrated(run: Run) -> Run:
    add_calibration(run.model, run.graph, run.path)
    return run


def _free_folder(graph: str, model: str) -> Path:
    """runs/GRAPH-MODEL-1, or the next number that is free."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", graph).strip("._")[:60] or "graph"
    number = 1
    while (path := Path("runs") / f"{stem}-{model}-{number}").exists():
        number += 1
    return path
