"""Trials as a worker runs them: figures, failures, pruning, resuming, budgets, planning."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from reltucker.errors import FolderInUseError, RunError
from reltucker.graph import KnowledgeGraph
from reltucker.run import train
from reltucker.search import objective
from reltucker.search.folder import SearchFolder
from reltucker.search.objective import Reporter
from reltucker.search.outcome import IMPORTANCE_TRIALS, Outcome, _importance, outcome_of
from reltucker.search.plan import Plan
from reltucker.search.storage import open_storage, study_lock
from reltucker.search.trials import (
    FAILURE,
    FIGURES,
    FOLDER,
    MAX_RETRIES,
    OVER_BUDGET,
    TOTAL,
    WORKER,
    counted,
    history,
    is_given_up,
    release,
    take_up_again,
    worker_name,
)
from reltucker.search.workers import LOST, work
from reltucker.training import CHECKPOINT, RunFolder
from tests.search.conftest import quick_plan, quick_recipe

GONE = 2**22 + 1
"""A process number that Linux never gives."""


class Bench:
    """A study in a folder, and a worker in this very process."""

    def __init__(self, out: Path, plan: Plan, graph: KnowledgeGraph, trials: int) -> None:
        self.out, self.plan, self.trials = out, plan, trials
        SearchFolder(out).prepare("s", plan, graph)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.url = f"sqlite:///{out / 'study.db'}"
        self.storage = open_storage(self.url)
        self.study = optuna.create_study(
            study_name="s", storage=self.storage, directions=plan.directions()
        )

    def work(self) -> list[FrozenTrial]:
        """Run all trials; returns those that count."""
        self.study.set_user_attr(TOTAL, self.trials)
        self.release()
        work(self.out, self.url)
        return counted(self.study.trials)

    def release(self) -> None:
        with study_lock(self.url):
            release(self.study)

    def outcome(self) -> Outcome:
        return outcome_of(self.study, self.plan)


def test_each_trial_is_a_run_with_its_settings_and_figures(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, quick_plan(graph), graph, 3)
    trials = bench.work()
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 3
    for t in trials:
        folder = RunFolder.existing(tmp_path / "trials" / str(t.number))
        recipe, result = folder.recipe(), folder.result()
        assert result is not None
        assert recipe.train.learning_rate == t.params["train.learning_rate"]
        assert recipe.model.entity_dim == t.params["model.entity_dim"]
        assert t.value == result["seen"]["mrr"] > 0
        assert t.user_attrs["effective_parameters"] == result["effective_parameters"]
        assert len(t.intermediate_values) == 3
        assert not folder.has(CHECKPOINT)
    assert len({t.params["train.learning_rate"] for t in trials}) == 3
    # A worker that finds nothing to do makes up no trial.
    assert len(bench.work()) == len(bench.study.trials) == 3


def test_a_failed_trial_is_recorded_as_the_worst_and_ends_nothing(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail_by_turns(self: Any) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise RunError("training diverged in epoch 1")
        if len(calls) == 2:
            raise MemoryError
        if len(calls) == 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return original(self)

    original = objective.Training.run
    monkeypatch.setattr(objective.Training, "run", fail_by_turns)
    bench = Bench(tmp_path, quick_plan(graph), graph, 5)
    trials = bench.work()
    assert [t.user_attrs.get(FAILURE) for t in trials] == [
        "training diverged in epoch 1",
        "out of memory",
        "out of memory",
        None,
        None,
    ]
    assert [t.value for t in trials[:3]] == [0.0] * 3
    outcome = bench.outcome()
    assert outcome.count("failed") == 3
    assert outcome.best is not None
    assert outcome.best["number"] in (3, 4)
    assert outcome.frame()["reason"].null_count() == 2


@pytest.mark.parametrize(
    "error", [TypeError("a bug"), AssertionError(), KeyError("x"), RuntimeError("memory format")]
)
def test_a_programming_error_ends_the_worker(
    error: Exception, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any) -> dict[str, Any]:
        raise error

    bench = Bench(tmp_path, quick_plan(graph), graph, 2)
    with monkeypatch.context() as patched:
        patched.setattr(objective.Training, "run", broken)
        with pytest.raises(type(error)):
            bench.work()
    # When it is mended, the same command goes on with the trial.
    trials = bench.work()
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 2
    assert history(trials[0]) == [0]


def test_a_diverging_learning_rate_is_such_a_failure(graph: KnowledgeGraph, tmp_path: Path) -> None:
    space = {"train.learning_rate": {"values": [0.1, 1e38]}}
    bench = Bench(tmp_path, quick_plan(graph, space=space, sampler="grid"), graph, 2)
    trials = {t.params["train.learning_rate"]: t for t in bench.work()}
    assert trials[0.1].value > 0
    assert trials[1e38].value == 0.0
    assert "diverged in epoch" in trials[1e38].user_attrs[FAILURE]


def test_a_full_disk_is_no_fault_of_a_trial(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    bench = Bench(tmp_path, quick_plan(graph), graph, 2)
    with monkeypatch.context() as patched:
        patched.setattr(objective.Training, "run", full)
        with pytest.raises(OSError, match="No space"):
            bench.work()
    trials = bench.work()
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 2
    assert history(trials[0]) == [0]


@pytest.mark.parametrize("pruner", ["median", "halving"])
def test_poor_trials_are_pruned(
    pruner: str, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def falling(self: Reporter, record: dict[str, Any]) -> None:
        # Each trial is worse than the one before it.
        record["valid"]["seen"]["mrr"] = 0.5 / (1 + self.trial.number)
        original(self, record)

    original = Reporter.epoch
    monkeypatch.setattr(Reporter, "epoch", falling)
    recipe = quick_recipe(train__epochs=9)
    bench = Bench(tmp_path, quick_plan(graph, recipe=recipe, pruner=pruner), graph, 8)
    states = [t.state for t in bench.work()]
    assert states[0] == TrialState.COMPLETE
    assert states[-1] == TrialState.PRUNED
    outcome = bench.outcome()
    assert outcome.count("pruned") == states.count(TrialState.PRUNED) > 0
    assert not (tmp_path / "trials" / "7" / "result.json").exists()


def test_epochs_without_validation_are_not_told(graph: KnowledgeGraph, tmp_path: Path) -> None:
    bench = Bench(tmp_path, quick_plan(graph), graph, 1)
    with pytest.warns(UserWarning, match="Heartbeat"):
        asked = bench.study.ask()
    reporter = Reporter(asked, bench.plan)
    reporter.epoch({"epoch": 1, "loss": 1.0})
    reporter.epoch({"epoch": 2, "valid": {"seen": {"mrr": 0.25}}})
    assert bench.study.trials[0].intermediate_values == {2: 0.25}


def interrupted(bench: Bench, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Leave a trial as kill -9 does: in the middle, nobody told, its worker gone."""

    class Killed(BaseException):
        pass

    def die(self: Reporter, record: dict[str, Any]) -> None:
        original(self, record)
        if record["epoch"] == after:
            raise Killed

    original = Reporter.epoch
    with monkeypatch.context() as patched:
        patched.setattr(Reporter, "epoch", die)
        patched.setattr(objective.os, "getpid", lambda: GONE)
        with pytest.raises(Killed):
            bench.work()


