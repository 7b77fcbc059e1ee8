"""Runs: train a model on a graph, open it again, judge it, ask it."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from reltucker.arguments import check_count, checked
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
from reltucker.progress import TrainingProgress, going_on, track
from reltucker.report.notebook import card, curve
from reltucker.report.tables import Value
from reltucker.search import DEFAULT_PRESET, filled
from reltucker.serving import (
    FORMATS,
    POSITIONS,
    Embeddings,
    Explanation,
    ExportFormat,
    Limits,
    Question,
    answer,
    discover,
    duplicates,
    explain,
    export_embeddings,
    find_id,
    limits_of,
    parse_question,
    parse_questions,
    parse_triples,
    relation_links,
    score_triples,
    similar,
)
from reltucker.training import (
    Callback,
    Recipe,
    RunFolder,
    Training,
    add_to_run,
    check,
    check_installed,
    merge_runs,
    save_start,
    settled,
    starting_recipe,
    trained_model,
)

_DAMAGED = "cannot be read"
_ONE_NAME = dict.fromkeys(POSITIONS, "predict_many takes many questions")
_RECIPE = {"recipe": "Recipe.of makes one of a dict, and settings takes one of dotted keys"}
PREDECESSOR_SECONDS = 30.0


class Run:
    """A run folder, opened. What is expensive (graph, weights) is read when first asked for."""

    @checked()
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
        return f"Run({str(self.path)!r}, {self.recipe.model.name}: {self._state()})"

    def _repr_html_(self) -> str:
        settings, state = self.recipe.model, self._state()
        figures: dict[str, Value] = {
            "folder": str(self.path),
            "graph": self.recipe.graph.source or "given by Python",
            "model": f"{settings.name}, d_e {settings.entity_dim:,}",
            "training": state,
        }
        mrr = [] if state.startswith(_DAMAGED) else [each["mrr"] for each in self._validated()]
        caption = "" if not mrr else f"validation MRR by epoch, {min(mrr):.3f} to {max(mrr):.3f}"
        return card(f"Run {self.path.name}", figures, curve(mrr), caption)

    def _state(self) -> str:
        """How far training has come, from small files alone; what cannot be read is told."""
        try:
            result, epochs, judged = self.result, self.epochs(), self._validated()
            if result is None:
                return f"not ended, {len(epochs)} of {self.recipe.train.epochs} epochs"
            mrr = f", validation MRR {result['seen']['mrr']:.4f}" if judged else ""
            return f"ended, best epoch {result['best_epoch']} of {result['epochs']}{mrr}"
        except (ReltuckerError, LookupError, OSError, TypeError, ValueError) as error:
            return f"{_DAMAGED} ({error})"

    def _validated(self) -> list[dict[str, float]]:
        """The validations so far."""
        return [record["valid"]["seen"] for record in self.epochs() if "valid" in record]

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

    @checked()
    def resume(self, *, callbacks: Iterable[Callback] = (), progress: bool = True) -> "Run":
        """Go on with an interrupted training; one that has ended stays as it is. Processes that
        torchrun has started together do so together."""
        if self.result is None:
            with ExitStack() as held, joined_group(self.recipe.train) as peers:
                _hold(self.folder, held, peers)
                if peers.agreed(self.result is None):  # as it was before the folder was held
                    _train(self.folder, self.recipe, self.graph, progress, True, peers, callbacks)
                for stale in ("model", "calibration"):
                    self.__dict__.pop(stale, None)
                _calibrate(self, progress, peers)
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

    @checked()
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
                f"{self.path}` makes them, and so does run.calibrate()"
            )
        if sample is not None:
            check_count("sample", sample, "triple")
        with self._asked(progress) as (model, shown):
            return evaluate(
                self.recipe.model.name,
                model,
                self.graph,
                split,
                by,
                sample=sample,
                calibration=calibration,
                progress=shown,
            )

    @contextmanager
    def _asked(self, progress: bool) -> Iterator[tuple[RelationalTucker, bool]]:
        """The model, and whether to show progress. Processes that torchrun has started together
        have a share of the model each, and ask it together; the first one shows."""
        with joined_group(self.recipe.train) as peers:
            is_shared = peers.size > 1
            model = trained_model(self.folder, self.graph, peers) if is_shared else self.model
            yield model, progress and peers.rank == 0

    @checked()
    def calibrate(self, split: SplitName = "valid", *, progress: bool = True) -> Calibration:
        """Fit probabilities on the split's triples and keep them in the run; `train` has done so
        where there were validation triples."""
        with self._asked(progress) as (model, shown):
            calibration = calibrate(model, self.graph, split, progress=shown)
            if model.peers.rank == 0:
                with self.folder.writing():
                    calibration.save(self.path)
        self.__dict__["calibration"] = calibration
        return calibration

    @checked()
    def score(self, triples: TripleSource, *, progress: bool = True) -> pl.DataFrame:
        """Judge whole triples: rows (subject, relation, object) one by one, a frame or a file, by
        names or labels, to scores, probabilities and ranks in both directions."""
        ids = parse_triples(self.graph, triples, unseen=True)
        with (
            self._asked(progress) as (model, shown),
            track("scoring", 2 * len(ids), "queries", shown) as advance,
        ):
            return score_triples(
                model, self.graph, ids, calibration=self.calibration, advance=advance
            )

    @checked(**_ONE_NAME)
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
        return self._answers([question], top, known, held_out, limits, False).drop("question")

    @checked()
    def predict_many(
        self,
        questions: TripleSource,
        *,
        top: int = 10,
        known: bool = False,
        held_out: bool = False,
        in_range: bool = False,
        among: Sequence[str] | None = None,
        where: Sequence[str] = (),
        progress: bool = True,
    ) -> pl.DataFrame:
        """The best answers to many questions (subject, relation, object), each with one `?`: rows
        one by one, a polars or pandas frame, or a file. In a frame, null asks as well, and a column
        that is not there is what all rows ask for."""
        parsed = parse_questions(self.graph, questions)
        limits = limits_of(
            self.graph, in_range=in_range, among=among, where=where, held_out=held_out
        )
        return self._answers(parsed, top, known, held_out, limits, progress)

    def _answers(
        self,
        questions: Sequence[Question],
        top: int,
        known: bool,
        held_out: bool,
        limits: Limits,
        progress: bool,
    ) -> pl.DataFrame:
        with (
            self._asked(progress) as (model, shown),
            track("predicting", len(questions), "questions", shown) as advance,
        ):
            return answer(
                model,
                self.graph,
                questions,
                top=top,
                known=known,
                held_out=held_out,
                limits=limits,
                calibration=self.calibration,
                advance=advance,
            )

    @checked()
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
        with self._asked(progress) as (model, shown):
            return discover(
                model,
                self.graph,
                top=top,
                relations=relations,
                entities=entities,
                per_relation=per_relation,
                min_probability=min_probability,
                anywhere=anywhere,
                held_out=held_out,
                calibration=self.calibration,
                progress=shown,
            )

    @checked()
    def similar(
        self, name: str, kind: NameKind = "entity", *, top: int = 10, by: Alikeness = "queries"
    ) -> pl.DataFrame:
        """The entities or relations that are most like the one of this name."""
        return similar(self.model, self.graph, name, kind=kind, top=top, by=by)

    @checked()
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

    @checked()
    def relation_links(self, *, least: float = 0.8) -> pl.DataFrame:
        """Relations that are symmetric, the same as others, their inverses or their sums, as far
        as that explains at least such a share of them."""
        return relation_links(self.model, self.graph, least=least)

    @checked()
    def add(self, triples: TripleSource, *, out: Path | str, progress: bool = True) -> "Run":
        """Add the new entities of named triples without training; returns the run, in `out`, that
        has them. Their embeddings are solved by the objective of the recipe, all else stays."""
        add_to_run(self.folder, self.model, self.graph, triples, out, progress=progress)
        if self.calibration is not None:  # scores of known triples are the same
            self.calibration.save(Path(out))
        return Run(out)

    @checked()
    def why(self, subject: str, relation: str, object: str, *, top: int = 10) -> Explanation:
        """Explain the score of a triple, by names or labels: the `top` interactions of which it is
        made, and the `top` known facts that support it."""
        texts = zip(POSITIONS, (subject, relation, object), strict=True)
        i, k, j = (find_id(self.graph, position, text) for position, text in texts)
        return explain(
            self.model, self.graph, self.recipe, (i, k, j), top=top, calibration=self.calibration
        )

    def embeddings(self) -> Embeddings:
        """E, R and the core as numpy arrays, and with names as frames:
        run.embeddings().frame("entities")."""
        return Embeddings.of(self.model, self.graph)

    @checked()
    def export(self, folder: Path | str, formats: Sequence[ExportFormat] = FORMATS) -> list[Path]:
        """Write the embeddings and the core for other tools; returns the files."""
        with sole_writer(Path(folder)):
            return export_embeddings(self.model, self.graph, Path(folder), formats)


@checked(**_RECIPE)
def train(
    graph: KnowledgeGraph | GraphSource,
    recipe: Recipe | None = None,
    *,
    preset: PresetName | None = None,
    settings: dict[str, Any] | None = None,
    start: Run | Path | str | None = None,
    out: Path | str | None = None,
    callbacks: Iterable[Callback] = (),
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

    `callbacks` are told when training begins, after every epoch and at its end, as the trackers of
    `train.trackers` are.

    Processes that torchrun has started together train one model together; `out` is needed then, and
    is a folder that they all can write. A run of the same recipe that is there goes on, be it by
    the only one that is left of them.
    """
    origin = start if start is None or isinstance(start, Run) else Run(start)
    graph, recipe = prepared(graph, recipe, preset=preset, settings=settings, start=origin)
    path = Path(out) if out is not None else RunFolder.free(graph.name, recipe.model.name)
    if is_launched() and out is None:
        raise RunError("several processes train together, so they must be told where: give out")

    folder = RunFolder(path)

    def contents(run: RunFolder) -> None:
        if origin is not None:
            save_start(run, origin.folder, origin.model, origin.graph, graph)

    def create() -> None:
        RunFolder.create(path, recipe, graph, contents)

    with ExitStack() as held, joined_group(recipe.train) as peers:
        # Whoever starts processes again does not know how far they have come.
        begun = peers.agreed(is_launched() and folder.exists())
        peers.first(lambda: _refuse_another(folder, recipe) if begun else folder.refuse_taken())
        _hold(folder, held, peers)
        if not begun:
            peers.first(create)
        if not begun or Run(path).result is None:
            _train(folder, recipe, graph, progress, begun, peers, callbacks)
        return _calibrate(Run(path), progress, peers)


