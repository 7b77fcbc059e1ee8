"""Presets: settings for a graph nobody has tuned for, chosen from its sizes alone.

`good` is what `train` uses without a word, `best` takes its time, `fast` does not, and `paper` is
the paper's protocol. What a user has set is kept, and what is chosen fits to it. There is no clock
in it: the same graph gets the same recipe on every machine, busy or idle. The figures behind the
choices are in docs/results.md.
"""

import math
from dataclasses import dataclass
from typing import Any

from reltucker.choices import PresetName
from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import CORES
from reltucker.search.graph_sizes import GraphSizes
from reltucker.training import Recipe, TrainSettings, names_recipe, recipe_file
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS, Objective

DEFAULT_PRESET: PresetName = "good"
"""The preset of `train` where neither a recipe file nor an option names one."""

LARGEST_MATRIX = 250_000_000
"""Entries of E: training holds four to six numbers for each."""

MANY_ENTITIES = 20_000
"""Above it, a triple is compared with drawn entities; below, a question with all of them."""

DRAWN = 2_000
"""Entities that stand for all others. With questions that loses a point of MRR; `fast` does so
where there are three times as many."""

STEPS = 50
"""An epoch of a small graph has about so many."""

LARGEST_BATCHES = {"questions": 400, "triples": 300}
"""A million items may have larger ones."""

RATES = {"adagrad": 0.1, "adam": 0.003}
"""Learning rates of optimisers."""


@dataclass(frozen=True)
class Effort:
    """How much a preset may spend. The seconds are those of `training.work`, from sizes."""

    seconds: float
    """Up to 300,000 triples; in proportion to them above, up to four times as much."""
    entity_dims: tuple[int, ...]
    """Sizes of cores that keep M_k as a vector, largest first."""
    matrix_dims: tuple[int, ...]
    """Sizes of cores with mixing matrices."""
    epochs: tuple[int, int]
    """As many as there is time for, between these; d_e is the largest that allows the first. Above
    200,000 triples the first falls with their square root."""
    draws: bool = False
    """Whether questions, too, are compared with drawn entities where there are many."""

    def time_for(self, sizes: GraphSizes) -> float:
        """Seconds for a graph."""
        return self.seconds * min(4.0, max(1.0, sizes.triples / 300_000))

    def least_epochs(self, sizes: GraphSizes) -> int:
        """So many there should be."""
        return max(8, round(self.epochs[0] * min(1.0, math.sqrt(200_000 / sizes.triples))))


SMALL = (200, 100, 60, 40, 20)

EFFORTS: dict[PresetName, Effort] = {
    "fast": Effort(30, SMALL, SMALL[2:], (5, 40), draws=True),
    "good": Effort(900, (500, 400, 300, *SMALL), SMALL[1:], (12, 100)),
    "best": Effort(7_200, (2_000, 1_600, 1_000, 600, 400, *SMALL), SMALL, (20, 200)),
}


def filled(recipe: Recipe, graph: KnowledgeGraph) -> Recipe:
    """The recipe with what its preset chooses for the graph; what was set is kept."""
    if not recipe.is_open or not len(graph.train):  # which `check` refuses
        return recipe
    assert recipe.recipe.preset is not None
    chosen = choose(recipe.recipe.preset, GraphSizes.of(graph), recipe.given())
    return recipe.with_values({**chosen, "recipe.settled": True}, "preset")


def choose(preset: PresetName, sizes: GraphSizes, given: dict[str, Any]) -> dict[str, Any]:
    """What a preset adds to the settings that were given, both by dotted key."""
    if preset == "paper":
        return {}
    effort = EFFORTS[preset]
    wanted: dict[str, Any] = {"model.name": _core_for(given)} | given
    core = CORES[wanted["model.name"]]
    if core.learns == "pattern":
        wanted |= _as_published(sizes)
    else:
        objective = given.get("train.objective", _objective_for(sizes, given))
        wanted = {"model.reciprocal": True, "train.objective": objective} | wanted
        wanted |= _asked(sizes, OBJECTIVES[objective])
        if effort.draws and sizes.entities > 3 * DRAWN:
            wanted["train.sampled_epochs"] = effort.epochs[1]
        normal = core.has_matrices and wanted["model.reciprocal"] and not sizes.is_sparse
        if given.get("model.batch_norm", normal):
            wanted |= _normalised(sizes)
        else:
            wanted |= _held(sizes, core.has_matrices)
    wanted = _fitting(wanted | given, sizes)
    dims = effort.matrix_dims if core.has_matrices else effort.entity_dims
    wanted = _timed(_sized(wanted, effort, dims, sizes), effort, sizes)
    return {key: value for key, value in wanted.items() if key not in given}


