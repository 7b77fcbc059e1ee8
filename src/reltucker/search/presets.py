"""Presets: settings for a graph nobody has tuned for, chosen from its sizes alone.

`good` is what `train` uses without a word, `best` takes its time, `fast` does not, and `paper` is
the paper's protocol. What a user has set is kept, and what is chosen fits to it. There is no clock
in it: the same graph gets the same recipe on every machine, busy or idle. The figures behind the
choices are in docs/training.md.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from reltucker.choices import PresetName
from reltucker.errors import RecipeError
from reltucker.graph import COLUMNS, KnowledgeGraph
from reltucker.model import CORES
from reltucker.training import Recipe, TrainSettings, build_model
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS
from reltucker.training.work import epoch_seconds

DEFAULT_PRESET: PresetName = "good"
"""The preset of `train` where neither a recipe file nor an option names one."""

STEP_SECONDS = 0.001
"""What a step takes beside its operations."""

LARGEST_MATRIX = 150_000_000
"""Entries of E: training holds four to six numbers for each."""

MANY_ENTITIES = 30_000
"""Above it, questions are compared with drawn entities."""

SHARED_NEGATIVES = 2_000

STEPS = 50
"""An epoch of a small graph has about so many; a batch has no more than the following."""

SMALLEST_BATCH, LARGEST_BATCH = 10, 400

RATES = {"adagrad": 0.1, "adam": 0.003}
"""Learning rates of optimisers."""

WEIGHTS = {"n3": 0.01, "dura": 0.02}
"""Of regularisers."""


class GraphSizes(NamedTuple):
    """All that a preset looks at."""

    entities: int
    seen_entities: int
    relations: int
    triples: int
    questions: int
    """Distinct (i, k, ?) and (?, k, j) of train."""

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        """Count."""
        train = graph.train.astype(np.int64)
        questions = 0
        for given, relation, _ in (COLUMNS["object"], COLUMNS["subject"]):
            keys = train[:, given] * len(graph.relations) + train[:, relation]
            questions += len(np.unique(keys))
        sizes = len(graph.entities), graph.seen_entities, len(graph.relations)
        return cls(*sizes, len(train), questions)


@dataclass(frozen=True)
class Effort:
    """How much a preset may spend. The seconds are those of `training.work`, from sizes."""

    seconds: float
    entity_dims: tuple[int, ...]
    """Of cores with coordinates, largest first."""
    matrix_dims: tuple[int, ...]
    """Of cores with mixing matrices."""
    epochs: tuple[int, int]
    """As many as there is time for, between these; d_e is the largest that allows the first."""


EFFORTS: dict[PresetName, Effort] = {
    "fast": Effort(20, (100, 60, 40, 20), (60, 40, 20), (10, 60)),
    "good": Effort(300, (400, 200, 100, 60, 40, 20), (100, 60, 40, 20), (20, 200)),
    "best": Effort(5400, (2000, 1000, 600, 400, 200, 100, 40), (200, 100, 60, 20), (40, 400)),
}


def filled(recipe: Recipe, graph: KnowledgeGraph) -> Recipe:
    """The recipe with what its preset chooses for the graph; what was set is kept."""
    if not recipe.is_open:
        return recipe
    assert recipe.recipe.preset is not None
    chosen = choose(recipe.recipe.preset, GraphSizes.of(graph), recipe.given())
    return recipe.with_values({**chosen, "recipe.settled": True}, "preset")


def choose(preset: PresetName, sizes: GraphSizes, given: dict[str, Any]) -> dict[str, Any]:
    """What a preset adds to the settings that were given, both by dotted key."""
    if preset == "paper":
        return {}
    wanted: dict[str, Any] = {"model.name": _core_for(given)} | given
    if CORES[wanted["model.name"]].learns == "pattern":
        wanted |= _as_published(sizes)
    else:
        wanted |= {"model.reciprocal": True, "train.objective": _objective_for(sizes, given)}
        wanted |= given
        wanted |= _asked(sizes, wanted)
        is_matrix = _has_matrices(wanted)
        if wanted.get("model.batch_norm", is_matrix and wanted["model.reciprocal"]):
            wanted |= _normalised(sizes)
        else:
            wanted |= _held_by_dura(sizes) if is_matrix else _held_by_n3(sizes)
    wanted = _fitting(wanted | given)
    return {key: value for key, value in _within(preset, sizes, wanted).items() if key not in given}


# -- core and objective -------------------------------------------------------------------------


def _core_for(given: dict[str, Any]) -> str:
    """A core that has what was set: options, a free d_r, a density to be learned; else ComplEx."""
    learns = "nothing"
    if given.get("model.relation_dim") is not None:
        learns = "entries"
    if given.get("train.max_density") is not None:
        learns = "pattern"
    options = {key[5:] for key in given if key.startswith("core.")}
    names = ("complex", *CORES)
    having = [name for name in names if options <= CORES[name].Options.model_fields.keys()]
    fitting = [name for name in having if options or CORES[name].learns == learns]
    return (fitting or names)[0]


def _has_matrices(wanted: dict[str, Any]) -> bool:
    """Whether a relation may have more free parameters than an entity has coordinates: that is so
    for learned cores and for RESCAL."""
    parts = ("model.name", "model.entity_dim", "core.")
    named = {key: value for key, value in wanted.items() if key.startswith(parts)}
    recipe = Recipe().with_values({"model.entity_dim": 60} | named)
    core, size = CORES[recipe.model.name], recipe.model.entity_dim
    return core.learns != "nothing" or core.build(size, None, 1, **recipe.core).relation_dim > size


def _objective_for(sizes: GraphSizes, given: dict[str, Any]) -> str:
    """All entities where there are few, drawn ones where there are many; another objective where
    something was set that only that one reads."""
    first = "k_vs_all" if sizes.entities <= MANY_ENTITIES else "negative_sampling"
    special = {key for objective in OBJECTIVES.values() for key in objective.reads}
    asked = {key for key in special if f"train.{key}" in given}
    fitting = (name for name in (first, *OBJECTIVES) if asked <= OBJECTIVES[name].reads)
    return next(fitting, first)


def _asked(sizes: GraphSizes, wanted: dict[str, Any]) -> dict[str, Any]:
    """How questions are asked. With exponent 1 every triple counts the same, as in `one_vs_all`;
    a small graph needs small batches, to have steps enough."""
    by_question = OBJECTIVES[wanted["train.objective"]].items == "questions"
    items = sizes.questions if by_question else sizes.triples
    return {
        "train.batch_size": min(LARGEST_BATCH, max(SMALLEST_BATCH, items // STEPS)),
        "train.negatives": max(1, min(SHARED_NEGATIVES, sizes.seen_entities - 1)),
        "train.shared_negatives": True,
        "train.answer_exponent": 1.0,
        "train.answers_at_once": 8,
    }


# -- what keeps a model from learning by heart ---------------------------------------------------


def _normalised(sizes: GraphSizes) -> dict[str, Any]:
    """Batch normalisation and much dropout, as in TuckER."""
    return {
        "model.batch_norm": True,
        "train.optimizer": "adam",
        "train.schedule": "exponential",
        "train.decay": 0.98,
        "train.averaged_epochs": 3.0,
        "train.entity_dropout": 0.0,
        "train.given_dropout": 0.3,
        "train.mixing_dropout": 0.2,
        "train.query_dropout": 0.4,
    }


def _held_by_n3(sizes: GraphSizes) -> dict[str, Any]:
    """N3 and relation prediction, from small initial values."""
    return {
        "model.init_scale": 0.02,
        "train.regularizer": "n3",
        "train.relation_prediction": 0.25,
        "train.entity_dropout": 0.0,
        "train.mixing_dropout": 0.0,
    }


def _held_by_dura(sizes: GraphSizes) -> dict[str, Any]:
    """DURA and the mean of the weights."""
    return {
        "train.regularizer": "dura",
        "train.warm_up_epochs": 1.0,
        "train.averaged_epochs": 3.0,
        "train.entity_dropout": 0.0,
        "train.mixing_dropout": 0.0,
    }


def _as_published(sizes: GraphSizes) -> dict[str, Any]:
    """The paper's protocol, against whose loss the penalty of a gated core is balanced, with
    batches and negatives that a small graph can have."""
    return {
        "train.batch_size": min(500, max(SMALLEST_BATCH, sizes.triples // STEPS)),
        "train.negatives": max(1, min(24, sizes.seen_entities - 1)),
        "train.patience": 30,
    }


def _fitting(wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted, with what follows from it, and without what would have no effect."""
    defaults: dict[str, Any] = {
        "train.learning_rate": RATES[wanted.get("train.optimizer", "adagrad")]
    }
    if wanted.get("train.regularizer_weight", 0.0) > 0.0:
        defaults["train.regularizer"] = "dura" if _has_matrices(wanted) else "n3"
    if (regularizer := wanted.get("train.regularizer", "none")) != "none":
        defaults["train.regularizer_weight"] = WEIGHTS.get(regularizer, 0.01)
    wanted = defaults | wanted
    idle: set[str] = set()
    for section, registry in (("objective", OBJECTIVES), ("regularizer", REGULARIZERS)):
        default = getattr(TrainSettings(), section)
        read = registry[wanted.get(f"train.{section}", default)].reads
        idle |= {key for one in registry.values() for key in one.reads} - read
    if wanted.get("train.loss") == "binary":
        idle |= {"answers_at_once", "answer_exponent"}
    if wanted.get("train.schedule") != "exponential":
        idle.add("decay")
    if wanted.get("train.regularizer_weight") == 0.0:
        idle.add("regularizer")
    return {key: value for key, value in wanted.items() if key.removeprefix("train.") not in idle}


