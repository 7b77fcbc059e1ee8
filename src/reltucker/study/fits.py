"""Runs made ready for comparison: judged on one graph and split, with sizes and costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reltucker.errors import ReltuckerError, RunError
from reltucker.evaluation import PROTOCOLS, Protocol, Ranking, rank_split
from reltucker.graph import SPLITS, KnowledgeGraph, SplitName
from reltucker.model import SPARSE, Sizes, sizes_of
from reltucker.progress import track
from reltucker.run import Run, open_run
from reltucker.study.cost import cost_of


@dataclass(frozen=True)
class Fit:
    """A trained model, judged. `name` tells it from the other fits of a comparison."""

    name: str
    path: Path
    model: str
    reciprocal: bool
    learns: str
    """What the core learns of itself: "nothing", its "entries", or also their "pattern"."""
    entity_dim: int
    relation_dim: int | None
    """None where it follows from entity_dim."""
    sizes: Sizes
    valid_mrr: dict[Protocol, float] | None
    """By which fits are chosen; None where the graph has no validation triples to judge by."""
    ranking: Ranking
    cost: dict[str, Any]

    @property
    def kind(self) -> str:
        """What counts as one model: the core, and whether relations have inverses."""
        return f"{self.model}, reciprocal" if self.reciprocal else self.model

    @property
    def is_sparse(self) -> bool:
        """Whether the core has learned to do with few entries."""
        return self.learns == "pattern" and self.sizes.core_density <= SPARSE

    @property
    def label(self) -> str:
        """The model and the run."""
        return f"{self.kind} ({self.name})"

    def open(self) -> Run:
        """The run, for what a fit does not hold: its weights."""
        return open_run(self.path)


@dataclass(frozen=True)
class Fits:
    """Fits on the same graph, judged on the same split, in the order given."""

    graph: KnowledgeGraph
    split: SplitName
    fits: tuple[Fit, ...]

    def named(self, text: str) -> Fit:
        """The fit of that name or path."""
        names = [fit.name for fit in self.fits]
        return self.fits[_place(text, names, [fit.path for fit in self.fits])]

    def open(self, fit: Fit) -> Run:
        """The run of a fit with the graph of all, labels included."""
        run = fit.open()
        run.graph = self.graph
        return run


def read_fits(
    paths: Sequence[Path | str],
    split: SplitName = "test",
    *,
    named: Sequence[str] = (),
    relations: Sequence[str] = (),
    names: Sequence[str] | None = None,
    graph: KnowledgeGraph | None = None,
    labels: pl.DataFrame | None = None,
    progress: bool = True,
) -> Fits:
    """Open runs, refuse what cannot be compared, and rank the split with each of them.

    Runs and relations that will be asked for by name are looked up before the long work. Weights
    are let go after ranking, so that many large runs need the memory of one. `names` are those of
    the fits, by default the folders'. `graph` is the whole graph of runs that do not have its test
    triples, such as the trials of a search; `labels` (id, name) go before the graph's own.
    """
    runs = [open_run(path) for path in paths]
    if not runs:
        raise ReltuckerError("there is nothing to compare: give at least one run folder")
    seen: set[Path] = set()
    for run in runs:
        if run.result is None:
            raise RunError(
                f"{run.path}: training has not ended, so the run cannot be compared yet; go on "
                f"with `reltucker resume {run.path}`"
            )
        if run.path.resolve() in seen:
            raise RunError(f"{run.path} is given twice; name each run once")
        seen.add(run.path.resolve())
        if graph is not None and not len(run.graph.test):
            run.graph = replace(run.graph, test=graph.test)
        _check_same(runs[0], run)
        run.graph = runs[0].graph  # one copy serves all runs
    whole = runs[0].graph if labels is None else runs[0].graph.labelled(labels)
    triples = whole.split(split)
    if not whole.is_seen(triples).any():
        kind = " whose entities and relation occur in train" if len(triples) else ""
        raise RunError(
            f"{whole.name} has no {split} triples{kind}, so its runs cannot be compared by them"
        )
    given = [run.path for run in runs]
    names = _names(given) if names is None else names
    for text in named:
        _place(text, names, given)
    for text in relations:
        whole.relations.find(text)
    total = 2 * len(triples) * len(runs)
    shown: Any = track(f"ranking {split}", total, "queries", progress)
    with shown as advance:
        fits = [_judge(run, name, split, advance) for run, name in zip(runs, names, strict=True)]
    return Fits(whole, split, tuple(fits))


def _judge(run: Run, name: str, split: SplitName, advance: Any) -> Fit:
    model, core, result = run.model, run.model.core, run.result
    del run.model  # from the run; it goes when this function ends
    try:
        assert result is not None, "checked above"
        judged = result["seen"]["queries"] > 0
        valid_mrr = {p: float(result[p]["mrr"]) for p in PROTOCOLS} if judged else None
        cost = cost_of(run.recipe, result, model, run.graph)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.path / 'result.json'} is damaged ({error})") from error
    return Fit(
        name=name,
        path=run.path,
        model=core.title,
        reciprocal=model.reciprocal,
        learns=core.learns,
        entity_dim=core.entity_dim,
        relation_dim=None if core.learns == "nothing" else core.relation_dim,
        sizes=sizes_of(model),
        valid_mrr=valid_mrr,
        ranking=rank_split(model, run.graph, split, advance=advance),
        cost=cost,
    )


def _check_same(first: Run, other: Run) -> None:
    """Refuse runs whose figures would not be about the same questions."""
    one, two = first.graph, other.graph
    pairs = ((one.entities, two.entities), (one.relations, two.relations))
    same_names = all(mine.names.equals(theirs.names) for mine, theirs in pairs)
    differing = [name for name in SPLITS if not np.array_equal(one.split(name), two.split(name))]
    if differing or not same_names:
        what = f"their {differing[0]} triples differ" if same_names else "their names differ"
        raise RunError(
            f"{other.path} was trained on another graph or split than {first.path} ({what}); "
            "compare runs of one graph and split"
        )


def _names(paths: list[Path]) -> list[str]:
    """The folders' own names, or where these are not unique the paths as given."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _place(text: str, names: Sequence[str], paths: Sequence[Path]) -> int:
    """Which run is called so, by its name or its path."""
    for place, (name, path) in enumerate(zip(names, paths, strict=True)):
        if text == name or Path(text) == path:
            return place
    raise ReltuckerError(f"{text} is not one of the runs that are compared: {', '.join(names)}")