# -- core and objective -------------------------------------------------------------------------


def _core_for(given: dict[str, Any]) -> str:
    """A core that has what was set: options, a free d_r, mixing matrices, a density to be learned;
    else ComplEx."""
    learns = "nothing"
    if given.get("model.relation_dim") is not None or given.get("train.orthogonality"):
        learns = "entries"
    if given.get("train.max_density") is not None:
        learns = "pattern"
    options = {key[5:] for key in given if key.startswith("core.")}
    names = ("complex", *CORES)
    having = [name for name in names if options <= CORES[name].Options.model_fields.keys()]
    fitting = [name for name in having if options or CORES[name].learns == learns]
    return (fitting or names)[0]


def _objective_for(sizes: GraphSizes, given: dict[str, Any]) -> str:
    """Questions with all answers where entities are few, triples against drawn ones where they are
    many; another objective where something was set that only that one reads."""
    first = "k_vs_all" if sizes.entities <= MANY_ENTITIES else "negative_sampling"
    special = {key for objective in OBJECTIVES.values() for key in objective.reads}
    asked = {key for key in special if f"train.{key}" in given}
    if "negatives" in asked and "sampled_epochs" not in asked:
        asked.add("shared_negatives")  # they are drawn in every epoch
    fitting = (name for name in (first, *OBJECTIVES) if asked <= OBJECTIVES[name].reads)
    return next(fitting, first)


