"""The plan of a study: which models of which sizes are fitted, each by a search of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import torch

from reltucker.errors import GraphError, StudyError
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.model import CORES
from reltucker.search import Outcome, Space, bounds_of, digest, make_plan, recipe_and_space
from reltucker.study.paper import BUDGET, MATCHED, MATCHED_STEP, MODELS, SIZES, TRIALS
from reltucker.training import Recipe, build_model


@dataclass(frozen=True)
class PlannedFit:
    """A model of one size: its settings, the space that is searched, how many trials, and what has
    come out of them up to now."""

    name: str
    recipe: Recipe
    space: Space
    points: int
    """Of the grid."""
    trials: int
    outcome: Outcome = field(default_factory=lambda: Outcome([], [], {}))

    @property
    def model(self) -> str:
        """The core."""
        return self.recipe.model.name

    @property
    def work(self) -> int:
        """How the time of a trial grows with the entity size, within one model."""
        with torch.device("meta"):
            return build_model(self.recipe, 1, 1).core.query_work()

    @property
    def ended(self) -> list[dict[str, Any]]:
        """The trials that ended, with a model or without."""
        return [row for row in self.outcome.rows if row["state"] not in ("running", "waiting")]

    @property
    def remaining(self) -> int:
        """How many trials are still to be run."""
        return max(0, self.trials - len(self.ended))

    @property
    def seconds_each(self) -> float | None:
        """The mean duration of its trials; None before one has ended with a model."""
        seconds = [row["seconds"] for row in self.outcome.complete]
        return mean(seconds) if seconds else None

    @property
    def reason(self) -> str:
        """Why it has no model."""
        reasons = (str(row["reason"]) for row in self.ended if row["reason"])
        return next(reasons, "no trial has ended")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; a relation_dim of None is searched, or follows from entity_dim."""
        settings, best = self.recipe.model, self.outcome.best
        return {
            "name": self.name,
            "model": self.model,
            "entity_dim": settings.entity_dim,
            "relation_dim": settings.relation_dim,
            "reciprocal": settings.reciprocal,
            "space": self.space.source,
            "searched": list(self.space.parameters),
            "points": self.points,
            "trials": self.trials,
            "done": len(self.ended),
            "failed": self.outcome.count("failed"),
            "remaining": self.remaining,
            "seconds_each": self.seconds_each,
            "valid_mrr": None if best is None else best["mrr"],
        }


@dataclass(frozen=True)
class StudyPlan:
    """The fits of a study in the order in which they are made, and the graph."""

    source: str
    graph: KnowledgeGraph
    digest: str
    models: tuple[str, ...]
    fits: tuple[PlannedFit, ...]
    seed: int

    def place(self, fit: PlannedFit) -> tuple[bool, int, int]:
        """Where a fit stands in a table: models as they were named, then those that an option
        added; fits with reciprocal relations after all others; sizes rising."""
        order = list(dict.fromkeys([*self.models, *(other.model for other in self.fits)]))
        return fit.recipe.model.reciprocal, order.index(fit.model), fit.recipe.model.entity_dim


def plan_study(
    source: str,
    *,
    models: Sequence[str] = MODELS,
    sizes: Sequence[int] = SIZES,
    trials: int = TRIALS,
    reciprocal: bool = False,
    match_parameters: bool = False,
    values: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seed: int = 0,
) -> StudyPlan:
    """Plan a search with the paper's sampler for each model and entity size, smallest first.

    The grid is the paper's where the graph has one, else the default one; `values` and
    `assignments` are settings that are not searched. `reciprocal` adds fits with reciprocal
    relations of all fixed cores; `match_parameters` adds DRT with the budgets of ComplEx. What
    cannot be fitted is refused here, before anything is trained.
    """
    models, sizes = list(dict.fromkeys(models)), sorted(set(sizes))
    given = dict(values or {})
    first = Recipe().with_values({"graph.source": source, **given}, "option")
    first = first.changed(assignments, "--set")
    for model in models:
        first.with_values({"model.name": model}, "--models")
    wanted: dict[str, dict[str, Any]] = {
        f"{model}-{size}": {"model.name": model, "model.entity_dim": size}
        for size in sizes
        for model in models
    }
    if reciprocal:
        fixed = [name for name, core in CORES.items() if core.learns == "nothing"]
        if not set(fixed) & set(models):
            names = ", ".join(fixed)
            raise StudyError(f"--reciprocal needs a fixed core among --models: one of {names}")
        wanted |= {
            f"{name}-reciprocal": {**settings, "model.reciprocal": True}
            for name, settings in wanted.items()
            if settings["model.name"] in fixed
        }
    graph = load_graph(source, **first.graph.reading())
    if not graph.is_seen(graph.test).any():
        raise GraphError(f"{graph.name}: a study needs test triples whose entities occur in train")
    if match_parameters:
        for size in dict.fromkeys(matched_size(graph, size) for size in sizes):
            wanted[f"{MATCHED}-{size}-matched"] = {
                "model.name": MATCHED,
                "model.entity_dim": size,
                "model.relation_dim": len(graph.relations),
            }
    fits = []
    for name, settings in wanted.items():
        both = {**given, **settings}
        recipe, space = recipe_and_space(source, None, "paper", both, assignments)
        if recipe != recipe.with_values(settings):
            raise StudyError("--set: a study chooses models and sizes by --models and --sizes")
        plan = make_plan(recipe, space, graph, "paper", seed=seed)
        fits.append(PlannedFit(name, recipe, space, len(plan.grid()), plan.trial_count(trials)))
    fits.sort(key=lambda fit: fit.recipe.model.entity_dim)
    return StudyPlan(source, graph, digest(graph), tuple(models), tuple(fits), seed)


def matched_size(graph: KnowledgeGraph, size: int) -> int:
    """The entity size with which DRT, d_r = K, has about the effective parameters of ComplEx.

    Of the multiples of 4 the one that comes nearest: the paper's 32, 52 and 84 next to 50, 100 and
    200 on FB15K-237.
    """
    entities, relations = len(graph.entities), len(graph.relations)

    def parameters(model: str, size: int, relation_dim: int | None = None) -> int:
        settings = {"name": model, "entity_dim": size, "relation_dim": relation_dim}
        values = {f"model.{key}": value for key, value in settings.items() if value is not None}
        return bounds_of(Recipe().with_values(values), entities, relations).most

    wanted = parameters(BUDGET, size)
    candidates = range(MATCHED_STEP, max(size, MATCHED_STEP) + 1, MATCHED_STEP)
    return min(candidates, key=lambda own: abs(parameters(MATCHED, own, relations) - wanted))


def parse_names(option: str, text: str) -> list[str]:
    """A list as a person writes it: complex,drt,srt."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise StudyError(f"{option}: name at least one, such as {MODELS[0]}")
    return names


def parse_sizes(option: str, text: str) -> list[int]:
    """Whole numbers above 0 as a person writes them: 50,100,200."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise StudyError(f"{option} {text}: write whole numbers such as 50,100,200")
    return [int(part) for part in parts]