def test_an_interrupted_trial_goes_on_from_its_checkpoint(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = quick_recipe(train__epochs=6, train__checkpoint_seconds=0)
    bench = Bench(tmp_path / "o", quick_plan(graph, recipe=recipe), graph, 2)
    interrupted(bench, monkeypatch, after=4)
    folder = RunFolder(tmp_path / "o" / "trials" / "0")
    before = folder.epochs()
    assert len(before) == 4
    assert bench.study.trials[0].state == TrialState.RUNNING
    bench.release()
    assert bench.study.trials[0].state == TrialState.FAIL
    trials = bench.work()
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 2
    resumed = trials[0]
    assert (resumed.user_attrs[FOLDER], history(resumed)) == ("0", [0])
    assert resumed.params == bench.study.trials[0].params
    assert sorted(resumed.intermediate_values) == [1, 2, 3, 4, 5, 6]
    # The checkpoint was of epoch 3: those were not trained again, as their seconds show.
    after = folder.epochs()
    assert [record["epoch"] for record in after] == [1, 2, 3, 4, 5, 6]
    assert after[:3] == before[:3]
    unbroken = train(graph, folder.recipe(), out=tmp_path / "unbroken", progress=False)
    assert unbroken.result is not None
    assert resumed.value == unbroken.result["seen"]["mrr"]
    # Only two trials count, under whatever numbers.
    assert len(trials) == 2
    assert bench.outcome().count("complete") == 2


def test_a_run_that_had_ended_is_not_trained_again(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, quick_plan(graph), graph, 1)
    first = bench.work()[0]
    # As if it had died between the end of training and telling.
    again = optuna.trial.create_trial(
        state=TrialState.WAITING,
        params=first.params,
        distributions=first.distributions,
        user_attrs={FOLDER: first.user_attrs[FOLDER]},
    )
    bench.study.add_trial(again)
    monkeypatch.setattr(objective, "Training", None)
    work(bench.out, bench.url)
    assert bench.study.trials[1].value == first.value


def test_a_worker_leaves_a_trial_that_another_one_has_now(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(self: Reporter, record: dict[str, Any]) -> None:
        bench.study.tell(self.trial.number, state=TrialState.FAIL)
        original(self, record)

    def leave(code: int) -> None:
        raise SystemExit(code)

    bench = Bench(tmp_path, quick_plan(graph), graph, 1)
    original = Reporter.epoch
    monkeypatch.setattr(Reporter, "epoch", sleep)
    monkeypatch.setattr(objective.os, "_exit", leave)
    with pytest.raises(SystemExit, match=str(LOST)):
        bench.work()
    assert len(RunFolder(tmp_path / "trials" / "0").epochs()) == 1


def test_a_trial_is_given_up_after_some_deaths(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, quick_plan(graph), graph, 1)
    for _ in range(MAX_RETRIES + 1):
        interrupted(bench, monkeypatch, after=1)
        bench.release()
    assert bench.work()[0].state == TrialState.FAIL
    (row,) = bench.outcome().rows
    assert row["state"] == "failed"
    assert row["reason"].startswith("its worker died 6 times")


def test_trials_of_living_workers_are_left_alone_and_stale_ones_released(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, quick_plan(graph), graph, 4)
    with pytest.warns(UserWarning, match="[Hh]eartbeat"):
        here, elsewhere, gone, _ = asked = [bench.study.ask() for _ in range(4)]
    here.set_user_attr(WORKER, worker_name(1))
    elsewhere.set_user_attr(WORKER, f"elsewhere/1/{GONE}")
    gone.set_user_attr(WORKER, worker_name(GONE))
    for t in asked:
        bench.storage.record_heartbeat(t._trial_id)
    bench.release()
    # The last one names nobody: whoever was taking it died before it could.
    running, fail, waiting = TrialState.RUNNING, TrialState.FAIL, TrialState.WAITING
    states = [t.state for t in bench.study.trials]
    assert states == [running, running, fail, fail, waiting, waiting]
    with bench.storage.engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00' WHERE trial_id = :id"
            ),
            {"id": elsewhere._trial_id},
        )
    bench.release()
    bench.release()  # which finds nothing more to do
    states = [t.state for t in bench.study.trials]
    assert states == [running, fail, fail, fail, waiting, waiting, waiting]