def _refuse_another(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a folder that holds the run of another recipe."""
    if not folder.recipe().gives_same(recipe):
        folder.refuse_taken()


def _hold(folder: RunFolder, held: ExitStack, peers: Peers) -> None:
    """Hold a folder for all of the processes. Of several that were started again, the first may
    have to wait for the end of its predecessor."""
    wait = PREDECESSOR_SECONDS if is_launched() else 0.0
    peers.first(lambda: held.enter_context(folder.writing(wait)))


@checked()
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
    return _calibrate(Run(out), progress, ALONE)


@checked(**_RECIPE)
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
    recipe = recipe.with_values(settings or {}, "settings")
    if isinstance(graph, str | Path):
        recipe = recipe.with_values({"graph.source": str(graph)})
    if start is not None:
        recipe = starting_recipe(start.folder, start.model, recipe)
    if not isinstance(graph, KnowledgeGraph):
        before = None if start is None else start.graph
        graph = load_graph(graph, before=before, **recipe.graph.reading())
    recipe = filled(recipe, graph)
    check(recipe, graph, *spread())
    check_installed(*recipe.train.trackers)
    return graph, settled(recipe, graph)


@checked()
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
    callbacks: Iterable[Callback],
) -> None:
    progress = progress and peers.rank == 0
    shown = TrainingProgress(recipe.model.name, recipe.train.epochs) if progress else None
    path = shlex.quote(str(folder.path))
    how = f"the run is {path}, and `reltucker resume {path}` goes on with it"
    with going_on(how), shown or nullcontext():
        training = Training(recipe, graph, folder, shown, peers, callbacks)
        if restore:
            training.restore()
            stopping = training.stopping
            if shown is not None and stopping.best_epoch > 0:
                shown.best = (stopping.best_mrr, stopping.best_epoch)
        training.run()


def _calibrate(run: Run, progress: bool, peers: Peers) -> Run:
    """Give a run that has just ended its probabilities."""
    model = run.model if peers.size == 1 else trained_model(run.folder, run.graph, peers)
    add_calibration(model, run.graph, run.path, progress=progress and peers.rank == 0)
    return run
