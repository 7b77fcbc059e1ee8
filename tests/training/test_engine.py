"""Optimisers, schedules, validation and objectives inside of whole training runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reltucker.errors import RecipeError, RunError
from reltucker.evaluation import sampled
from reltucker.model import CORES, RelationalTucker
from reltucker.run import open_run, train
from reltucker.training import (
    BEST,
    CHECKPOINT,
    Recipe,
    RunFolder,
    Training,
    TrainSettings,
    settled,
)
from reltucker.training.objectives import dense
from reltucker.training.optimizer import Schedule
from reltucker.training.validation import (
    LONGEST_INTERVAL,
    SMALLEST_SAMPLE,
    Validation,
    plan,
    settle,
)
from tests.conftest import core_settings, random_graph
from tests.training.test_training import StopAfter, figures, quick

ALL_OF_IT = [
    "model.name=drt",
    "model.reciprocal=true",
    "model.batch_norm=true",
    "train.objective=k_vs_all",
    "train.answer_exponent=0.5",
    "train.label_smoothing=0.1",
    "train.optimizer=adam",
    "train.learning_rate=0.01",
    "train.warm_up_epochs=2.5",
    "train.schedule=plateau",
    "train.plateau_patience=1",
    "train.decay=0.5",
    "train.relation_prediction=0.5",
    "train.regularizer=n3",
    "train.regularizer_weight=0.01",
    "train.query_dropout=0.1",
    "train.relation_dropout=0.1",
    "train.given_dropout=0.1",
    "train.averaged_epochs=1.5",
]


@pytest.mark.parametrize("model", sorted(CORES))
@pytest.mark.parametrize(
    "objective",
    [
        ["train.objective=one_vs_all"],
        ["train.objective=k_vs_all", "train.loss=binary"],
        ["train.objective=k_vs_all", "train.optimizer=adam", "train.learning_rate=0.02"],
        ["train.shared_negatives=true", "train.negatives=20"],
    ],
    ids=["one_vs_all", "binary", "adam", "shared"],
)
def test_every_objective_learns_with_every_core(
    model: str, objective: list[str], tmp_path: Path
) -> None:
    settings = ["train.epochs=40", "train.entity_dropout=0", "train.mixing_dropout=0", *objective]
    recipe = quick(*settings).with_values(core_settings(model, 16))
    run = train(random_graph(0, valid=0), recipe, out=tmp_path / "run", progress=False)
    losses = [record["loss"] for record in run.epochs()]
    assert losses[-1] < 0.75 * losses[0]
    # Ranks of the 30 entities are about 8 by chance, an MRR of about 0.13.
    assert run.evaluate("train", progress=False).metrics["seen"].mrr > 0.3


@pytest.mark.parametrize("stop", [1, 4])
@pytest.mark.parametrize(
    "changes",
    [ALL_OF_IT, ["train.shared_negatives=true", "train.schedule=exponential"]],
    ids=["all", "shared"],
)
def test_a_resumed_run_equals_an_unbroken_one(
    stop: int, changes: list[str], tmp_path: Path
) -> None:
    graph, recipe = random_graph(2), quick(*changes)
    train(graph, recipe, out=tmp_path / "unbroken", progress=False)
    folder = RunFolder.create(tmp_path / "broken", recipe, graph)
    with pytest.raises(KeyboardInterrupt):
        Training(recipe, graph, folder, StopAfter(stop)).run()
    open_run(tmp_path / "broken").resume(progress=False)
    assert figures(tmp_path / "broken") == figures(tmp_path / "unbroken")
    for name in (BEST, CHECKPOINT):
        expected = load_file(tmp_path / "unbroken" / name)
        got = load_file(tmp_path / "broken" / name)
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[key], got[key]) for key in expected)


def test_a_normalised_model_is_served_as_it_was_judged(tmp_path: Path) -> None:
    run = train(random_graph(3), quick(*ALL_OF_IT), out=tmp_path / "run", progress=False)
    best = next(r for r in run.epochs() if r["epoch"] == run.result["best_epoch"])
    again = open_run(run.path).evaluate("valid", progress=False)
    assert again.metrics["seen"].mrr == pytest.approx(best["valid"]["seen"]["mrr"], abs=1e-6)
    assert "norm.after.running_var" in load_file(run.path / BEST)


def test_a_diverging_run_is_told_apart(tmp_path: Path) -> None:
    changes = ["train.objective=one_vs_all", "train.learning_rate=1e30", "model.name=distmult"]
    with pytest.raises(RunError, match="training diverged in epoch 1"):
        train(random_graph(1), quick(*changes), out=tmp_path / "run", progress=False)


# -- schedules --------------------------------------------------------------------------------


def test_the_learning_rate_warms_up_and_decays() -> None:
    settings = TrainSettings(
        learning_rate=0.4, warm_up_epochs=2.0, schedule="exponential", decay=0.5
    )
    schedule = Schedule(settings)
    rates = [schedule.rate(epoch) for epoch in (0.5, 1.0, 1.5, 2.0, 2.9, 3.0, 3.1)]
    assert rates == pytest.approx([0.1, 0.2, 0.15, 0.2, 0.1, 0.1, 0.05])


def test_the_learning_rate_falls_on_plateaus() -> None:
    settings = TrainSettings(learning_rate=1.0, schedule="plateau", decay=0.1, plateau_patience=3)
    schedule = Schedule(settings)
    rates = []
    for improved, epochs in [(True, 1), (False, 2), (False, 1), (False, 2), (True, 1), (False, 3)]:
        schedule.validated(improved, epochs)
        rates.append(schedule.rate(9.0))
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.1, 0.01])


# -- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "allowed", "expected"),
    [
        (0.05, 0.001, (1, None)),  # nobody notices
        (0.5, 0.8, (1, None)),
        (1.0, 0.4, (3, None)),
        (2.0, 0.4, (5, None)),
        (100.0, 0.4, (LONGEST_INTERVAL, 2000)),
        (1e6, 0.4, (LONGEST_INTERVAL, SMALLEST_SAMPLE)),
    ],
)
def test_validation_takes_its_share_and_no_more(
    seconds: float, allowed: float, expected: tuple[int, int | None]
) -> None:
    every, sample = plan(seconds, allowed, 100_000)
    assert (every, sample) == expected
    if seconds > 0.1 and sample != SMALLEST_SAMPLE:
        assert seconds * (sample or 100_000) / 100_000 / every <= allowed * 1.001


def test_validation_happens_when_due_and_at_the_end(tmp_path: Path) -> None:
    recipe = quick("train.validate_every=4")
    run = train(random_graph(2), recipe, out=tmp_path / "run", progress=False)
    validated = [record["epoch"] for record in run.epochs() if "valid" in record]
    assert validated == [4, 6]
    assert run.result["best_epoch"] in validated
    assert run.result["validated_every"] == 4


def test_patience_counts_epochs_however_rare_validation_is(tmp_path: Path) -> None:
    changes = ["train.validate_every=2", "train.patience=4", "train.epochs=60"]
    changes += ["train.learning_rate=1e-12"]  # the first figures stay the best
    run = train(random_graph(2), quick(*changes), out=tmp_path / "run", progress=False)
    assert run.result["best_epoch"] == 2
    assert run.result["epochs"] == 6


def test_a_slow_validation_is_sampled_and_the_choice_is_in_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reltucker.training.validation.plan", lambda *_: (2, 10))
    graph = random_graph(2)
    run = train(graph, quick(), out=tmp_path / "run", progress=False)
    records = [record for record in run.epochs() if "valid" in record]
    assert [record["epoch"] for record in records] == [2, 4, 6]
    assert {record["valid"]["seen"]["queries"] for record in records} == {20}
    seen = int(graph.is_seen(graph.valid).sum())
    assert run.result["seen"]["queries"] == 2 * seen  # the final pass is complete
    assert run.result["validated_triples"] == 10
    written = open_run(run.path).recipe.train
    assert (written.validate_every, written.validate_triples) == (2, 10)
    # What is set is left alone.
    kept = settled(quick("train.validate_every=4"), graph).train
    assert (kept.validate_every, kept.validate_triples) == (4, None)


def test_how_often_to_validate_follows_from_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock is asked: a busy machine chooses as an idle one does."""
    graph = random_graph(2, valid=2000, entities=90)
    for clock in ("time", "monotonic", "perf_counter", "process_time"):
        monkeypatch.delattr(f"time.{clock}")
    small = settled(Recipe(), graph).train
    assert (small.validate_every, small.validate_triples) == (1, None)
    with torch.device("meta"):
        large = RelationalTucker(100_000, 5, CORES["complex"].build(400, None, 5))
    chosen = settle(Recipe(), large, graph).train
    assert chosen.validate_every == LONGEST_INTERVAL
    assert SMALLEST_SAMPLE <= chosen.validate_triples < 2000


