"""What is settled before training begins: the model, the device, and that it can be done at all;
and the model of a run, when that has ended."""

import warnings

import torch

from reltucker.errors import GraphError, RecipeError, RunError
from reltucker.graph import KnowledgeGraph
from reltucker.machine import physical_memory
from reltucker.model import CORES, RelationalTucker
from reltucker.peers import ALONE, Peers
from reltucker.training.recipe import Recipe, RecipeWarning, refuse_idle
from reltucker.training.run_folder import BEST, RunFolder
from reltucker.training.validation import is_possible, settle

BYTES = 4


def build_model(
    recipe: Recipe, entities: int, relations: int, peers: Peers = ALONE
) -> RelationalTucker:
    """The model of a recipe for a graph of this size, its parameters not yet drawn."""
    settings = recipe.model
    core = CORES[settings.name].build(
        settings.entity_dim, settings.relation_dim, relations, **recipe.core
    )
    return RelationalTucker(
        entities,
        relations,
        core,
        reciprocal=settings.reciprocal,
        batch_norm=settings.batch_norm,
        peers=peers,
    )


def trained_model(
    folder: RunFolder, graph: KnowledgeGraph, peers: Peers = ALONE
) -> RelationalTucker:
    """The model of a run with the weights of its best epoch, for use."""
    tensors = folder.best_tensors(peers, len(graph.entities))
    recipe = folder.recipe()
    try:
        model = build_model(recipe, len(graph.entities), len(graph.relations), peers)
        model.load_serving_state(tensors, in_place=True)
    except (IndexError, KeyError, RuntimeError, ValueError) as error:
        path = folder.path / BEST
        raise RunError(f"{path} does not fit the run's recipe and vocabulary") from error
    return model.eval().to(choose_device(recipe.train.device)).requires_grad_(False)


def choose_device(wanted: str) -> torch.device:
    """The device of a recipe: `auto` takes CUDA where there is one."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise RunError("train.device = 'cuda', but torch sees no CUDA device; use 'cpu' or 'auto'")
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def check(recipe: Recipe, graph: KnowledgeGraph, processes: int = 1, here: int = 1) -> None:
    """Refuse what cannot be trained, before any file is written. Of so many processes that train
    together, some are here, and share the memory of this machine."""
    settings = recipe.train
    if not len(graph.train):
        raise GraphError(f"{graph.name}: there are no training triples")
    if processes > len(graph.entities):
        raise RunError(
            f"{graph.name} has {len(graph.entities)} entities, too few for {processes} processes"
        )
    if settings.draws and graph.seen_entities < 2:
        raise GraphError(f"{graph.name}: train has one entity, so there are no negatives to draw")
    refuse_idle(recipe)
    settings.objective_class.check(settings)
    if settings.schedule == "plateau" and not is_possible(graph):
        raise RecipeError(
            f"train.schedule = 'plateau': {graph.name} has no validation triples that would show "
            "a plateau; choose 'constant' or 'exponential'"
        )
    if CORES[recipe.model.name].learns == "pattern" and warms_up_to_the_end(recipe):
        warnings.warn(
            f"train.epochs = {settings.epochs} ends within the warm-up of the penalty, so the core "
            "will not get sparse; train longer or lower core.warm_up_epochs",
            RecipeWarning,
            stacklevel=2,
        )
    with torch.device("meta"):
        model = build_model(recipe, len(graph.entities), len(graph.relations))
    # A parameter, its gradient, one or two numbers of the optimiser, the best value so far, a mean.
    copies = 4 + (settings.optimizer == "adam") + bool(settings.averaged_epochs)
    shared = sum(p.numel() for name, p in model.named_parameters() if name != "E")
    of_entities = model.E.numel() * here // processes
    numbers = copies * (of_entities + here * shared)
    if settings.entity_dropout and not settings.objective_class.by_rows:
        numbers += of_entities  # E after dropout
    needed = BYTES * numbers
    if needed > physical_memory():
        raise RecipeError(
            f"model.entity_dim and model.relation_dim: training would need about "
            f"{needed / 2**30:,.0f} GiB of memory, and the machine has "
            f"{physical_memory() / 2**30:,.0f}; choose smaller ones"
        )
    choose_device(settings.device)


def warms_up_to_the_end(recipe: Recipe) -> bool:
    """Whether there is no epoch in which the penalty of a core counts."""
    options = CORES[recipe.model.name].Options(**recipe.core)
    return getattr(options, "warm_up_epochs", 0) >= recipe.train.epochs


def settled(recipe: Recipe, graph: KnowledgeGraph) -> Recipe:
    """The recipe with everything chosen that sizes decide, as it is written into a run."""
    others = graph.seen_entities - 1
    if recipe.train.draws and recipe.train.negatives > others:
        warnings.warn(
            f"train.negatives = {recipe.train.negatives}: {graph.name} has {others} other entities "
            "in train, so all of these are drawn",
            RecipeWarning,
            stacklevel=2,
        )
        recipe = recipe.with_values({"train.negatives": others})
    with torch.device("meta"):
        model = build_model(recipe, len(graph.entities), len(graph.relations))
    options = CORES[recipe.model.name].Options(**recipe.core).model_dump()
    return settle(recipe.with_values({f"core.{k}": v for k, v in options.items()}), model, graph)
