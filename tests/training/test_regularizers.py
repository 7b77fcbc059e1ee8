"""Every regulariser against its written term in plain autograd."""

import pytest
import torch
from torch import Tensor

from reltucker.model import CORES, RelationalTucker
from tests.training.test_objectives import (
    Reference,
    graph,
    make,
    make_objective,
    settings,
    step,
)


def check_added(
    model: RelationalTucker, without: dict[str, Tensor], found: dict[str, Tensor]
) -> None:
    """That gradients are those without the term, and what the term's own autograd left."""
    for name, parameter in model.named_parameters():
        added = 0.0 if parameter.grad is None else parameter.grad
        assert torch.allclose(found[name], without[name] + added, atol=1e-5), name


@pytest.mark.parametrize("name", ["drt", "srt", "rescal", "block"])
@pytest.mark.parametrize("objective_name", ["negative_sampling", "k_vs_all"])
@pytest.mark.parametrize("mixing_dropout", [0.0, 0.3])
def test_orthogonality_adds_its_written_term(
    name: str, objective_name: str, mixing_dropout: float
) -> None:
    model = make(name, True)
    plain = settings(objective=objective_name, mixing_dropout=mixing_dropout)
    held = make_objective(model, plain.model_copy(update={"orthogonality": 0.2}), graph())
    chosen = torch.tensor([0, 1, 4])
    loss, found = step(held, chosen, 4)
    alone, without = step(make_objective(model, plain, graph()), chosen, 4)
    assert loss == alone
    reference = Reference(held, chosen, 4)
    model.core.begin_step(reference.keys.core)
    matrices = model.core.mixing(model.R[reference.rows])  # one for each question
    excess = matrices.mT @ matrices - torch.eye(matrices.shape[-1])
    (0.2 * excess.square().sum() / len(reference.rows)).backward()
    check_added(model, without, found)


@pytest.mark.parametrize("name", ["drt", "block", "complex"])
def test_ivr_adds_its_written_term(name: str) -> None:
    model = make(name, True)
    plain = settings(objective="k_vs_all")
    changes = {
        "regularizer": "ivr",
        "regularizer_weight": 0.3,
        "regularizer_power": 3.0,
        "regularizer_intermediate": 0.4,
    }
    regular = make_objective(model, plain.model_copy(update=changes), graph())
    chosen = torch.arange(6)
    _, found = step(regular, chosen, 4)
    _, without = step(make_objective(model, plain, graph()), chosen, 4)
    reference = Reference(regular, chosen, 4)
    batch, queries = reference.batch, reference.queries()
    total = torch.zeros(())
    for b, (given, row, w) in enumerate(
        zip(batch.given, reference.rows, batch.weights, strict=True)
    ):
        answers = batch.answers[batch.starts[b] : batch.starts[b + 1]]
        total = total + w * model.E[answers].norm(dim=1).pow(3).mean()
        total = total + w * (model.E[given].norm() ** 3 + model.R[row].norm() ** 3)
        total = total + 0.4 * w * queries[b].norm() ** 3
        if model.core.has_matrices:
            total = total + 0.4 * w * model.core.mixing(model.R[row : row + 1]).norm() ** 3
    (0.3 * total).backward()
    check_added(model, without, found)


@pytest.mark.parametrize("name", ["drt", "complex", "analogy"])
@pytest.mark.parametrize("objective_name", ["negative_sampling", "k_vs_all"])
@pytest.mark.parametrize("kind", ["lp", "n3", "dura", "dura_diagonal"])
def test_regularizers_add_their_written_term(name: str, objective_name: str, kind: str) -> None:
    model = make(name, True)
    strength, power = 0.3, {"lp": 2.5, "n3": 3.0}.get(kind, 2.0)
    of_queries, of_answers = {"dura": (1.0, 1.0), "dura_diagonal": (1.5, 0.5)}.get(kind, (0, 1))
    changes = {"regularizer": kind, "regularizer_weight": strength, "regularizer_power": 2.5}
    plain = settings(objective=objective_name)
    regular = make_objective(model, plain.model_copy(update=changes), graph())
    chosen = torch.arange(6)
    _, found = step(regular, chosen, 4)
    _, without = step(make_objective(model, plain, graph()), chosen, 4)
    reference = Reference(regular, chosen, 4)
    batch = reference.batch

    def norm(vectors: Tensor) -> Tensor:
        return (model.core.squares(vectors) ** (power / 2)).sum(1)

    total = torch.zeros(())
    for b, (given, row, weight) in enumerate(
        zip(batch.given, reference.rows, batch.weights, strict=True)
    ):
        answers = batch.answers[batch.starts[b] : batch.starts[b + 1]]
        total = total + of_answers * weight * norm(model.E[answers]).mean()
        if not of_queries:
            total = total + weight * (norm(model.E[given][None]) + norm(model.R[row][None])).sum()
    if of_queries:
        total = total + of_queries * (batch.weights * reference.queries().square().sum(1)).sum()
    (strength * total).backward()
    check_added(model, without, found)


def test_magnitudes_are_those_of_complex_numbers_where_the_core_has_them() -> None:
    vectors = torch.tensor([[3.0, 1.0, 4.0, 2.0]])
    assert CORES["complex"].build(4, None, 3).squares(vectors).tolist() == [[25.0, 5.0]]
    assert CORES["drt"].build(4, None, 3).squares(vectors).tolist() == [[9.0, 1.0, 16.0, 4.0]]