def test_the_final_pass_is_complete_unless_it_takes_longer_than_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_graph(2, valid=2000, entities=90)
    training = Training(quick(), graph, RunFolder(Path()), None)
    validation = Validation(TrainSettings(), graph)
    monkeypatch.setattr("reltucker.training.validation.epoch_seconds", lambda *_: 10.0)
    for seconds, epochs, whole in [(59.0, 1, True), (100.0, 12, True), (400.0, 10, False)]:
        monkeypatch.setattr(
            "reltucker.training.validation.ranking_seconds", lambda *_, s=seconds: s
        )
        ranking = validation.final(training.model.eval(), epochs)
        assert (len(ranking.triples) == len(graph.valid)) == whole
        if not whole:
            assert len(ranking.triples) == max(SMALLEST_SAMPLE, len(graph.valid) // 4)


BUSY = "while True: sum(range(10000))"


def test_a_busy_machine_gives_the_same_figures(tmp_path: Path) -> None:
    """A graph on which the old rule, by a clock, chose differently from run to run."""
    graph = random_graph(5, entities=3000, train=6000, valid=1500, test=10)
    recipe = Recipe().with_values(
        {"model.name": "distmult", "model.entity_dim": 32, "train.epochs": 4, "train.negatives": 4}
    )
    train(graph, recipe, out=tmp_path / "idle", progress=False)
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(4)]
    try:
        train(graph, recipe, out=tmp_path / "busy", progress=False)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert figures(tmp_path / "busy") == figures(tmp_path / "idle")
    assert (tmp_path / "busy/recipe.toml").read_text() == (
        tmp_path / "idle/recipe.toml"
    ).read_text()


