"""SRT from end to end: the core gets sparse, is stored sparse, resumes and serves sparse."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reltucker.errors import RecipeError, RunError
from reltucker.graph.families import families
from reltucker.model.cores import GatedCore
from reltucker.run import open_run, train
from reltucker.training import BEST, CHECKPOINT, Recipe, RunFolder, Training
from reltucker.training.recipe import RecipeWarning
from reltucker.training.stopping import EarlyStopping
from reltucker.training.work import step_seconds
from tests.conftest import random_graph
from tests.training.test_training import StopAfter, figures

SRT = [
    "model.name=srt",
    "model.entity_dim=8",
    "model.relation_dim=4",
    "train.batch_size=8",
    "train.learning_rate=0.3",
    "train.negatives=6",
    "train.epochs=14",
    "train.patience=50",
    "train.checkpoint_seconds=0",
    "core.warm_up_epochs=3",
    "core.l0_weight=5",
    "core.sparse_below=0.9",
]


def recipe(*changes: str) -> Recipe:
    return Recipe().changed([*SRT, *changes])


def densities(folder: Path) -> list[float]:
    return [record["core_density"] for record in figures(folder)]


def test_the_core_is_dense_in_the_warm_up_and_sparser_after_it(tmp_path: Path) -> None:
    run = train(random_graph(1), recipe(), out=tmp_path / "run", progress=False)
    density = densities(run.path)
    assert min(density[:3]) > 0.95
    assert density[-1] < 0.5
    with_zero = train(
        random_graph(1), recipe("core.l0_weight=0"), out=tmp_path / "zero", progress=False
    )
    assert densities(with_zero.path)[-1] > 0.95


def test_a_larger_lambda_gives_a_sparser_core(tmp_path: Path) -> None:
    """The paper's lambdas on the built-in graph at small size: density falls monotonically."""
    graph = families()
    density = []
    for weight in (0.01, 0.1, 0.5):
        settings = [
            "model.name=srt",
            "model.entity_dim=16",
            "model.relation_dim=8",
            "train.epochs=12",
            "core.warm_up_epochs=2",
            f"core.l0_weight={weight}",
            "train.batch_size=250",
        ]
        out = tmp_path / str(weight)
        train(graph, Recipe().changed(settings), out=out, progress=False)
        density.append(densities(out)[-1])
    assert density[0] > density[1] > density[2]


@pytest.mark.parametrize("averaged", [0, 2])
@pytest.mark.parametrize("stop", [2, 5, 9, 13])
def test_a_resumed_run_equals_an_unbroken_one_across_retirement(
    stop: int, averaged: int, tmp_path: Path
) -> None:
    graph, wanted = random_graph(2), recipe(f"train.averaged_epochs={averaged}")
    unbroken = train(graph, wanted, out=tmp_path / "unbroken", progress=False)
    folder = RunFolder.create(tmp_path / "broken", wanted, graph)
    with pytest.raises(KeyboardInterrupt):
        Training(wanted, graph, folder, StopAfter(stop)).run()
    open_run(tmp_path / "broken").resume(progress=False)
    assert figures(tmp_path / "broken") == figures(unbroken.path)
    for name in (BEST, CHECKPOINT):
        expected, got = load_file(unbroken.path / name), load_file(tmp_path / "broken" / name)
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[key], got[key]) for key in expected)
    held = load_file(unbroken.path / CHECKPOINT)
    assert 0 < len(held["model.core.held.numbers"]) < 8 * 8 * 4  # entries were retired on the way
    if averaged:
        assert held["average.means.core.values"].shape == held["model.core.values"].shape


