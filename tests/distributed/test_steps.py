"""A step of several peers is that of one: losses, gradients, masks, draws, normalisation."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reltucker.model import CORES, RelationalTucker
from reltucker.peers import ALONE, Peers
from reltucker.training import TrainSettings
from reltucker.training.objectives import add_up, dense
from reltucker.training.objectives.sharded import ShardedTable
from tests.conftest import build_core
from tests.distributed.threads import together
from tests.training.test_objectives import ENTITIES, OBJECTIVES, RATES, RELATIONS, graph, settings

Found = tuple[float, dict[str, Tensor]]


def step(
    peers: Peers, name: str, wanted: TrainSettings, reciprocal: bool, norm: bool, items: int
) -> Found:
    """The loss and the gradients that a process has after a step, E's of the rows it holds."""
    core = build_core(name, 6, RELATIONS)
    model = RelationalTucker(
        ENTITIES, RELATIONS, core, reciprocal=reciprocal, batch_norm=norm, peers=peers
    )
    model.reset(torch.Generator().manual_seed(3))
    model.train()
    objective = wanted.objective_class.build(model, wanted, graph())
    core.begin_epoch(30, 4)
    chosen = torch.arange(len(objective))[:items]
    loss, found = objective.gradients(chosen, torch.Generator().manual_seed(9))
    parameters = dict(model.named_parameters())
    add_up(found, parameters, peers)
    gradients = {n: dense(g, parameters[n]).clone() for n, g in found.items()}
    return float(peers.total(loss)), gradients | dict(model.named_buffers())


def check_equal(
    size: int,
    name: str,
    wanted: TrainSettings,
    reciprocal: bool = True,
    norm: bool = False,
    items: int = 7,
) -> None:
    loss, expected = step(ALONE, name, wanted, reciprocal, norm, items)
    results = together(size, lambda peers: step(peers, name, wanted, reciprocal, norm, items))
    for found, _ in results:
        assert found == pytest.approx(loss, rel=1e-5)
    for key, gradient in expected.items():
        if key == "E":
            assert torch.allclose(torch.cat([r["E"] for _, r in results]), gradient, atol=1e-5)
            continue
        for _, found in results:
            assert torch.allclose(found[key], gradient, atol=1e-5), key
            assert torch.equal(found[key], results[0][1][key]), key  # or they would drift apart


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("rates", [{}, RATES], ids=["plain", "dropout"])
@pytest.mark.parametrize("changes", OBJECTIVES, ids=str)
@pytest.mark.parametrize("reciprocal", [False, True])
def test_every_objective(
    size: int, rates: dict[str, float], changes: dict[str, Any], reciprocal: bool
) -> None:
    check_equal(size, "drt", settings(**changes, **rates), reciprocal)


@pytest.mark.parametrize("name", sorted(CORES))
@pytest.mark.parametrize("changes", [{}, {"objective": "k_vs_all"}], ids=["sampled", "all"])
def test_every_core(name: str, changes: dict[str, Any]) -> None:
    check_equal(3, name, settings(**changes, **RATES))


@pytest.mark.parametrize("name", ["n3", "lp", "dura", "dura_diagonal", "ivr"])
@pytest.mark.parametrize("changes", OBJECTIVES[:4:3], ids=str)
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_every_regulariser(name: str, changes: dict[str, Any], optimizer: str) -> None:
    strength = {"regularizer": name, "regularizer_weight": 0.1, "optimizer": optimizer}
    check_equal(2, "rescal", settings(**changes, **strength, orthogonality=0.2, entity_dropout=0.3))


@pytest.mark.parametrize("objective", ["negative_sampling", "one_vs_all", "k_vs_all"])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_relation_prediction(objective: str, reciprocal: bool) -> None:
    wanted = settings(objective=objective, relation_prediction=0.7, entity_dropout=0.3)
    check_equal(3, "complex", wanted, reciprocal)


@pytest.mark.parametrize("items", [1, 2, 7])
@pytest.mark.parametrize("changes", OBJECTIVES[::3], ids=str)
def test_normalisation_is_by_the_rows_of_all(changes: dict[str, Any], items: int) -> None:
    check_equal(2, "drt", settings(**changes), norm=True, items=items)


@pytest.mark.parametrize("changes", OBJECTIVES, ids=str)
@pytest.mark.parametrize("items", [1, 2])
def test_there_may_be_more_peers_than_questions(changes: dict[str, Any], items: int) -> None:
    check_equal(5, "block", settings(**changes, **RATES), items=items)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["none", "n3"])
def test_few_rows_of_many_are_moved_alone(
    compact: bool, rate: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = 1e-6 if compact else 1e9
    monkeypatch.setattr("reltucker.training.objectives.objective.COMPACT_ABOVE", above)
    opened: list[bool] = []
    original = ShardedTable.open

    def look(self: ShardedTable, *arguments: Any) -> Any:
        opened.append(self.compact)
        return original(self, *arguments)

    monkeypatch.setattr(ShardedTable, "open", look)
    weight = 0.1 if kind == "n3" else 0.0
    held = {"regularizer": kind, "regularizer_weight": weight, "entity_dropout": rate}
    for shared in (False, True):
        check_equal(3, "complex", settings(shared_negatives=shared, **held))
    assert set(opened) == {compact}


def test_blocks_of_scores_are_summed_over_peers() -> None:
    wanted = settings(objective="k_vs_all", label_smoothing=0.1)
    tiny = wanted.model_copy(update={"score_megabytes": 7 * 2 * 4 / 2**20})
    check_equal(3, "drt", tiny)
