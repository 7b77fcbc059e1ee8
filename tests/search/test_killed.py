"""kill -9, for real: of a worker, and of a whole search by its command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from reltucker.search.storage import open_storage, storage_url
from reltucker.search.trials import FOLDER, WORKER, counted, history
from reltucker.training import RunFolder

COMMAND = [sys.executable, "-c", "from reltucker.cli import main; main()", "search"]
EPOCHS = 100
SPACE = f"""
[graph]
source = "small"
[model]
name = "distmult"
entity_dim = 8
[train]
epochs = {EPOCHS}
patience = {EPOCHS}
batch_size = 8
negatives = 6
checkpoint_seconds = 0
[space.train]
learning_rate = {{ low = 0.02, high = 0.5, log = true }}
"""


class Search:
    """A search by its command, in a process of its own."""

    def __init__(self, graph_files: Path, out: Path, *options: str) -> None:
        self.out = out
        self.processes: list[subprocess.Popen[str]] = []
        self.space = graph_files.parent / "killed.toml"
        self.space.write_text(SPACE)
        self.command = [*COMMAND, str(self.space), "--out", str(out), "--json", *options]
        self.url = storage_url(None, out)
        if "--storage" in options:
            self.url = storage_url(options[options.index("--storage") + 1], out)

    def start(self, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def __enter__(self) -> "Search":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.storage.remove_session()
        self.storage.engine.dispose()

    @cached_property
    def storage(self) -> RDBStorage:
        return open_storage(self.url)

    @cached_property
    def study(self) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.load_study(study_name="small-distmult", storage=self.storage)

    def trials(self) -> list[FrozenTrial]:
        return self.study.trials

    def running(self) -> list[FrozenTrial]:
        """The trials that have come some way, by processes that can be killed."""
        if self.url.startswith("sqlite") and not (self.out / "search.json").exists():
            return []
        try:
            trials = self.trials()
        except KeyError:
            return []
        return [
            trial
            for trial in trials
            if trial.state == TrialState.RUNNING
            and WORKER in trial.user_attrs
            and 4 <= len(trial.intermediate_values) < EPOCHS // 3
        ]

    def finished(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        result: dict[str, Any] = json.loads(output)
        return result


def process_of(trial: FrozenTrial) -> int:
    return int(trial.user_attrs[WORKER].rpartition("/")[2])


def wait_for(what: Callable[[], list[FrozenTrial]], count: int = 1) -> list[FrozenTrial]:
    end = time.monotonic() + 120
    while len(found := what()) < count:
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
    return found


def check_all_done_once(trials: list[FrozenTrial], outs: list[Path], count: int, best: int) -> None:
    """Every trial ended once, in a folder of its own, whose epochs were all trained once."""
    kept = counted(trials)
    assert [trial.state for trial in kept] == [TrialState.COMPLETE] * count
    assert len({trial.user_attrs[FOLDER] for trial in kept}) == count
    retried = [number for trial in kept for number in history(trial)]
    interrupted = [trial.number for trial in trials if trial.state == TrialState.FAIL]
    assert sorted(retried) == interrupted
    assert len(trials) == count + len(interrupted)
    for trial in kept:
        folders = [out / "trials" / trial.user_attrs[FOLDER] for out in outs]
        done = [RunFolder(path) for path in folders if (path / "result.json").exists()]
        # The best of another machine is trained once more where the search ends.
        assert len(done) == 1 or (trial.number == best and len(outs) == 2)
        for folder in done:
            assert [record["epoch"] for record in folder.epochs()] == list(range(1, EPOCHS + 1))
        assert sorted(trial.intermediate_values) == list(range(1, EPOCHS + 1))


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # one that has ended and was not yet waited for


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")
def test_a_search_may_be_killed_or_stopped_and_loses_no_trial(
    graph_files: Path, tmp_path: Path
) -> None:
    with Search(graph_files, tmp_path / "o", "--trials", "2") as search:
        process = search.start()
        # The worker alone: the search replaces it.
        victim = wait_for(search.running)[0]
        early = RunFolder(search.out / "trials" / victim.user_attrs[FOLDER]).epochs()
        os.kill(process_of(victim), signal.SIGKILL)
        assert process.poll() is None
        # Ctrl-C, which says how to go on.
        victims = wait_for(lambda: [t for t in search.running() if t.number != victim.number])
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (130, "")
        assert f"the same command goes on with the search in {search.out}" in errors
        assert "Traceback" not in errors
        assert not is_alive(process_of(victims[0]))
        states = [trial.state for trial in search.trials()]
        assert states.count(TrialState.WAITING) == 1
        assert states.count(TrialState.RUNNING) == 0
        # The search itself, whose worker ends with it.
        process = search.start()
        (last,) = wait_for(search.running)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        wait_for(lambda: [] if is_alive(process_of(last)) else [last])
        result = search.finished(search.start())
        assert (result["trials"], result["failed"], result["pruned"]) == (2, 0, 0)
        trials = search.trials()
        check_all_done_once(trials, [search.out], 2, result["best"]["number"])
        assert sum(trial.state == TrialState.FAIL for trial in trials) == 3
        # What the killed worker had done was kept, down to its seconds.
        late = RunFolder(search.out / "trials" / victim.user_attrs[FOLDER]).epochs()
        assert late[: len(early) - 2] == early[:-2]