def test_the_run_holds_and_serves_active_entries_only(tmp_path: Path) -> None:
    graph = random_graph(3)
    wanted = recipe("train.max_density=0.6")
    run = train(graph, wanted, out=tmp_path / "run", progress=False)
    stored = load_file(run.path / BEST)
    active = len(stored["core.weights"])
    assert 0 < active <= 0.6 * 8 * 8 * 4
    assert torch.count_nonzero(stored["core.weights"]) == active
    core = run.model.core
    assert isinstance(core, GatedCore)
    assert core.held.is_sparse
    assert int(torch.count_nonzero(core.tensor())) == active
    described = run.describe()
    assert described["nnfp_core"] == active
    assert described["core_density"] == active / (8 * 8 * 4)
    evaluation = run.evaluate("valid", progress=False).to_dict()
    assert evaluation["core_density"] == described["core_density"]
    best = [r for r in run.epochs() if r["best"]][-1]
    assert evaluation["seen"]["mrr"] == pytest.approx(best["valid"]["seen"]["mrr"], abs=1e-6)
    assert best["core_density"] <= 0.6
    assert len(run.predict("e1", "r1", top=3)) == 3
    assert len(run.predict("e1", None, "e2", known=True)) == 4


def test_retiring_leaves_the_result_within_noise(tmp_path: Path) -> None:
    graph = families()
    settings = [
        "model.name=srt",
        "model.entity_dim=20",
        "model.relation_dim=10",
        "train.epochs=40",
        "train.patience=50",
        "core.warm_up_epochs=5",
        "core.l0_weight=0.5",
        "train.batch_size=250",
    ]
    results = {}
    for name, share in (("kept", 0.0), ("retired", 1.0)):
        chosen = Recipe().changed([*settings, f"core.sparse_below={share}"])
        run = train(graph, chosen, out=tmp_path / name, progress=False)
        results[name] = run.epochs()[-1]
    entries = load_file(tmp_path / "retired" / CHECKPOINT)["model.core.held.numbers"]
    assert 0 < len(entries) < 20 * 20 * 10
    kept, retired = results["kept"], results["retired"]
    assert retired["valid"]["seen"]["mrr"] == pytest.approx(kept["valid"]["seen"]["mrr"], abs=0.04)
    assert retired["core_density"] == pytest.approx(kept["core_density"], rel=0.3)


def test_early_stopping_can_wait_for_the_density() -> None:
    stopping = EarlyStopping(patience=2, max_density=0.1)
    history = [
        (0.5, 1.0),
        (0.6, 0.5),
        (0.6, 0.3),
        (0.2, 0.1),
        (0.3, 0.05),
        (0.3, 0.05),
        (0.9, 0.2),  # a denser core counts for nothing, before and after the best
        (0.1, 0.05),
    ]
    stopped = []
    for epoch, (mrr, density) in enumerate(history, start=1):
        stopping.improved(epoch, mrr, density)
        stopped.append(stopping.should_stop())
    assert stopping.best_epoch == 5
    assert stopped == [False] * 7 + [True]


def test_early_stopping_waits_until_the_core_is_sparse_and_settled() -> None:
    def judged(history: list[tuple[float, float]]) -> tuple[int, int]:
        """The best epoch, and the one after which training stops."""
        stopping = EarlyStopping(patience=2, gets_sparse=True)
        for epoch, (mrr, density) in enumerate(history, start=1):
            again = EarlyStopping(patience=2, gets_sparse=True)
            again.load_state_dict(stopping.state_dict())  # as a resumed run does
            stopping = again
            stopping.improved(epoch, mrr, density)
            if stopping.should_stop():
                break
        return stopping.best_epoch, epoch

    dense = [(0.6, 1.0), (0.7, 1.0), (0.6, 1.0), (0.6, 1.0), (0.6, 0.9)]
    assert judged(dense) == (2, 5)
    falling = [*dense, (0.60, 0.4), (0.59, 0.2), (0.60, 0.1)]
    assert judged(falling) == (8, 8)
    settled = [(0.59, 0.099), (0.61, 0.099), (0.60, 0.098), (0.60, 0.097), (0.9, 0.097)]
    assert judged([*falling, *settled]) == (10, 12)
    collapsed = [(0.5, 0.05), (0.3, 0.01), (0.1, 0.01)]
    assert judged([*falling, *collapsed]) == (8, 10)


def test_a_core_that_is_sparse_at_the_end_is_kept_without_valid_triples() -> None:
    stopping = EarlyStopping(patience=2, gets_sparse=True)
    assert [stopping.ended(n, d) for n, d in enumerate((1.0, 0.4, 0.6, 0.3))] == [
        *(True, True, False, True)
    ]


