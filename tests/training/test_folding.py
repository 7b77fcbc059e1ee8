"""New entities: their rows are least, what they mean shows, and the run is one like any other."""

import shutil
from pathlib import Path

import pytest
import torch

from reltucker import Recipe, Run, merge, open_run, train
from reltucker.errors import ReltuckerError
from reltucker.model import CORES, RelationalTucker
from reltucker.training import fold_in, folding
from reltucker.training.objectives.rows import RowObjective
from tests.conftest import build_core, core_settings, random_graph

FACTS = [("new", "r1", "e3"), ("e5", "r0", "new"), ("new", "r2", "e7")]


def random_model(name: str, reciprocal: bool, batch_norm: bool = False) -> RelationalTucker:
    core = build_core(name, 8, 4)
    model = RelationalTucker(33, 4, core, reciprocal=reciprocal, batch_norm=batch_norm)
    model.reset(torch.Generator().manual_seed(1), 2.0)
    return model.eval().requires_grad_(False)


def recipe_for(name: str, **changes: object) -> Recipe:
    values = {f"train.{key}": value for key, value in changes.items()}
    return Recipe().with_values({**core_settings(name, 8), **values})


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("kind", ["plain", "reciprocal", "normalised"])
def test_a_folded_row_is_a_stationary_point(name: str, kind: str) -> None:
    graph = random_graph(0)
    model = random_model(name, kind != "plain", kind == "normalised")
    before = model.E.clone()
    recipe = recipe_for(name, regularizer="n3", regularizer_weight=0.01)
    folded, extended = fold_in(model, graph, recipe, FACTS)
    assert torch.equal(model.E, before)
    assert extended.entities.name(30) == "new"
    assert torch.equal(folded.E[:30], before[:30])
    assert torch.equal(folded.E[31:], before[30:])
    objective = recipe.train.objective_class.build(folded, recipe.train, extended)
    of_row = RowObjective(objective, torch.tensor([30]), 30)

    def gradient(row: torch.Tensor) -> float:
        row = row.clone().requires_grad_()
        return float(torch.autograd.grad(of_row.value(row), row)[0].norm())

    assert gradient(folded.E[30:31]) < 0.01 * gradient(of_row.mean[None])


def test_facts_come_true() -> None:
    graph, model = random_graph(0), random_model("complex", True)
    folded, extended = fold_in(model, graph, recipe_for("complex", objective="k_vs_all"), FACTS)
    new = torch.tensor([30])
    for relation, answer in ((1, 3), (2, 7)):
        scores = folded.queries("object", new, torch.tensor([relation])) @ folded.E.t()
        assert int((scores[0, :30] > scores[0, answer]).sum()) == 0
    less, _ = fold_in(model, graph, recipe_for("complex", objective="k_vs_all"), FACTS[:2])
    triple = torch.tensor([[30, 2, 7]])
    assert folded.score(triple) > less.score(triple) + 0.5
    assert extended.train.shape[0] == graph.train.shape[0] + 3


def test_entities_that_know_each_other_are_solved_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together, or block by block: nearly as well."""
    graph, model = random_graph(0), random_model("drt", False)
    facts = [*FACTS, ("other", "r3", "new"), ("other", "r0", "e9"), ("third", "r1", "third")]
    recipe = recipe_for("drt", objective="one_vs_all")
    together, extended = fold_in(model, graph, recipe, facts)
    assert extended.entities.names[30:33].to_list() == ["new", "other", "third"]
    monkeypatch.setattr(folding, "TOGETHER", 1)
    apart, _ = fold_in(model, graph, recipe, facts)
    objective = recipe.train.objective_class.build(together, recipe.train, extended)
    jointly = RowObjective(objective, torch.arange(30, 33), 30)
    least, found, start = (
        float(jointly.value(rows))
        for rows in (together.E[30:33], apart.E[30:33], jointly.mean.expand(3, -1))
    )
    assert found - least < 0.1 * (start - least)
    assert not torch.allclose(together.E[30:32], apart.E[30:32], atol=1e-3)


def test_entities_of_valid_and_test_are_new_too() -> None:
    graph, model = random_graph(0), random_model("distmult", False)
    folded, extended = fold_in(model, graph, recipe_for("distmult"), [("e31", "r0", "e1")])
    assert extended.entities.names[30:].to_list() == ["e31", "e30", "e32"]
    assert torch.equal(folded.E[31:], model.E[[30, 32]])
    assert not torch.equal(folded.E[30], model.E[31])
    assert len(extended.valid) == len(graph.valid)


def test_nothing_new_is_refused() -> None:
    with pytest.raises(ReltuckerError, match=r"no new entity.*train --from"):
        fold_in(random_model("cp", False), random_graph(0), recipe_for("cp"), [("e1", "r0", "e2")])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = {"model.name": "complex", "model.entity_dim": 16, "train.epochs": 4}
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train("families", Recipe().with_values(settings), out=folder, progress=False)


def test_the_result_is_a_run_like_any_other(run: Run, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("Nova Berger\tborn_in\tKarlsberg\nNova Berger\tlives_in\tKarlsberg\n")
    added = run.add(facts, out=tmp_path / "added", progress=False)
    assert isinstance(added, Run)
    opened = open_run(tmp_path / "added")
    result = opened.result
    assert result is not None
    assert run.result is not None
    (told,) = result["folded_in"]
    assert (told["run"], told["entities"], told["triples"]) == (str(run.path), 1, 2)
    assert result["epochs"] == run.result["epochs"]
    answers = opened.predict("Nova Berger", "born_in", known=True, top=500)
    known = answers.filter(known=True)
    assert known["answer"].to_list() == ["Karlsberg"]
    assert opened.evaluate("valid", progress=False).metrics["seen"].mrr == pytest.approx(
        result["seen"]["mrr"]
    )
    assert opened.export(tmp_path / "export")
    before = (tmp_path / "added" / "result.json").read_text(encoding="utf-8")
    opened.resume(progress=False)  # it has ended
    assert (tmp_path / "added" / "result.json").read_text(encoding="utf-8") == before
    more = [("Ada New", "born_in", "Karlsberg")]
    again = opened.add(more, out=tmp_path / "again", progress=False)
    assert again.result is not None
    assert [each["entities"] for each in again.result["folded_in"]] == [1, 1]
    with pytest.raises(ReltuckerError, match="holds a run already"):
        run.add(facts, out=tmp_path / "added", progress=False)


def test_a_merged_run_takes_new_entities(run: Run, tmp_path: Path) -> None:
    settings = {"model.name": "drt", "model.entity_dim": 8, "train.epochs": 1}
    other = train("families", Recipe().with_values(settings), out=tmp_path / "o", progress=False)
    both = merge([run, other], tmp_path / "both", weights=[1.0, 0.5], progress=False)
    added = both.add([("Ada", "born_in", "Karlsberg")], out=tmp_path / "more", progress=False)
    assert added.result is not None
    assert len(added.result["merged_from"]) == 2
    top = added.predict("Ada", "born_in", known=True, top=3)["answer"].to_list()
    assert "Karlsberg" in top


def test_a_run_that_has_not_ended_is_refused(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "open")
    (tmp_path / "open" / "result.json").unlink()
    with pytest.raises(ReltuckerError, match="training has not ended"):
        open_run(tmp_path / "open").add([("a", "born_in", "b")], out=tmp_path / "x")
