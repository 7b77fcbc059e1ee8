"""A start from another run: what is kept, what is drawn, and that it resumes exactly."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from reltucker import Recipe, ReltuckerError, Run, merge, open_run, train
from reltucker.folders import LOCK
from reltucker.graph import GraphWarning, KnowledgeGraph, Vocabulary, load_graph
from reltucker.model import CORES, RelationalTucker
from reltucker.training import START, RunFolder, Training
from tests.conftest import build_core, core_settings, random_graph

ROWS = [(f"e{i}", f"r{k}", f"e{(i * 7 + k) % 40}") for i in range(40) for k in range(3)]
MORE = [*ROWS[5:], *((f"e{i}", "r3", f"x{i % 6}") for i in range(40))]
QUICK = {
    "train.epochs": 2,
    "train.validate_every": 2,
    "train.batch_size": 30,
    "train.patience": 50,
    "train.negatives": 8,
}


def fit(folder: Path, name: str, rows: Any = ROWS, start: Run | None = None, **changes: Any) -> Run:
    if start is not None:
        return train(rows, settings=changes, start=start, out=folder, progress=False)
    recipe = Recipe().with_values({**core_settings(name, 8), **QUICK, **changes})
    return train(rows, recipe, out=folder, progress=False)


def begun(run: Run) -> Training:
    """The training of a run as it was before its first step."""
    return Training(run.recipe, run.graph, RunFolder(run.path), None)


def check_taken_over(before: Run, after: Run) -> None:
    """Known names score as before, in both directions."""
    kept = set(after.graph.entities.names)
    names = [name for name in before.graph.entities.names if name in kept]
    model = begun(after).model.eval()
    triples = []
    for graph in (before.graph, after.graph):
        ids = torch.from_numpy(graph.entities.ids(names).copy())
        relations = torch.from_numpy(graph.relations.ids(["r0", "r1", "r2"]).copy())
        triples.append(torch.cartesian_prod(ids[:10], relations, ids[5:15]))
    with torch.no_grad():
        expected = before.model.plausibility(triples[0])
        assert torch.allclose(model.plausibility(triples[1]), expected, atol=1e-4)
        assert torch.allclose(model.score(triples[1]), before.model.score(triples[0]), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "plain") for name in CORES),
        ("complex", "reciprocal"),
        ("srt", "reciprocal"),
        ("drt", "normalised"),
    ],
)
def test_what_is_known_is_kept(name: str, kind: str, tmp_path: Path) -> None:
    settings = {"model.reciprocal": kind != "plain", "model.batch_norm": kind == "normalised"}
    before = fit(tmp_path / "before", name, **settings)
    after = fit(tmp_path / "after", name, MORE, before)
    assert after.recipe.model.relation_dim == before.model.core.relation_dim
    check_taken_over(before, after)
    assert after.result is not None
    origin = after.result["started_from"]
    assert origin["run"] == str(before.path)
    assert (origin["entities"], origin["relations"]) == (40, 3)
    drawn = begun(after).model.E[after.graph.entities.ids(["x0"]).tolist()]
    assert 0 < drawn.norm() < 2.0


def test_an_interrupted_run_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    """From its last checkpoint, and from its start where there is none yet."""
    gates = {"core.location_mean": 0.0, "core.location_deviation": 3.0}
    sparse = {"core.warm_up_epochs": 0, "core.sparse_below": 1.0}
    before = fit(tmp_path / "before", "srt", **gates, **sparse)
    whole = fit(tmp_path / "whole", "srt", MORE, before)
    held = begun(whole).model.core.held
    assert held.is_sparse
    assert len(held.numbers) == before.model.core.nonzero_entries()
    for name, keep in (("early", 0), ("late", 1)):
        folder = tmp_path / name
        with pytest.raises(KeyboardInterrupt):
            _train_until(keep, whole, folder)
        resumed = open_run(folder).resume(progress=False)
        for key in ("loss", "valid"):
            assert [r.get(key) for r in resumed.epochs()] == [r.get(key) for r in whole.epochs()]
        assert torch.equal(resumed.model.E, whole.model.E)
        assert resumed.result is not None
        assert resumed.result["started_from"]["run"] == str(before.path)


def _train_until(epochs: int, run: Run, folder: Path) -> None:
    class Stop:
        def step(self, epoch: int, done: int, total: int) -> None:
            if epoch > epochs:
                raise KeyboardInterrupt

        def epoch(self, record: dict[str, Any]) -> None:
            pass

    def contents(made: RunFolder) -> None:
        shutil.copy(run.path / START, made.path)

    recipe = run.recipe.with_values({"train.checkpoint_seconds": 0.0})
    made = RunFolder.create(folder, recipe, run.graph, contents)
    Training(recipe, run.graph, made, Stop()).run()


def test_it_begins_where_the_other_run_ended(tmp_path: Path) -> None:
    settings = {"train.epochs": 60, "train.entity_dropout": 0.0, "train.mixing_dropout": 0.0}
    before = fit(tmp_path / "before", "drt", {"train": ROWS}, **settings)
    slow = {"train.epochs": 1, "train.learning_rate": 0.001}
    after = fit(tmp_path / "after", "drt", {"train": ROWS[1:]}, before, **slow)
    assert after.epochs()[0]["loss"] < 0.5 * before.epochs()[0]["loss"]


def test_retired_entries_stay_retired(tmp_path: Path) -> None:
    core = build_core("srt", 20, 4)
    model = RelationalTucker(5, 4, core)
    model.reset(torch.Generator().manual_seed(0))
    numbers = torch.tensor([3, 500, 900])
    state = {"entries": numbers, "weights": torch.tensor([0.5, -2.0, 0.1])}
    core.start_from(state)
    assert core.held.is_sparse
    found = core.serving_state()
    order = found["entries"].argsort()
    assert found["entries"][order].tolist() == numbers.tolist()
    assert torch.allclose(found["weights"][order], state["weights"])
    assert torch.isfinite(core.locations).all()
    many = build_core("srt", 4, 4)
    weights = torch.randn(20)
    many.start_from({"entries": torch.arange(20), "weights": weights})
    assert not many.held.is_sparse
    assert torch.allclose(many.serving_state()["weights"], weights)
    assert many.nonzero_entries() == 20


def test_a_start_belongs_to_its_training(tmp_path: Path) -> None:
    before = fit(tmp_path / "before", "cp")
    after = fit(tmp_path / "after", "cp", MORE, before)
    (tmp_path / "new").mkdir()
    start = (after.path / "start.safetensors").read_bytes()
    (tmp_path / "new" / "start.safetensors").write_bytes(start)  # one that never began
    (tmp_path / "new" / LOCK).touch()
    new = fit(tmp_path / "new", "cp")
    assert new.result is not None
    assert "started_from" not in new.result
    tensors, state = after.folder.load_tensors("start.safetensors")
    narrow = {**tensors, "E": tensors["E"][:, :3]}
    after.folder.save_tensors("start.safetensors", narrow, state)
    with pytest.raises(ReltuckerError, match="does not fit"):
        begun(after)


def test_a_merged_run_can_be_trained_on(tmp_path: Path) -> None:
    graph = load_graph(ROWS)
    one, other = fit(tmp_path / "one", "drt", graph), fit(tmp_path / "other", "cp", graph)
    both = merge([one, other], tmp_path / "both", weights=[0.5, 0.5], progress=False)
    check_taken_over(both, fit(tmp_path / "after", "merged", MORE, both))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.entity_dim": 10}, r"model.entity_dim = 10: .*before.* has 8"),
        ({"model.name": "drt", "core": {}}, "model.name = 'drt'"),
        ({"model.reciprocal": True}, "model.reciprocal = True"),
        ({"core.scalar_share": 0.25}, r"core.scalar_share = 0.25"),
        ({"recipe.preset": "fast"}, "leave the preset out"),
    ],
)
def test_what_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    before = fit(tmp_path / "before", "analogy")
    with pytest.raises(ReltuckerError, match=message):
        fit(tmp_path / "after", "analogy", MORE, before, **changes)
    assert not (tmp_path / "after").exists()


def test_triples_that_were_trained_on_are_not_judged_by(tmp_path: Path) -> None:
    before = fit(tmp_path / "before", "cp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = fit(tmp_path / "after", "cp", MORE, before, **{"graph.seed": 3})
    trained = set(before.graph.named(before.graph.train).iter_rows())
    for split in (after.graph.valid, after.graph.test):
        assert len(split)
        assert not trained & set(after.graph.named(split).iter_rows())
    splits = {"train": ROWS[:-3], "valid": ROWS[-3:-1], "test": ROWS[-1:]}
    with pytest.warns(GraphWarning, match="were trained on before"):
        fit(tmp_path / "other", "cp", splits, before)


def test_entities_that_were_never_trained_are_drawn(tmp_path: Path) -> None:
    graph = random_graph(0)
    before = fit(tmp_path / "before", "distmult", graph)
    names = Vocabulary(graph.entities.names), Vocabulary(graph.relations.names, kind="relation")
    same = KnowledgeGraph("same", *names, graph.train, graph.valid, graph.test, 30, 4)
    with pytest.warns(GraphWarning):
        after = fit(tmp_path / "after", "distmult", same, before, **{"train.seed": 1})
    found = begun(after).model.E
    assert torch.equal(found[:30], before.model.E[:30])
    assert not torch.equal(found[30:], before.model.E[30:])
