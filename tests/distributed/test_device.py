"""Nothing in the path assumes the CPU: steps, ranks and answers on another device are the same."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from torch import Tensor, nn

from reltucker import load_graph
from reltucker.evaluation import rank_split
from reltucker.model import CORES, RelationalTucker
from reltucker.peers import ALONE, Peers
from reltucker.serving import answer, discover, parse_question
from reltucker.training.objectives import add_up, dense
from reltucker.training.optimizer import Optimizer
from tests.accelerator import DEVICE, Accelerator, OnDevice
from tests.conftest import build_core
from tests.distributed.threads import together
from tests.training.test_objectives import (
    ENTITIES,
    OBJECTIVES,
    RATES,
    RELATIONS,
    graph,
    settings,
)


class Generator(torch.Generator):
    """The device has none of its own."""

    def __new__(cls, device: object = None) -> "Generator":
        return super().__new__(cls)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.tensor

    def made(data: object, *, device: torch.device | None = None, **rest: Any) -> Tensor:
        """torch leaves the numbers out where the device is called so."""
        return tensor(data, **rest).to(device)

    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(torch, "tensor", made)


def moved(model: RelationalTucker) -> RelationalTucker:
    """The model with all that it holds on the device."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                value = OnDevice(parameter.detach().clone())
                setattr(module, name, nn.Parameter(value, parameter.requires_grad))
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                setattr(module, name, OnDevice(buffer.clone()))
    return model


def inner(x: Tensor) -> Tensor:
    return x.inner if isinstance(x, OnDevice) else x


def steps(
    peers: Peers, name: str, changes: dict[str, Any], *, on_device: bool, batch_norm: bool = False
) -> dict[str, Tensor]:
    """Gradients of a step, and parameters after it."""
    core = build_core(name, 6, RELATIONS)
    model = RelationalTucker(
        ENTITIES, RELATIONS, core, reciprocal=True, batch_norm=batch_norm, peers=peers
    )
    model.reset(torch.Generator().manual_seed(3))
    if on_device:
        moved(model)
    model.train()
    wanted = settings(**changes)
    objective = wanted.objective_class.build(model, wanted, graph())
    optimizer = Optimizer(model, wanted)
    core.begin_epoch(30, 4)
    chosen = torch.arange(7)
    chosen = chosen.to(DEVICE) if on_device else chosen
    loss, found = objective.gradients(chosen, torch.Generator().manual_seed(9))
    parameters = dict(model.named_parameters())
    add_up(found, parameters, peers)
    gradients = {f"{n}.grad": inner(dense(g, parameters[n])) for n, g in found.items()}
    gradients = {name: gradient.clone() for name, gradient in gradients.items()}
    optimizer.step(found, 0.1)
    after = {name: inner(p.detach()).clone() for name, p in model.named_parameters()}
    return {"loss": inner(loss), **gradients, **after}


def check_same(
    name: str, changes: dict[str, Any], peers: Peers = ALONE, **rest: bool
) -> dict[str, Tensor]:
    with Accelerator():
        found = steps(peers, name, changes, on_device=True, **rest)
    expected = steps(peers, name, changes, on_device=False, **rest)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.allclose(found[key], value, atol=1e-4), key
    return found


@pytest.mark.parametrize("name", sorted(set(CORES) - {"hole", "srt"}))
@pytest.mark.parametrize("changes", OBJECTIVES, ids=str)
def test_a_step(name: str, changes: dict[str, Any]) -> None:
    """HolE's complex conjugates are a mark on a tensor that this device does not know."""
    check_same(name, changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam", "objective": "k_vs_all"},
        {"regularizer": "dura", "regularizer_weight": 0.1},
        {"regularizer": "n3", "regularizer_weight": 0.1, "objective": "one_vs_all"},
        {"orthogonality": 0.1, "objective": "one_vs_all"},
        {"relation_prediction": 0.5, "objective": "one_vs_all"},
        {"weight_decay": 0.01},
    ],
    ids=str,
)
def test_what_a_step_may_have_besides(changes: dict[str, Any]) -> None:
    check_same("drt", changes)
    check_same("drt", changes, batch_norm=True)


@pytest.mark.parametrize("changes", OBJECTIVES, ids=str)
def test_drawn_masks_and_gates_are_made_there(changes: dict[str, Any]) -> None:
    """Other ones than on the CPU, so that it is only seen that they are."""
    with Accelerator():
        for name in ("srt", "complex"):
            found = steps(ALONE, name, {**changes, **RATES}, on_device=True)
            assert all(torch.isfinite(value).all() for value in found.values())


@pytest.mark.parametrize("changes", [OBJECTIVES[1], OBJECTIVES[3]], ids=str)
def test_a_step_of_two(changes: dict[str, Any]) -> None:
    expected = check_same("drt", changes)
    parts = together(2, lambda peers: check_same("drt", changes, peers, batch_norm=False))
    assert torch.allclose(torch.cat([part["E"] for part in parts]), expected["E"], atol=1e-4)


def test_ranks_and_answers() -> None:
    families = load_graph("families")
    names = families.entities.names
    asked = [(names[4], "mother", "?"), ("?", "mother", names[5]), (names[4], "?", names[5])]
    questions = [parse_question(families, *each) for each in asked]
    works: list[Callable[[RelationalTucker], Any]] = [
        lambda model: rank_split(model, families, triples=families.test[:50]).ranks,
        lambda model: answer(model, families, questions),
        lambda model: discover(model, families, relations=["mother"], progress=False),
    ]
    size = len(families.entities), len(families.relations)
    model = RelationalTucker(*size, build_core("complex", 6, size[1]), reciprocal=True)
    model.reset(torch.Generator().manual_seed(3))
    model.eval().requires_grad_(False)
    expected = [work(model) for work in works]
    with Accelerator():
        moved(model)
        found = [work(model) for work in works]
    assert (found[0] == expected[0]).all()
    for frame, other in zip(found[1:], expected[1:], strict=True):
        assert isinstance(frame, pl.DataFrame)
        assert_frame_equal(frame, other, abs_tol=1e-5)