@pytest.mark.parametrize(
    ("sampler", "goal"), [("gp", "mrr"), ("gp", "skyline"), ("tpe", "skyline")]
)
def test_samplers_go_on_beyond_their_random_beginning(
    sampler: str, goal: str, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = quick_plan(graph, sampler=sampler, objective=goal)
    trials = work_at_once(Bench(tmp_path, plan, graph, 12), monkeypatch, 1)
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 12
    assert len({t.params["train.learning_rate"] for t in trials}) > 10


def work_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, workers: int) -> list[FrozenTrial]:
    """Run all trials by workers that begin together; nothing is trained."""

    def trained(path: Path, *_: object) -> dict[str, Any]:
        return {"seen": {"mrr": 0.1 / (1 + int(path.name))}, **dict.fromkeys(FIGURES, 1)}

    monkeypatch.setattr(objective, "trained", trained)
    bench.study.set_user_attr(TOTAL, bench.trials)
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, bench.out, bench.url) for _ in range(workers)]:
            done.result()
    return bench.study.trials


# warnings.catch_warnings does not keep threads apart.
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("sampler", ["paper", "grid"])
def test_workers_take_every_point_once(
    sampler: str, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {
        "model.entity_dim": {"values": [2, 4]},
        "train.entity_dropout": {"low": 0.0, "high": 0.5, "step": 0.05},
    }
    bench = Bench(tmp_path, quick_plan(graph, space=space, sampler=sampler), graph, 18)
    trials = work_at_once(bench, monkeypatch, 3)
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 18
    assert len({tuple(t.params.values()) for t in trials}) == 18
    sizes = Counter(t.params["model.entity_dim"] for t in trials)
    assert sizes == {2: 9, 4: 9} or sampler == "grid"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_is_drawn_follows_from_the_seed_however_many_workers_there_are(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    for workers in (1, 3):
        bench = Bench(tmp_path / str(workers), quick_plan(graph, seed=7), graph, 9)
        drawn.append([t.params for t in work_at_once(bench, monkeypatch, workers)])
    assert drawn[0] == drawn[1]
    assert len({tuple(params.values()) for params in drawn[0]}) == 9


def test_settings_over_the_limit_are_drawn_again_and_not_trained(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    recipe = quick_recipe(model__name="drt", train__epochs=1)
    space = {
        "model.entity_dim": {"low": 2, "high": 16},
        "model.relation_dim": {"low": 1, "high": 8},
    }
    plan = quick_plan(graph, recipe=recipe, space=space, max_parameters=300)
    bench = Bench(tmp_path, plan, graph, 4)
    while len(bench.work()) < 4:
        continue
    over = [t for t in bench.study.trials if OVER_BUDGET in t.user_attrs]
    assert over, "the seed has none over the limit; take another"
    for t in over:
        assert t.user_attrs[OVER_BUDGET] > 300
        assert not (tmp_path / "trials" / str(t.number)).exists()
    outcome = bench.outcome()
    assert len(outcome.rows) == 4
    assert all(row["effective_parameters"] <= 300 for row in outcome.rows)


def test_a_sparse_core_keeps_to_the_limit(graph: KnowledgeGraph, tmp_path: Path) -> None:
    recipe = quick_recipe(
        model__name="srt",
        model__relation_dim=4,
        core__warm_up_epochs=1,
        core__l0_weight=40.0,
        train__epochs=30,
        train__batch_size=20,
        train__learning_rate=0.2,
    )
    space = {"train.entity_dropout": {"values": [0.0, 0.2]}}
    limit = 33 * 8 + 4 * 4 + 100
    plan = quick_plan(graph, recipe=recipe, space=space, sampler="grid", max_parameters=limit)
    bench = Bench(tmp_path, plan, graph, 2)
    bench.work()
    outcome = bench.outcome()
    assert outcome.count("complete") == 2
    assert all(row["effective_parameters"] <= limit for row in outcome.rows)


def test_a_grid_is_tried_point_by_point_and_goes_on(graph: KnowledgeGraph, tmp_path: Path) -> None:
    space = {
        "model.entity_dim": {"values": [2, 4]},
        "train.entity_dropout": {"low": 0.0, "high": 0.2, "step": 0.1},
    }
    recipe = quick_recipe(train__epochs=1)
    bench = Bench(tmp_path, quick_plan(graph, recipe=recipe, space=space, sampler="grid"), graph, 2)
    assert len(bench.work()) == 2
    bench.trials = 6
    points = [tuple(t.params.values()) for t in bench.work()]
    assert len(set(points)) == len(points) == 6


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("trials", "settings", "is_told"),
    [
        (IMPORTANCE_TRIALS, ("a", "b"), True),
        (IMPORTANCE_TRIALS - 1, ("a", "b"), False),
        (IMPORTANCE_TRIALS, ("a",), False),
    ],
)
def test_importance_is_told_of_enough_trials_and_two_settings(
    trials: int, settings: tuple[str, ...], is_told: bool
) -> None:
    study = optuna.create_study(direction="maximize")
    among = optuna.distributions.FloatDistribution(0.0, 100.0)
    for number in range(trials):
        values = {name: float(number * (place + 1) % 7) for place, name in enumerate(settings)}
        distributions = dict.fromkeys(settings, among)
        study.add_trial(
            optuna.trial.create_trial(
                params=values, distributions=distributions, value=number / trials
            )
        )
    assert set(_importance(study, study.get_trials())) == (set(settings) if is_told else set())


def test_many_may_open_a_new_storage_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with ThreadPoolExecutor(6) as pool:
        assert len(list(pool.map(lambda _: open_storage(url), range(6)))) == 6
    assert not optuna.get_all_study_summaries(open_storage(url))


def test_faults_of_the_machine_are_no_results(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_memory(self: Any) -> dict[str, Any]:
        raise MemoryError

    bench = Bench(tmp_path, quick_plan(graph), graph, 2)
    for _ in range(MAX_RETRIES + 1):
        interrupted(bench, monkeypatch, after=1)
        bench.release()
    with monkeypatch.context() as patch:
        patch.setattr(objective.Training, "run", without_memory)
        bench.work()
    assert bench.outcome().count("failed") == 2
    bench.release()
    assert len(bench.work()) == 2, "within one start they have ended"
    take_up_again(bench.study)
    assert is_given_up(bench.study.trials[MAX_RETRIES]), "under its former number"
    trials = bench.work()
    assert [trial.user_attrs.get(FAILURE) for trial in trials] == [None, None]
    assert (len(trials), bench.outcome().count("complete")) == (2, 2)
    take_up_again(bench.study)
    assert len(bench.work()) == 2, "what has ended well stays as it is"


def test_a_full_disk_is_no_reason(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device", "best.safetensors")
    for error in (full, RunError("cannot be written"), FolderInUseError("in use")):
        error.__cause__ = full
        assert objective.reason_of(error) is None
