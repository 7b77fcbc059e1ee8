"""Runs: train a model on a graph, open it again, judge it, ask it."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from reltucker.choices import Alikeness, NameKind, PresetName
from reltucker.distributed import is_launched, joined_group, spread
from reltucker.errors import ReltuckerError, RunError
from reltucker.evaluation import (
    Breakdown,
    Calibration,
    Evaluation,
    add_calibration,
    calibrate,
    evaluate,
)
from reltucker.folders import sole_writer
from reltucker.graph import (
    DEFAULT_LANGUAGE,
    GraphSource,
    KnowledgeGraph,
    SplitName,
    TripleSource,
    load_graph,
    read_labels,
)
from reltucker.model import RelationalTucker, sizes_of
from reltucker.peers import ALONE, Peers
from reltucker.progress import TrainingProgress, track
from reltucker.search import DEFAULT_PRESET, filled
from reltucker.serving import (
    FORMATS,
    POSITIONS,
    Explanation,
    ExportFormat,
    Question,
    answer,
    discover,
    duplicates,
    explain,
    export_embeddings,
    find_id,
    limits_of,
    parse_question,
    parse_triples,
    relation_links,
    score_triples,
    similar,
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

PREDECESSOR_SECONDS = 30.0


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

    def verify(self) -> list[dict[str, Any]]:
        """Read every file of the run and compare it with its checksum: a row for each, with
        `problem`, which is None for one that is whole."""
        return self.folder.verify()

    def epochs(self) -> list[dict[str, Any]]:
        """The records of all epochs so far."""
        return self.folder.epochs()

    def resume(self, *, progress: bool = True) -> "Run":
        """Go on with an interrupted training; one that has ended stays as it is. Processes that
        torchrun has started together do so together."""
        if self.result is None:
            with ExitStack() as held:
                with joined_group(self.recipe.train) as peers:
                    _hold(self.folder, held, peers)
                    if peers.agreed(self.result is None):  # as it was before the folder was held
                        _train(self.folder, self.recipe, self.graph, progress, True, peers)
                for stale in ("model", "calibration"):
                    self.__dict__.pop(stale, None)
                _calibrated(self, progress, peers)
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
        calibration = self.calibration if classify else None
        if classify and calibration is None:
            raise RunError(
                f"{self.path} has no probabilities to classify by; `reltucker calibrate "
                f"{self.path}` makes them"
            )
        name, graph = self.recipe.model.name, self.graph
        if classify and is_launched():
            raise RunError("--classify is for one process; leave --processes out")
        with joined_group(self.recipe.train) as peers:
            model = self.model if peers.size == 1 else trained_model(self.folder, graph, peers)
            return evaluate(
                name,
                model,
                graph,
                split,
                by,
                sample=sample,
                calibration=calibration,
                progress=progress and peers.rank == 0,
            )

    def calibrate(self, split: SplitName = "valid", *, progress: bool = True) -> Calibration:
        """Fit probabilities on the split's triples and keep them in the run; `train` has done so
        where there were validation triples."""
        calibration = calibrate(self.model, self.graph, split, progress=progress)
        with self.folder.writing():
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
        in_range: bool = False,
        among: Sequence[str] | None = None,
        where: Sequence[str] = (),
    ) -> pl.DataFrame:
        """The best answers to one question: leave out (or give '?' for) what you ask for.

        Names or labels go in. Facts that the graph holds are left out unless `known` is set; with
        `held_out`, facts of the test split count as unknown. Candidates can be limited to those
        that stand there in training triples of the relation (`in_range`), to a list (`among`), and
        to those with known facts (`where`, each as 'relation=object').
        """
        question = parse_question(self.graph, subject, relation, object)
        limits = limits_of(
            self.graph, in_range=in_range, among=among, where=where, held_out=held_out
        )
        ask = partial(answer, self.model, self.graph, top=top, known=known, held_out=held_out)
        return ask([question], limits=limits, calibration=self.calibration).drop("question")

    def predict_many(
        self,
        questions: Iterable[Sequence[str | None]],
        *,
        top: int = 10,
        known: bool = False,
        held_out: bool = False,
        in_range: bool = False,
        among: Sequence[str] | None = None,
        where: Sequence[str] = (),
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
        limits = limits_of(
            self.graph, in_range=in_range, among=among, where=where, held_out=held_out
        )
        with track("predicting", len(parsed), "questions", progress) as advance:
            return ask(parsed, limits=limits, calibration=self.calibration, advance=advance)

    def discover(
        self,
        top: int = 100,
        relations: Sequence[str] | None = None,
        entities: Sequence[str] | None = None,
        *,
        per_relation: bool = False,
        min_probability: float | None = None,
        anywhere: bool = False,
        held_out: bool = False,
        progress: bool = True,
    ) -> pl.DataFrame:
        """The most probable facts that are not in the graph: `serving.discover` says of which."""
        return discover(
            self.model,
            self.graph,
            top=top,
            relations=relations,
            entities=entities,
            per_relation=per_relation,
            min_probability=min_probability,
            anywhere=anywhere,
            held_out=held_out,
            calibration=self.calibration,
            progress=progress,
        )

    def similar(
        self, name: str, kind: NameKind = "entity", *, top: int = 10, by: Alikeness = "queries"
    ) -> pl.DataFrame:
        """The entities or relations that are most like the one of this name."""
        return similar(self.model, self.graph, name, kind=kind, top=top, by=by)

    def duplicates(
        self,
        top: int = 100,
        *,
        least: float = 0.9,
        by: Alikeness = "queries",
        progress: bool = True,
    ) -> pl.DataFrame:
        """Pairs of entities that are most alike, and at least so much."""
        return duplicates(self.model, self.graph, top=top, least=least, by=by, progress=progress)

    def relation_links(self, *, least: float = 0.8) -> pl.DataFrame:
        """Relations that are symmetric, the same as others, their inverses or their sums, as far
        as that explains at least such a share of them."""
        return relation_links(self.model, self.graph, least=least)

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
        with sole_writer(Path(folder)):
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

    Processes that torchrun has started together train one model together; `out` is needed then, and
    is a folder that they all can write. A run of the same recipe that is there goes on.
    """
    origin = start if start is None or isinstance(start, Run) else Run(start)
    graph, recipe = prepared(graph, recipe, preset=preset, settings=settings, start=origin)
    path = Path(out) if out is not None else RunFolder.free(graph.name, recipe.model.name)
    if is_launched() and out is None:
        raise RunError("several processes train together, so they must be told where: give --out")

    folder = RunFolder(path)

    def contents(run: RunFolder) -> None:
        if origin is not None:
            save_start(run, origin.folder, origin.model, origin.graph, graph)

    def create() -> None:
        RunFolder.create(path, recipe, graph, contents)

    with ExitStack() as held:
        with joined_group(recipe.train) as peers:
            # Whoever starts processes again does not know how far they have come.
            begun = peers.agreed(peers.size > 1 and folder.exists())
            peers.first(lambda: _refuse_another(folder, recipe) if begun else folder.refuse_taken())
            _hold(folder, held, peers)
            if not begun:
                peers.first(create)
            if not begun or Run(path).result is None:
                _train(folder, recipe, graph, progress, begun, peers)
        return _calibrated(Run(path), progress, peers)