# -- how large, how long ------------------------------------------------------------------------


def _within(preset: PresetName, sizes: GraphSizes, wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted with the largest d_e with which the least number of epochs keeps to the
    effort, and as many epochs as there is time for."""
    effort = EFFORTS[preset]
    dims = effort.matrix_dims if _has_matrices(wanted) else effort.entity_dims
    least, most = effort.epochs
    for dim in dims:
        chosen = {"model.entity_dim": dim} | wanted
        entity_dim = chosen["model.entity_dim"]
        seconds = _epoch_seconds(chosen, sizes)
        if sizes.entities * entity_dim <= LARGEST_MATRIX and least * seconds <= effort.seconds:
            break
    epochs = max(least, min(most, int(effort.seconds / seconds)))
    return {"train.epochs": epochs, "train.patience": max(5, epochs // 5)} | chosen


def _epoch_seconds(values: dict[str, Any], sizes: GraphSizes) -> float:
    """An epoch with these settings, by sizes."""
    recipe = Recipe().with_values({**values, "recipe.settled": True}, "preset")
    with torch.device("meta"):
        model = build_model(recipe, sizes.entities, sizes.relations)
    settings = recipe.train
    by_question = settings.objective_class.items == "questions"
    items = sizes.questions if by_question else sizes.triples
    steps = -(-items // settings.batch_size)
    return epoch_seconds(model, settings, items) + steps * STEP_SECONDS


# -- what a command was given -------------------------------------------------------------------


def graph_and_recipe(
    argument: str,
    values: dict[str, Any],
    assignments: list[str],
    *,
    preset: PresetName | None = None,
    graph: str | None = None,
) -> tuple[str, Recipe]:
    """What `train` was given: a graph, or a recipe file and perhaps another graph than its own.

    Paths in a recipe file are looked for beside it first, then in the working directory. Without a
    file the preset is `good`; a file that names none keeps to the defaults.
    """
    path = Path(argument)
    if path.suffix.lower() != ".toml":
        if graph is not None:
            raise RecipeError(
                f"--graph {graph}: it is for a recipe file, and {argument} is a graph"
            )
        recipe = Recipe.preset(preset or DEFAULT_PRESET).with_values({"graph.source": argument})
    else:
        recipe = Recipe.load(path).with_paths_beside(path.parent)
        if graph is not None:
            recipe = recipe.on(graph)
        if preset is not None:
            recipe = recipe.by_preset(preset)
    recipe = recipe.with_values(values).changed(assignments)
    if recipe.graph.source is None:
        raise RecipeError(f"{path}: graph.source is missing; name a catalog entry, file or folder")
    return recipe.graph.source, recipe
