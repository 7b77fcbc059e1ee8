"""A training run that begins with the weights of another one.

What both graphs know keeps its rows of E and R, the core and the normalisation are taken over, and
everything else is drawn as usual. The weights stand in the new run's own folder, so that it needs
the other one no longer, and is resumed exactly, from its very beginning if need be.
"""

from typing import Any

import torch
from torch import Tensor

from reltucker.errors import RecipeError, RunError
from reltucker.graph import KnowledgeGraph, Vocabulary, warn_of_trained
from reltucker.model import CORES, RelationalTucker
from reltucker.training.recipe import Recipe
from reltucker.training.run_folder import START, RunFolder


def starting_recipe(folder: RunFolder, model: RelationalTucker, recipe: Recipe) -> Recipe:
    """The recipe for a start from a run with this model, d_r being the model's where it is open;
    refused where core or sizes are not those of the run."""
    if recipe.is_open:
        raise RecipeError(
            f"recipe.preset = {recipe.recipe.preset!r}: a run that starts from {folder.path} has "
            "its sizes already; leave the preset out"
        )
    if recipe.model.relation_dim is None:
        recipe = recipe.with_values({"model.relation_dim": model.core.relation_dim})
    own = folder.recipe().with_values({"model.relation_dim": model.core.relation_dim})
    keys = [f"model.{key}" for key in ("name", "entity_dim", "relation_dim", "reciprocal")]
    keys.append("model.batch_norm")
    if CORES[own.model.name].learns != "pattern":  # whose options are about training alone
        keys += [f"core.{option}" for option in CORES[own.model.name].Options.model_fields]
    for key in keys:
        asked, found = (_value(each, key) for each in (recipe, own))
        if asked != found:
            raise RecipeError(
                f"{key} = {asked!r}: {folder.path}, from which training starts, has {found!r}; "
                "leave it out, or train without a start"
            )
    return recipe


def save_start(
    target: RunFolder,
    folder: RunFolder,
    model: RelationalTucker,
    before: KnowledgeGraph,
    graph: KnowledgeGraph,
) -> None:
    """Write what a run on `graph` begins with: the rows of a model of `before` for the names that
    were trained in it and are in the graph, its core and its normalisation."""
    warn_of_trained(graph, before)
    entities, old = _known(graph.entities, before.entities, before.seen_entities)
    relations, rows = _known(graph.relations, before.relations, before.seen_relations)
    counts = {"entities": len(entities), "relations": len(relations)}
    if model.reciprocal:
        relations = torch.cat([relations, relations + len(graph.relations)])
        rows = torch.cat([rows, rows + len(before.relations)])
    tensors = model.serving_state()
    tensors |= {
        "E": tensors["E"][old.to(model.E.device)],
        "R": tensors["R"][rows.to(model.E.device)],
        "entities": entities,
        "relations": relations,
    }
    target.save_tensors(START, tensors, {"run": str(folder.path), **counts})


@torch.no_grad()
def start(model: RelationalTucker, folder: RunFolder) -> dict[str, Any]:
    """Give a model that was drawn what its run begins with, if it has a start; returns what
    result.json tells about that."""
    if not folder.has(START):
        return {}
    tensors, origin = folder.load_tensors(START)
    try:
        _check_ids(tensors["entities"], model.entities)
        _check_ids(tensors["relations"], len(model.R))
        places = tensors["entities"] - model.held.start
        here = (places >= 0) & (places < len(model.E))
        model.E[places[here]] = tensors["E"][here]
        model.R[tensors["relations"]] = tensors["R"]
        model.core.start_from(_below("core.", tensors))
        if model.norm is not None:
            model.norm.load_state_dict(_below("norm.", tensors))
    except (IndexError, KeyError, RuntimeError, ValueError) as error:
        path = folder.path / START
        raise RunError(f"{path} does not fit the run's recipe and vocabulary") from error
    return {"started_from": origin}


def _known(names: Vocabulary, before: Vocabulary, seen: int) -> tuple[Tensor, Tensor]:
    """Ids of names that were trained before, and their ids there."""
    old = torch.from_numpy(before.ids(names.names).copy())
    new = torch.nonzero((old >= 0) & (old < seen)).squeeze(1)
    return new, old[new]


def _check_ids(ids: Tensor, count: int) -> None:
    """Refuse what cannot be ids of so many rows, with a ValueError."""
    if ids.dtype != torch.long or ids.dim() != 1 or len(torch.unique(ids)) != len(ids):
        raise ValueError("ids are not a list of different whole numbers")
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        raise ValueError("there are ids without a row")


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _value(recipe: Recipe, key: str) -> Any:
    """The value of a dotted key, with the defaults of the core's options."""
    section, _, name = key.partition(".")
    if section == "core":
        options = CORES[recipe.model.name].Options.model_validate(recipe.core)
        return options.model_dump().get(name)
    return recipe.value(key)