def _refuse_another(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a folder that holds the run of another recipe."""
    if folder.recipe() != recipe:
        folder.refuse_taken()


def _hold(folder: RunFolder, held: ExitStack, peers: Peers) -> None:
    """Hold a folder for all of the processes. Of several that were started again, the first may
    have to wait for the end of its predecessor."""
    wait = PREDECESSOR_SECONDS if peers.size > 1 else 0.0
    peers.first(lambda: held.enter_context(folder.writing(wait)))


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
    return _calibrated(Run(out), progress)


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
        before = None if start is None else start.graph
        graph = load_graph(graph, before=before, **recipe.graph.reading())
    recipe = filled(recipe, graph)
    check(recipe, graph, *spread())
    return graph, settled(recipe, graph)


def open_run(
    path: Path | str, *, labels: Path | str | None = None, language: str = DEFAULT_LANGUAGE
) -> Run:
    """Open the folder of a run; names may get other labels, from a table of (id, name) or from
    the labels of an RDF file, in one language where there are several."""
    return Run(path, labels, language)


def _train(
    folder: RunFolder,
    recipe: Recipe,
    graph: KnowledgeGraph,
    progress: bool,
    restore: bool,
    peers: Peers,
) -> None:
    progress = progress and peers.rank == 0
    shown = TrainingProgress(recipe.model.name, recipe.train.epochs) if progress else None
    with shown or nullcontext():
        training = Training(recipe, graph, folder, shown, peers)
        if restore:
            training.restore()
            stopping = training.stopping
            if shown is not None and stopping.best_epoch > 0:
                shown.best = (stopping.best_mrr, stopping.best_epoch)
        training.run()


def _calibrated(run: Run, progress: bool, peers: Peers = ALONE) -> Run:
    if peers.rank == 0:
        add_calibration(run.model, run.graph, run.path, progress=progress)
    return run