def test_a_sample_of_triples_is_the_same_every_time() -> None:
    triples = random_graph(1).train
    chosen = sampled(triples, 20)
    assert (chosen == sampled(triples, 20)).all()
    assert len({tuple(t) for t in chosen.tolist()}) == 20
    assert {tuple(t) for t in chosen.tolist()} <= {tuple(t) for t in triples.tolist()}
    assert sampled(triples, 10_000) is triples


def test_evaluation_can_rank_a_sample(tmp_path: Path) -> None:
    run = train(random_graph(2), quick(), out=tmp_path / "run", progress=False)
    assert run.evaluate("test", sample=7, progress=False).metrics["standard"].queries == 14


# -- recipes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["train.regularizer=n3"], "regularizer_weight"),
        (["train.regularizer_weight=0.1"], "regularizer_weight"),
        (["model.batch_norm=true"], "needs model.reciprocal"),
        (["train.objective=all"], "train.objective = 'all': there is no objective 'all'; "),
        (["train.regularizer=n4"], "there is no regularizer 'n4'; did you mean 'n3'?"),
        (["core.l0_weight=-1", "model.name=srt"], r"core.l0_weight = -1: .*greater than"),
        (["core.scalar_share=0.3"], r"core.scalar_share: drt has no such option"),
        (["train.l0_weight=1"], "did you mean 'core.l0_weight'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe().changed(changes)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["train.loss=binary"], "loss"),
        (["train.label_smoothing=0.1"], "label_smoothing"),
        (["train.objective=one_vs_all", "train.shared_negatives=true"], "shared_negatives"),
        (["train.objective=one_vs_all", "train.answer_exponent=1"], "answer_exponent"),
        (["train.answers_at_once=4"], "answers_at_once"),
        (["train.objective=k_vs_all", "train.negatives=30"], "negatives"),
        (["train.objective=one_vs_all", "train.negatives=30"], "negatives"),
        (["train.score_megabytes=30"], "score_megabytes"),
        (
            [
                "train.regularizer=n3",
                "train.regularizer_weight=0.1",
                "train.regularizer_power=2.5",
            ],
            "regularizer_power",
        ),
        (["train.decay=0.5"], "decay"),
        (["train.schedule=exponential", "train.plateau_patience=9"], "plateau_patience"),
        (["train.max_density=0.5"], "max_density"),
    ],
)
def test_settings_without_effect_are_refused_by_name(
    changes: list[str], key: str, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=rf"train\.{key} = .* has no effect here: it is for"):
        train(random_graph(1), Recipe().changed(changes), out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_answers_are_taken_apart_for_softmax_only(tmp_path: Path) -> None:
    changes = ["train.objective=k_vs_all", "train.loss=binary", "train.answers_at_once=4"]
    with pytest.raises(RecipeError, match=r"train\.answers_at_once = 4: it is for train\.loss"):
        train(random_graph(1), Recipe().changed(changes), out=tmp_path / "run", progress=False)


def test_the_recipe_of_a_run_is_full(tmp_path: Path) -> None:
    recipe = quick("model.name=srt", "core.l0_weight=0.3", "train.epochs=1")
    written = train(random_graph(1), recipe, out=tmp_path / "run", progress=False).recipe
    assert written.core == {**CORES["srt"].Options().model_dump(), "l0_weight": 0.3}
    assert written.train.validate_every == 1


def test_a_plateau_needs_validation_triples(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="has no validation triples that would show a plateau"):
        train(
            random_graph(1, valid=0), quick("train.schedule=plateau"), out=tmp_path, progress=False
        )


def test_runs_of_earlier_versions_can_still_be_opened(tmp_path: Path) -> None:
    run = train(random_graph(1), quick(), out=tmp_path / "run", progress=False)
    path = run.path / "recipe.toml"
    text = path.read_text().partition("\n")[2]
    path.write_text(text.replace("[train]", "[train]\nvalidation_share = 0.1"))
    assert open_run(run.path).recipe == run.recipe
    with pytest.raises(RecipeError, match=r"there is no setting 'train\.validation_share'"):
        Recipe.load(path)


def test_a_checkpoint_of_an_earlier_version_is_told_apart(tmp_path: Path) -> None:
    run = train(random_graph(1), quick(), out=tmp_path / "run", progress=False)
    folder = RunFolder(run.path)
    tensors, _ = folder.load_tensors(CHECKPOINT)
    folder.save_tensors(CHECKPOINT, tensors, {"epoch": 3, "waited": 0})
    (run.path / "result.json").unlink()
    with pytest.raises(RunError, match=r"written by an earlier version, .* train it again"):
        open_run(run.path).resume(progress=False)


@pytest.mark.parametrize(
    "state", [5, [], {"optimizer": 1, "model": 2}, {"optimizer": {}, "model": {"tensor": []}}]
)
def test_a_checkpoint_whose_state_is_nonsense_is_named(state: Any, tmp_path: Path) -> None:
    run = train(random_graph(1), quick(), out=tmp_path / "run", progress=False)
    folder = RunFolder(run.path)
    folder.save_tensors(CHECKPOINT, folder.load_tensors(CHECKPOINT)[0], state)
    (run.path / "result.json").unlink()
    told = r"checkpoint\.safetensors (does not fit the run's recipe|is damaged \(its state)"
    with pytest.raises(RunError, match=told):
        open_run(run.path).resume(progress=False)


def test_an_optimizer_state_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    training = Training(quick(), random_graph(1), RunFolder(tmp_path), None)
    state = training.optimizer.state_dict()
    for name, broken in [("E", {}), ("R", {"sum": state["R"]["sum"][:1], "step": torch.ones(())})]:
        with pytest.raises(ValueError, match=f"the optimiser's state of {name}"):
            training.optimizer.load_state_dict({**state, name: broken})


def test_adam_is_that_of_torch() -> None:
    """The state is made at once, for checkpoints; the steps are the same."""
    parameters: list[Any] = []
    for own in (True, False):
        training = Training(
            quick("train.optimizer=adam", "train.learning_rate=0.01"),
            random_graph(4),
            RunFolder(Path()),
            None,
        )
        model = training.model
        plain = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(5):
            if own:
                training.step(torch.arange(50), 0.01)
                continue
            _, found = training.objective.gradients(torch.arange(50), training.generator)
            for name, parameter in model.named_parameters():
                parameter.grad = dense(found[name], parameter)
            plain.step()
        parameters.append([p.detach() for p in model.parameters()])
    for own, reference in zip(*parameters, strict=True):
        assert torch.allclose(own, reference, atol=1e-6)
