"""Several runs on one graph become one, whose scores are a weighted sum of theirs."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reltucker.errors import RunError
from reltucker.evaluation import fully_filtered, rank_split
from reltucker.graph import KnowledgeGraph
from reltucker.machine import peak_memory
from reltucker.model import RelationalTucker, sizes_of, weighted_sum
from reltucker.progress import track
from reltucker.training.recipe import Recipe
from reltucker.training.run_folder import BEST, RunFolder
from reltucker.training.settings import LARGEST_ENTITY_DIM
from reltucker.training.setup import choose_device, trained_model
from reltucker.training.validation import Validation
from reltucker.training.weighting import choose_weights


def merge_runs(
    paths: Sequence[Path | str],
    out: Path | str,
    *,
    graph: KnowledgeGraph | None = None,
    weights: Sequence[float] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Write the run whose scores are w_1 s_1 + w_2 s_2 + ...; returns what its result.json holds.

    Weights that are not given are chosen on validation triples; a run of weight 0 is left out.
    `graph` is the whole graph of runs that do not have its test triples, such as the trials of a
    search. Epochs and seconds of the result are those of all runs together.
    """
    began = time.monotonic()
    target = RunFolder(out)
    target.refuse_taken()
    folders = [RunFolder.existing(path) for path in paths]
    if weights is not None:
        _check_weights(weights, len(folders))
    results = [_result(folder) for folder in folders]
    graph = _common_graph(folders, graph)
    device = choose_device(folders[0].recipe().train.device)
    models = [trained_model(folder, graph).to(device) for folder in folders]
    _refuse_unfit(folders, models)
    alone: Sequence[float | None] = [None] * len(models)
    if weights is None:
        weights, alone = choose_weights(models, graph, progress=progress)
    used = [number for number, weight in enumerate(weights) if weight > 0]
    model = weighted_sum([models[n] for n in used], [weights[n] for n in used])
    recipes = [folder.recipe() for folder in folders]
    recipe = _recipe([recipes[n] for n in used], [models[n] for n in used], model)
    epochs = sum(each["epochs"] for each in results)
    triples = Validation(recipe.train, graph).final_triples(model, epochs)
    with track("validating", 2 * len(triples), "queries", progress) as advance:
        metrics = rank_split(model, graph, "valid", triples=triples, advance=advance).metrics()
    result: dict[str, Any] = {
        "epochs": epochs,
        "best_epoch": sum(each["best_epoch"] for each in results),
        "seconds": sum(each["seconds"] for each in results) + time.monotonic() - began,
        "seconds_per_epoch": _mean_epoch(results),
        "validated_triples": len(triples),
        "peak_memory_bytes": peak_memory(),
        **sizes_of(model).to_dict(),
        **{name: each.to_dict() for name, each in metrics.items()},
        **fully_filtered(model, graph, triples),
        "merged_from": [
            {
                "run": str(folder.path),
                "weight": float(weight),
                "sample_mrr": mrr,
                "seen": each["seen"],
                "recipe": one.model_dump(exclude_none=True),
                **({"merged_from": each["merged_from"]} if "merged_from" in each else {}),
            }
            for folder, weight, mrr, each, one in zip(
                folders, weights, alone, results, recipes, strict=True
            )
        ],
    }

    def contents(run: RunFolder) -> None:
        run.save_tensors(BEST, model.serving_state(), {"weights": [float(w) for w in weights]})
        run.save_result(result)

    with target.writing():
        RunFolder.create(out, recipe, graph, contents)
    return result


def _recipe(
    recipes: Sequence[Recipe], models: Sequence[RelationalTucker], model: RelationalTucker
) -> Recipe:
    """The merged model's; graph and training are those of the first run."""
    parts = [
        {
            "name": recipe.model.name,
            "entity_dim": each.core.entity_dim,
            "relation_dim": each.core.relation_dim,
            "options": recipe.core,
        }
        for recipe, each in zip(recipes, models, strict=True)
    ]
    values = recipes[0].model_dump(exclude_none=True) | {"core": {"parts": parts}}
    values["model"] |= {
        "name": model.core.name,
        "entity_dim": model.core.entity_dim,
        "relation_dim": model.core.relation_dim,
        "batch_norm": model.norm is not None,
    }
    return Recipe.of(values, "the merged model")


def _mean_epoch(results: Sequence[dict[str, Any]]) -> float:
    seconds = sum(each["epochs"] * each["seconds_per_epoch"] for each in results)
    return float(seconds / max(1, sum(each["epochs"] for each in results)))


# -- what cannot be merged ------------------------------------------------------------------------


def _result(folder: RunFolder) -> dict[str, Any]:
    result = folder.result()
    if result is None:
        raise RunError(
            f"{folder.path}: training has not ended, so the run cannot be merged yet; go on with "
            f"`reltucker resume {folder.path}`"
        )
    return result


def _common_graph(folders: Sequence[RunFolder], graph: KnowledgeGraph | None) -> KnowledgeGraph:
    if len(folders) < 2:
        raise RunError("there is nothing to merge: give at least two run folders")
    if len({folder.path.resolve() for folder in folders}) < len(folders):
        raise RunError("a run is given twice; name each run once")
    graph = folders[0].graph() if graph is None else graph
    for folder in folders:
        other = folder.graph()
        same = (
            graph.entities.names.equals(other.entities.names)
            and graph.relations.names.equals(other.relations.names)
            and np.array_equal(graph.train, other.train)
            and np.array_equal(graph.valid, other.valid)
        )
        if not same:
            raise RunError(
                f"{folder.path} was trained on another graph or split than {folders[0].path}; "
                "merge runs of one graph and split"
            )
    return graph


def _refuse_unfit(folders: Sequence[RunFolder], models: Sequence[RelationalTucker]) -> None:
    for folder, model in zip(folders, models, strict=True):
        if model.reciprocal != models[0].reciprocal:
            raise RunError(
                f"one of {folders[0].path} and {folder.path} has reciprocal relations and the "
                "other has not; merge runs that agree in model.reciprocal"
            )
    width = sum(model.core.entity_dim for model in models)
    if width > LARGEST_ENTITY_DIM:
        raise RunError(
            f"together the runs have entity_dim {width:,}, and {LARGEST_ENTITY_DIM:,} is the most; "
            "merge fewer or smaller ones"
        )


def _check_weights(weights: Sequence[float], count: int) -> None:
    if len(weights) != count or not all(0 <= w < math.inf for w in weights) or not any(weights):
        raise RunError(
            f"weights {', '.join(f'{w:g}' for w in weights)}: give one for each of the {count} "
            "runs, not below 0 and not all 0"
        )
