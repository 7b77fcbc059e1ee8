"""Workers: processes that run the trials of a study until none is left, and who looks after them.

A worker is told the folder of the search, which has no test triple for it, and the storage. It ends
when its standard input is closed, hence with the search that started it, however that ends.
"""

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import optuna
from optuna import Trial
from optuna.exceptions import OptunaError, UpdateFinishedTrialError
from sqlalchemy.exc import SQLAlchemyError

from reltucker.errors import ReltuckerError, StudyError
from reltucker.graph import KnowledgeGraph
from reltucker.search.folder import SearchFolder
from reltucker.search.objective import run_trial
from reltucker.search.samplers import make_pruner, sampler_maker
from reltucker.search.storage import open_storage, study_lock
from reltucker.search.timing import continue_trial, left, to_continue

COMMAND = (sys.executable, "-c", "from reltucker.search.workers import main; main()")
STORAGE = "RELTUCKER_STORAGE"
"""The environment variable with the storage, whose password an argument would show to all."""

ATTEMPTS = 3
"""A search gives up when so many workers in a row could not run; killed ones do not count."""

MACHINE_FAILED, LOST, ORPHANED, PROGRAM_FAILED = 1, 3, 4, 70
"""Exit codes of a worker: 1 is Python's own where it cannot start."""


class BrokenTrialError(Exception):
    """A programming error in a trial; the message has the worker's traceback."""


def work(out: Path, storage: str) -> None:
    """Run trials of the search in a folder until none is left."""
    folder = SearchFolder(out)
    begun = folder.plan()
    assert begun is not None, "the search makes its folder first"
    name, plan = begun
    graph = KnowledgeGraph.load(folder.graph)
    study = optuna.load_study(
        study_name=name, storage=open_storage(storage), pruner=make_pruner(plan)
    )
    sampler = sampler_maker(plan)
    turn = ExitStack()

    def objective(trial: Trial) -> float | Sequence[float]:
        try:
            return run_trial(trial, plan, graph, folder.trials, taken=turn.close)
        except UpdateFinishedTrialError:
            # The machine slept for so long that another worker has the trial now, and its folder.
            os._exit(LOST)

    while True:
        with turn:
            # Alone from counting to the settings of the trial that is taken, so that no trial is
            # taken twice and none too many. The objective ends the turn before it trains.
            turn.enter_context(study_lock(storage))
            trials = study.get_trials(deepcopy=False)
            if not left(study, trials, plan.share):
                return
            promising = to_continue(study, trials, plan.share)
            if promising is not None:
                continue_trial(study, *promising)
            study.sampler = sampler(len(trials))
            study.optimize(objective, n_trials=1)


def main() -> None:
    """Work as the arguments and the environment say."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        work(Path(sys.argv[1]), os.environ[STORAGE])
    except Exception as error:
        traceback.print_exc()
        is_machine = isinstance(error, OSError | SQLAlchemyError | OptunaError | ReltuckerError)
        sys.exit(MACHINE_FAILED if is_machine else PROGRAM_FAILED)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(ORPHANED)


class Workers:
    """The workers of this machine: started, watched, replaced when they die, ended together."""

    def __init__(self, out: Path, storage: str, most: int) -> None:
        self.out = out
        self.storage = storage
        self.most = most
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, int] = {}
        self._failures = 0

    def __len__(self) -> int:
        return len(self._processes)

    def attend(self, left: int, running: int) -> None:
        """Clear away those that have ended, and start some for the trials that are left.

        `running` is the number of trials that workers have in hand.
        """
        for number, process in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            self._forget(number)
            if code == PROGRAM_FAILED:
                raise BrokenTrialError(f"worker {number} had an error:\n{self._said(number)}")
            self._failures = self._failures + 1 if code == MACHINE_FAILED else 0
            if self._failures == ATTEMPTS:
                lines = self._said(number).splitlines() or ["no reason was given"]
                raise StudyError(f"the workers cannot work: {lines[-1]}")
        for number in range(1, self.most + 1) if left else ():
            # Whoever is not running a trial is about to take one.
            if number not in self._processes and len(self._processes) < left + running:
                self._start(number)

    def stop(self) -> None:
        """End all; what they were training goes on from its checkpoint at the next start."""
        for process in self._processes.values():
            process.terminate()
        for number, process in list(self._processes.items()):
            process.wait()
            self._forget(number)

    def _start(self, number: int) -> None:
        environment = {**os.environ, STORAGE: self.storage}
        if self.most > 1:
            # Two processes with two threads each on two cores are far slower than with one each.
            environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        log = self._log(number)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as file:
            self._begun[number] = file.tell()
            self._processes[number] = subprocess.Popen(
                (*COMMAND, self.out),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=environment,
                # Ctrl-C is for the parent, which ends its workers in order.
                start_new_session=True,
            )

    def _forget(self, number: int) -> None:
        """Close the pipe of a worker that has ended."""
        pipe = self._processes.pop(number).stdin
        assert pipe is not None
        pipe.close()

    def _log(self, number: int) -> Path:
        return self.out / "workers" / f"{number}.log"

    def _said(self, number: int) -> str:
        """What a worker had to say since it was started."""
        said = self._log(number).read_bytes()[self._begun[number] :]
        return said.decode("utf-8", errors="replace").strip()
