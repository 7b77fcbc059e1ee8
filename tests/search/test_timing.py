"""Searches within a time: they end, go on with what is left, and lose no trial to the clock."""

import time
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from optuna.trial import TrialState, create_trial

from reltucker.errors import RecipeError, StudyError
from reltucker.graph import KnowledgeGraph
from reltucker.run import train
from reltucker.search import SearchResult, run_search, timing
from reltucker.search import search as search_module
from reltucker.search.folder import SearchFolder
from reltucker.search.storage import open_storage, storage_url
from reltucker.search.timing import (
    DEADLINE,
    SECONDS,
    USED,
    continue_trial,
    first_share,
    left,
    to_continue,
)
from reltucker.search.trials import CONTINUES, CUT, FAILURE, LIMIT, TOTAL, counted
from reltucker.training import BEST, CHECKPOINT, RunFolder
from tests.search.conftest import SPACE, quick_recipe, search_here, space_of

# -- who goes on -----------------------------------------------------------------------------------


class Studied:
    """A study of trials that took as long as they were allowed to."""

    def __init__(self, *mrrs: float, total: int = 100, seconds: float = 60.0) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(direction="maximize")
        self.study.set_user_attr(TOTAL, total)
        self.study.set_user_attr(SECONDS, 100.0)
        self.study.set_user_attr(DEADLINE, time.time() + seconds)
        for mrr in mrrs:
            self.add(mrr)

    def add(self, mrr: float, **attributes: Any) -> None:
        self.study.add_trial(create_trial(value=mrr, user_attrs={CUT: 3, **attributes}))

    def next(self) -> tuple[int, float | None] | None:
        found = to_continue(self.study, self.study.trials, share=2.0)
        return None if found is None else (found[0].number, found[1])


def test_the_best_third_goes_on_three_times_as_long() -> None:
    studied = Studied(0.1, 0.5, 0.3, 0.2, 0.4)
    assert studied.next() == (1, 6.0)
    studied.add(0.6, **{CONTINUES: 1, LIMIT: 6.0})
    assert studied.next() is None  # two of six would
    studied.add(0.05)
    assert studied.next() == (4, 6.0)
    studied.add(0.45, **{CONTINUES: 4, LIMIT: 6.0})
    assert studied.next() is None
    for mrr in (0.44, 0.43, 0.42):
        studied.add(mrr)
    assert studied.next() == (8, 6.0)
    studied.add(0.7, **{CONTINUES: 8, LIMIT: 6.0})
    # Of three that came so far, the best goes on still longer.
    assert studied.next() == (11, 18.0)


def test_who_had_all_the_time_it_wanted_does_not_go_on() -> None:
    studied = Studied()
    studied.study.add_trial(create_trial(value=0.9))
    for mrr in (0.1, 0.2, 0.3):
        studied.add(mrr)
    assert studied.next() is None
    studied.add(0.25)
    studied.add(0.28)
    assert studied.next() == (3, 6.0)


def test_the_last_part_of_the_time_is_for_the_best() -> None:
    studied = Studied(0.1, 0.5, seconds=19.0)
    assert studied.next() == (1, None)
    continue_trial(studied.study, studied.study.trials[1], None)
    assert studied.next() is None  # it waits


def test_the_best_goes_on_where_no_other_trial_is_to_be_drawn() -> None:
    studied = Studied(0.1, 0.5, total=2)
    assert studied.next() == (1, None)
    assert left(studied.study, studied.study.trials, 2.0) == 1
    studied.study.set_user_attr(DEADLINE, time.time() - 1)
    assert left(studied.study, studied.study.trials, 2.0) == 0


def test_what_went_on_counts_once_and_only_if_it_ended_well() -> None:
    studied = Studied(0.1, 0.5)

    def numbers() -> list[int]:
        return [trial.number for trial in counted(studied.study.trials)]

    continue_trial(studied.study, studied.study.trials[1], 6.0)
    assert numbers() == [0, 1]
    trial = studied.study.ask()
    assert numbers() == [0, 1]
    studied.study.tell(trial, 0.6)
    assert numbers() == [0, 2]
    studied.add(0.0, **{CONTINUES: 2, FAILURE: "training diverged"})
    assert numbers() == [0, 2]


def test_a_share_is_long_enough_to_say_something() -> None:
    assert first_share(30, 1) == 50.0
    assert first_share(30, 4) == 200.0
    assert first_share(0.5, 1) == 2.5


# -- searches --------------------------------------------------------------------------------------

EPOCHS = 14


def timed(out: Path, graph_files: Path, **options: Any) -> SearchResult:
    """A search of four trials, each of which is cut as soon as it can be: after two epochs."""
    recipe = quick_recipe(graph_files, train__epochs=EPOCHS, train__patience=EPOCHS)
    options = {"minutes": 5.0, "trials": 4, "sampler": "random", **options}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_module, "first_share", lambda *_: 1e-9)
        return search_here(SPACE, recipe, out=out, **options)