def _asked(sizes: GraphSizes, objective: type[Objective]) -> dict[str, Any]:
    """How questions are asked. With exponent 1 every triple counts the same, as in `one_vs_all`;
    a small graph needs small batches, to have steps enough."""
    items = sizes.items(objective)
    most = max(LARGEST_BATCHES[objective.items], min(1_000, items // 1_000))
    return {
        "train.batch_size": min(most, max(10, items // STEPS)),
        "train.negatives": max(1, min(DRAWN, sizes.seen_entities - 1)),
        "train.shared_negatives": True,
        "train.answer_exponent": 1.0,
        "train.answers_at_once": 2,
    }


# -- what keeps a model from learning by heart ---------------------------------------------------


def _normalised(sizes: GraphSizes) -> dict[str, Any]:
    """Batch normalisation and dropout, as in TuckER; more of it where there is more to learn."""
    large = sizes.entities >= 1_000
    return {
        "model.batch_norm": True,
        "train.optimizer": "adam",
        "train.schedule": "exponential",
        "train.averaged_epochs": 3.0,
        "train.entity_dropout": 0.0,
        "train.given_dropout": 0.4 if large else 0.2,
        "train.mixing_dropout": 0.3 if large else 0.1,
        "train.query_dropout": 0.5 if large else 0.3,
    }


def _held(sizes: GraphSizes, has_matrices: bool) -> dict[str, Any]:
    """A regulariser: N3, or DURA where an entity has few triples, which then learns from those of
    its neighbours. Matrices have DURA always, are held near orthogonal ones, and averaged."""
    settings: dict[str, Any] = {
        "train.regularizer": "dura" if has_matrices or sizes.is_sparse else "n3",
        "train.entity_dropout": 0.0,
        "train.mixing_dropout": 0.0,
    }
    if has_matrices:
        averaged = {"train.warm_up_epochs": 1.0, "train.averaged_epochs": 3.0}
        return settings | averaged | {"train.orthogonality": 0.01}
    # Predicting relations counts the more the more of them are to be told apart.
    weight = min(4.0, max(0.05, (sizes.relations / 100) ** 2))
    return settings | {"model.init_scale": 0.02, "train.relation_prediction": _rounded(weight)}


def _as_published(sizes: GraphSizes) -> dict[str, Any]:
    """The paper's protocol, against whose loss the penalty of a gated core is balanced, with
    batches and negatives that a small graph can have."""
    return {
        "train.batch_size": min(500, max(10, sizes.triples // STEPS)),
        "train.negatives": max(1, min(24, sizes.seen_entities - 1)),
        "train.patience": 30,
    }


def regularizer_weight(regularizer: str, sizes: GraphSizes) -> float:
    """Less in a graph of few entities, each of which has many triples, and in very large ones;
    more where an entity has few."""
    if sizes.entities > 50_000 and not sizes.is_sparse:
        return 0.01
    weight = max(0.01, 0.05 * min(1.0, (sizes.entities / 4_000) ** 0.75))
    more = (3.0 if regularizer == "dura" else 2.0) if sizes.is_sparse else 1.0
    return _rounded(more * weight)


def _fitting(wanted: dict[str, Any], sizes: GraphSizes) -> dict[str, Any]:
    """What is wanted, with what follows from it, and without what would have no effect."""
    implied: dict[str, Any] = {
        "train.learning_rate": RATES[wanted.get("train.optimizer", "adagrad")]
    }
    has_matrices = CORES[wanted["model.name"]].has_matrices
    if wanted.get("train.regularizer_weight", 0.0) > 0.0:
        implied["train.regularizer"] = "dura" if has_matrices else "n3"
    if (regularizer := wanted.get("train.regularizer", "none")) != "none":
        implied["train.regularizer_weight"] = regularizer_weight(regularizer, sizes)
    wanted, default = implied | wanted, TrainSettings()
    idle: set[str] = set()
    for section, registry in (("objective", OBJECTIVES), ("regularizer", REGULARIZERS)):
        read = registry[wanted.get(f"train.{section}", getattr(default, section))].reads
        idle |= {key for one in registry.values() for key in one.reads} - read
    if wanted.get("train.loss") == "binary":
        idle |= {"answers_at_once", "answer_exponent", "sampled_epochs"}
    if wanted.get("train.regularizer_weight") == 0.0:
        idle.add("regularizer")
    kept = {key: value for key, value in wanted.items() if key.removeprefix("train.") not in idle}
    always_draws = "shared_negatives" not in idle
    if not always_draws and not kept.get("train.sampled_epochs"):
        kept.pop("train.negatives", None)
        kept.pop("train.sampled_weights", None)
    return kept


def _rounded(value: float) -> float:
    """Two digits, as a person would write it."""
    return float(f"{value:.2g}")


# -- how large, how long ------------------------------------------------------------------------


def _sized(
    wanted: dict[str, Any], effort: Effort, dims: tuple[int, ...], sizes: GraphSizes
) -> dict[str, Any]:
    """What is wanted with the largest d_e for which there is memory and time."""
    for dim in dims if "model.entity_dim" not in wanted else ():
        wanted = wanted | {"model.entity_dim": dim}
        seconds = effort.least_epochs(sizes) * _epoch_seconds(wanted, effort, sizes)
        if sizes.entities * dim <= LARGEST_MATRIX and seconds <= effort.time_for(sizes):
            break
    return wanted


def _timed(wanted: dict[str, Any], effort: Effort, sizes: GraphSizes) -> dict[str, Any]:
    """What is wanted with as many epochs as there is time for, and what depends on them."""
    possible = int(effort.time_for(sizes) / _epoch_seconds(wanted, effort, sizes))
    epochs = max(effort.least_epochs(sizes), min(effort.epochs[1], possible))
    wanted = {"train.epochs": epochs} | wanted
    epochs = wanted["train.epochs"]
    if CORES[wanted["model.name"]].learns == "pattern":  # most epochs are for getting sparse
        wanted = {"core.warm_up_epochs": min(25, epochs // 4)} | wanted
    if wanted.get("train.schedule") == "exponential":  # the rate ends at a tenth
        wanted = {"train.decay": round(0.1 ** (1 / epochs), 4)} | wanted
    return {"train.patience": max(5, epochs // 5)} | wanted


def _epoch_seconds(wanted: dict[str, Any], effort: Effort, sizes: GraphSizes) -> float:
    """An epoch with these settings, by sizes."""
    values = {"train.epochs": effort.epochs[1]} | wanted | {"recipe.settled": True}
    return sizes.epoch_seconds(Recipe().with_values(values, "preset"))


# -- what a command was given -------------------------------------------------------------------


def graph_and_recipe(
    argument: str,
    values: dict[str, Any],
    assignments: list[str],
    *,
    preset: PresetName | None = None,
    graph: str | None = None,
    base: Recipe | None = None,
) -> tuple[str, Recipe]:
    """What `train` was given: a graph, or a recipe and perhaps another graph than its own. A recipe
    is a file, or the name of one that comes with the program.

    Paths in a recipe file are looked for beside it first, then in the working directory. Without a
    file the preset is `good`, or `base` has all settings; a file that names none keeps to the
    defaults.
    """
    if not names_recipe(argument):
        if graph is not None:
            raise RecipeError(f"--graph {graph}: it is for a recipe, and {argument} is a graph")
        if base is None:
            base = Recipe.preset(preset or DEFAULT_PRESET)
        elif preset is not None:
            base = base.by_preset(preset)
        recipe = base.on(argument)
    else:
        path = recipe_file(argument)
        recipe = Recipe.load(path).with_paths_beside(path.parent)
        if graph is not None:
            recipe = recipe.on(graph)
        if preset is not None:
            recipe = recipe.by_preset(preset)
    recipe = recipe.with_values(values, "option").changed(assignments, "--set")
    if recipe.graph.source is None:
        raise RecipeError(
            f"{argument}: graph.source is missing; name a catalog entry, file or folder"
        )
    return recipe.graph.source, recipe