def test_the_best_epoch_of_a_default_run_has_a_sparse_core(tmp_path: Path) -> None:
    wanted = recipe("train.patience=1", "train.epochs=40")
    run = train(random_graph(1), wanted, out=tmp_path / "run", progress=False)
    assert run.describe()["core_density"] <= 0.5
    assert densities(run.path)[2] > 0.5  # with this patience it would have stopped here


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("train.epochs=3",), "train.epochs = 3 ends within the warm-up"),
        (("core.l0_weight=0", "train.epochs=4"), "core is not sparse: after 4 epochs .* 100% of"),
    ],
)
def test_a_core_that_stays_dense_is_told(
    changes: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.warns(RecipeWarning, match=message):
        train(random_graph(1), recipe(*changes), out=tmp_path / "run", progress=False)


def test_a_density_that_is_never_reached_is_told(tmp_path: Path) -> None:
    wanted = recipe("core.l0_weight=0", "train.max_density=0.01", "train.epochs=2")
    with pytest.raises(RunError, match=r"no epoch had a core density of at most.*l0_weight"):
        train(random_graph(4), wanted, out=tmp_path / "run", progress=False)


def test_a_penalty_that_closes_every_gate_is_told(tmp_path: Path) -> None:
    wanted = recipe("core.l0_weight=1e6", "train.epochs=60", "core.sparse_below=0.0")
    with pytest.raises(RecipeError, match=r"every gate of the core has closed by epoch \d+; lower"):
        train(random_graph(4), wanted, out=tmp_path / "run", progress=False)


def test_threads_do_not_change_when_entries_are_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run must sum in the order of the unbroken one, however small the core is now."""
    graph = random_graph(2)
    model = Training(recipe(), graph, RunFolder(tmp_path / "none"), None).model
    limit = 0.99 * step_seconds(model, recipe().train)
    monkeypatch.setattr("reltucker.training.threads.SMALL_STEP", limit)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    train(graph, recipe(), out=tmp_path / "run", progress=False)
    folder = RunFolder(tmp_path / "run")
    fresh = Training(recipe(), graph, folder, None)
    assert fresh.threads == 2
    fresh.restore()
    assert len(fresh.model.core.values) < 8 * 8 * 4
    assert step_seconds(fresh.model, recipe().train) < limit  # a new run would choose one
    assert fresh.threads == 2


def test_inspection_draws_and_orders(tmp_path: Path) -> None:
    from reltucker.study.inspection import inspect_run

    run = train(random_graph(5), recipe(), out=tmp_path / "run", progress=False)
    figures, _ = inspect_run(run, ["r2"], tmp_path / "pictures")
    assert (tmp_path / "pictures" / "mixing-1.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "pictures" / "core-density.svg").is_file()
    diagonals = [row["diagonal"] for row in figures["relations"]]
    assert diagonals == sorted(diagonals, reverse=True)
    matrix = run.model.mixing_matrix(run.graph.relations.find("r2")).abs()
    row = next(r for r in figures["relations"] if r["relation"] == "r2")
    assert row["diagonal"] == pytest.approx(float(matrix.diagonal().sum()), rel=1e-5)
    by_slice = figures["density_by_slice"]
    assert sum(by_slice) / len(by_slice) == pytest.approx(run.model.core.density())
    assert "r2" in (tmp_path / "pictures" / "inspection.html").read_text(encoding="utf-8")
    json.dumps(figures, allow_nan=False)


def test_checkpoints_with_entries_outside_of_the_core_are_refused(tmp_path: Path) -> None:
    run = train(random_graph(6), recipe(), out=tmp_path / "run", progress=False)
    folder = RunFolder(run.path)
    tensors, state = folder.load_tensors(CHECKPOINT)
    changed: dict[str, Any] = {
        **tensors,
        "model.core.held.numbers": tensors["model.core.held.numbers"] + 999,
    }
    folder.save_tensors(CHECKPOINT, changed, state)
    (run.path / "result.json").unlink()
    with pytest.raises(RunError, match="does not fit"):
        open_run(run.path).resume(progress=False)