def study_of(out: Path) -> optuna.Study:
    storage = open_storage(storage_url(None, out))
    return optuna.load_study(study_name="small-distmult", storage=storage)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, graph_files: Path) -> SearchResult:
    return timed(tmp_path_factory.mktemp("timed") / "o", graph_files)


def test_trials_that_are_cut_keep_what_they_have(ended: SearchResult) -> None:
    trials = study_of(ended.out).trials
    assert all(trial.state == TrialState.COMPLETE and trial.value > 0 for trial in trials)
    first = [trial for trial in trials if CONTINUES not in trial.user_attrs]
    assert [trial.user_attrs[CUT] for trial in first] == [2] * 4
    assert ended.to_dict()["trials"] == 4
    assert ended.best["valid_mrr"] == max(trial.value for trial in trials)
    assert set(ended.test) >= {"standard", "seen", "paper"}


def test_the_best_go_on_where_they_were_cut(ended: SearchResult) -> None:
    trials = study_of(ended.out).trials
    folder = SearchFolder(ended.out)
    later = [trial for trial in trials if CONTINUES in trial.user_attrs]
    assert later
    assert CUT not in later[-1].user_attrs  # when nothing was left to be drawn, to its end
    for trial in later:
        earlier = trials[trial.user_attrs[CONTINUES]]
        assert trial.params == earlier.params
        before, after = (
            RunFolder(folder.trials / str(t.user_attrs["folder"])) for t in (earlier, trial)
        )
        cut = earlier.user_attrs[CUT]
        assert after.epochs()[:cut] == before.epochs()  # down to its seconds
        assert trial.user_attrs["epochs"] > cut
        assert before.result() is not None
        assert not before.has(CHECKPOINT)


def test_the_recipe_of_a_cut_trial_gives_its_model_again(
    ended: SearchResult, tmp_path: Path
) -> None:
    graph = KnowledgeGraph.load(ended.out / "graph")
    for number in (0, ended.best["number"]):
        own = RunFolder(ended.out / "trials" / str(number))
        recipe, result = own.recipe(), own.result()
        assert result is not None
        assert recipe.train.epochs == result["epochs"]
        again = train(graph, recipe, out=tmp_path / str(number), progress=False)
        assert again.result is not None
        assert again.result["seen"] == result["seen"]
        first, second = (RunFolder(path).load_tensors(BEST)[0] for path in (own.path, again.path))
        assert all(torch.equal(first[key], second[key]) for key in first)
    of_run = (ended.run / "recipe.toml").read_text().partition("\n")[2]
    assert (ended.out / "best.toml").read_text() == of_run


def test_however_short_the_time_is_there_is_a_model(tmp_path: Path, graph_files: Path) -> None:
    result = timed(tmp_path / "o", graph_files, minutes=0.0001)
    assert result.to_dict()["trials"] == 1
    assert result.best["valid_mrr"] > 0
    # What is used up is not used again, but more time is.
    assert timed(tmp_path / "o", graph_files, minutes=0.0001).to_dict() == result.to_dict()
    assert study_of(result.out).user_attrs[USED] > 0.006
    later = timed(tmp_path / "o", graph_files, workers=2)
    assert later.to_dict()["trials"] == 4
    assert later.best["valid_mrr"] >= result.best["valid_mrr"]


def test_a_killed_search_has_the_time_that_is_left(
    tmp_path: Path, graph_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(timing, "NOTED_EVERY", 0.0)
        patched.setattr(search_module.LiveView, "update", killed)
        with pytest.raises(KeyboardInterrupt):
            timed(tmp_path / "o", graph_files)
    study = study_of(tmp_path / "o")
    used = study.user_attrs[USED]
    assert used > 0
    study.set_user_attr(USED, 299.99)
    result = timed(tmp_path / "o", graph_files)
    assert result.to_dict()["trials"] == 1  # without which there would be no model
    assert study.user_attrs[USED] > 299.99


def test_the_clock_ends_trials_of_workers(tmp_path: Path, graph_files: Path) -> None:
    recipe = quick_recipe(graph_files, train__epochs=10**6, train__patience=10**6)
    began = time.monotonic()
    result = run_search(
        recipe, space_of(SPACE), out=tmp_path / "o", minutes=0.2, sampler="random", progress=False
    )
    assert result is not None
    assert result.best["valid_mrr"] > 0
    assert time.monotonic() - began < 60
    assert all(trial.state.is_finished() for trial in counted(study_of(result.out).trials))


def test_a_search_goes_on_as_it_was_begun(
    ended: SearchResult, graph_files: Path, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match="begun with --minutes"):
        timed(ended.out, graph_files, minutes=None)
    with pytest.raises(RecipeError, match="skyline has no --minutes"):
        timed(tmp_path / "o", graph_files, objective="skyline")
