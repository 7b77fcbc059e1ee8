"""New entities from a handful of triples: their rows are solved with all else fixed."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reltucker.errors import GraphError, RunError
from reltucker.evaluation import fully_filtered, rank_split
from reltucker.graph import Extension, KnowledgeGraph, TripleSource, extend
from reltucker.model import RelationalTucker
from reltucker.progress import track
from reltucker.training.objectives.rows import RowObjective
from reltucker.training.recipe import Recipe
from reltucker.training.run_folder import BEST, RunFolder
from reltucker.training.validation import Validation

STEPS = 100
"""Of L-BFGS, at the most."""

TOGETHER = 250
"""Entities are solved together as long as they have no more facts than this."""


def fold_in(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    recipe: Recipe,
    triples: TripleSource,
    *,
    progress: bool = False,
) -> tuple[RelationalTucker, KnowledgeGraph]:
    """The model and the graph with the new entities of these triples, which become training
    triples. Entities that stood in valid or test only are new as well. Nothing of the model is
    changed or copied but E; new rows minimise the recipe's objective (`objectives.rows`)."""
    extension = extend(graph, triples)
    return _folded(model, recipe, extension, progress), extension.graph


def add_to_run(
    folder: RunFolder,
    model: RelationalTucker,
    graph: KnowledgeGraph,
    triples: TripleSource,
    out: Path | str,
    *,
    progress: bool = True,
) -> dict[str, Any]:
    """Write a run with the model and the graph of this one and the new entities of these triples.
    Returns what its result.json holds: that of the former run with other figures on validation
    triples, and under `folded_in` what was added, each time."""
    began = time.monotonic()
    target = RunFolder(out)
    target.refuse_taken()
    result, recipe = folder.result(), folder.recipe()
    if result is None:
        raise RunError(
            f"{folder.path}: training has not ended, so nothing can be added yet; go on with "
            f"`reltucker resume {folder.path}`"
        )
    extension = extend(graph, triples)
    model = _folded(model, recipe, extension, progress)
    checked = Validation(recipe.train, extension.graph).final_triples(model, result["epochs"])
    with track("validating", 2 * len(checked), "queries", progress) as advance:
        ranking = rank_split(model, extension.graph, "valid", triples=checked, advance=advance)
    added = {
        "run": str(folder.path),
        "entities": len(extension.fresh),
        "triples": extension.added,
        "seconds": time.monotonic() - began,
    }
    result |= {name: each.to_dict() for name, each in ranking.metrics().items()}
    result |= fully_filtered(model, extension.graph, checked)
    result["validated_triples"] = len(checked)
    result["folded_in"] = [*result.get("folded_in", []), added]

    def contents(run: RunFolder) -> None:
        run.save_tensors(BEST, model.serving_state(), {"folded_in": added["entities"]})
        run.save_result(result)

    with target.writing():
        RunFolder.create(out, recipe, extension.graph, contents)
    return result


def _folded(
    model: RelationalTucker, recipe: Recipe, extension: Extension, progress: bool
) -> RelationalTucker:
    graph, E = extension.graph, model.E.detach()
    if not len(extension.fresh):
        raise GraphError(
            "the triples name no new entity, so there is nothing to solve for; to learn from new "
            "facts about known ones, train on (`reltucker train --from RUN`)"
        )
    rows = E.new_zeros(len(graph.entities), E.shape[1])
    rows[torch.from_numpy(extension.places).to(E.device)] = E
    folded = model.with_entities(rows)
    objective = recipe.train.objective_class.build(folded, recipe.train, graph)
    fresh = torch.from_numpy(extension.fresh).to(E.device)
    new = torch.from_numpy(graph.train[-extension.added :]).to(E.device).long()
    blocks = _blocks(fresh, new)
    rows[fresh] = rows[: int(fresh[0])].mean(dim=0)
    starts = torch.stack([block[0] for block in blocks])
    ends = torch.bucketize(new[:, [0, 2]], starts, right=True)  # 0 for known entities
    crosses = (ends.amin(dim=1) > 0) & (ends[:, 0] != ends[:, 1])
    # Entities that know each other in different blocks are solved in turn, and all of them twice.
    turns = 2 if bool(crosses.any()) else 1
    with track("adding entities", turns * len(fresh), "entities", progress) as advance:
        for block in turns * blocks:
            rows[block] = solve(RowObjective(objective, block, int(fresh[0])), rows[block])
            if advance is not None:
                advance(len(block))
    return folded


def solve(objective: RowObjective, start: Tensor) -> Tensor:
    """The rows (m, d_e) of the least value, from `start`, by L-BFGS."""
    rows = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [rows], max_iter=STEPS, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        value = objective.value(rows)
        (rows.grad,) = torch.autograd.grad(value, rows)
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return rows.detach()


def _blocks(fresh: Tensor, triples: Tensor) -> list[Tensor]:
    """New entities (n,), in parts of up to `TOGETHER` facts; one alone may have more."""
    counts = torch.bincount(triples[:, [0, 2]].flatten(), minlength=int(fresh[-1]) + 1)[fresh]
    before = torch.cumsum(counts, 0) - counts
    _, sizes = torch.unique_consecutive(before // TOGETHER, return_counts=True)
    return list(torch.split(fresh, sizes.tolist()))
