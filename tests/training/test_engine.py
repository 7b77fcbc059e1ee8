"""Optimisers, schedules, validation and objectives inside of whole training runs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reltucker.errors import RecipeError, RunError
from reltucker.evaluation import sampled
from reltucker.model import CORES
from reltucker.run import open_run, train
from reltucker.training import BEST, CHECKPOINT, Recipe, RunFolder, Training, TrainSettings
from reltucker.training.optimizer import Schedule
from reltucker.training.validation import LONGEST_INTERVAL, SMALLEST_SAMPLE, Validation, plan
from tests.conftest import random_graph
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
    settings = [f"model.name={model}", "model.entity_dim=16", "train.epochs=40"]
    settings += ["train.entity_dropout=0", "train.mixing_dropout=0", *objective]
    run = train(random_graph(0, valid=0), quick(*settings), out=tmp_path / "run", progress=False)
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


def test_a_slow_validation_is_sampled_and_the_choice_kept(
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
    training = Training(quick(), graph, RunFolder(tmp_path / "run"), None)
    training.restore()
    assert (training.validation.every, training.validation.sample) == (2, 10)


def test_the_final_pass_is_complete_unless_it_takes_longer_than_training() -> None:
    graph = random_graph(2, valid=2000, entities=90)
    training = Training(quick(), graph, RunFolder(Path()), None)
    validation = Validation(TrainSettings(), graph)
    for seconds, training_seconds, whole in [
        (None, 1.0, True),
        (59.0, 1.0, True),
        (100.0, 120.0, True),
        (400.0, 100.0, False),
    ]:
        validation.seconds = seconds
        ranking = validation.final(training.model.eval(), training_seconds)
        assert (len(ranking.triples) == len(graph.valid)) == whole
        if not whole:
            assert len(ranking.triples) == max(SMALLEST_SAMPLE, len(graph.valid) // 4)


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
        (["train.loss=binary"], "negative_sampling has the softmax loss"),
        (["train.label_smoothing=0.1"], "negative_sampling has the softmax loss"),
        (["train.objective=one_vs_all", "train.shared_negatives=true"], "shared_negatives"),
        (["train.objective=one_vs_all", "train.answer_exponent=1"], "answer_exponent"),
        (["train.answers_at_once=4"], "answers_at_once"),
        (["train.regularizer=n3"], "regularizer_weight"),
        (["train.regularizer_weight=0.1"], "regularizer_weight"),
        (["model.batch_norm=true"], "needs model.reciprocal"),
        (["train.objective=all"], "train.objective = 'all'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe().changed(changes)


def test_adam_is_that_of_torch() -> None:
    """The state is made at once, for checkpoints; the steps are the same."""
    from reltucker.training.optimizer import make_optimizer

    parameters: list[Any] = []
    for own in (True, False):
        training = Training(
            quick("train.optimizer=adam", "train.learning_rate=0.01"),
            random_graph(4),
            RunFolder(Path()),
            None,
        )
        model = training.model
        optimizer = (
            make_optimizer(model, training.recipe.train)
            if own
            else torch.optim.Adam(model.parameters(), lr=0.01)
        )
        for _ in range(5):
            training.objective.backward(torch.arange(50), training.generator)
            optimizer.step()
        parameters.append([p.detach() for p in model.parameters()])
    for own, reference in zip(*parameters, strict=True):
        assert torch.allclose(own, reference, atol=1e-6)
