"""Workers: processes that run the trials of a study until none is left, and who looks after them.

A worker reads its job from standard input. It ends when that is closed, hence with the search that
started it, however that ends.
"""

import os
import subprocess
import sys
import threading
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import optuna
import torch
from optuna.exceptions import OptunaError
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import SQLAlchemyError

from reltucker.errors import ReltuckerError, StudyError
from reltucker.graph import KnowledgeGraph
from reltucker.search.folder import SearchFolder
from reltucker.search.objective import Objective
from reltucker.search.plan import Plan
from reltucker.search.samplers import make_pruner, sampler_maker
from reltucker.search.storage import open_storage, study_lock
from reltucker.search.trials import left

COMMAND = (sys.executable, "-c", "from reltucker.search.workers import main; main()")

ATTEMPTS = 3
"""So many workers in a row may fail to run, beside those that are killed, before it is given up."""

MACHINE_FAILED, ORPHANED, PROGRAM_FAILED = 1, 4, 70
"""Exit codes of a worker: 1 is Python's own where it cannot start."""


class BrokenTrialError(Exception):
    """A programming error in a trial; the message has the worker's traceback."""


class Job(BaseModel):
    """What a worker is told. The graph in `out` has no test triples, and it knows no other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Plan
    study: str
    storage: str
    out: Path
    workers: int
    """How many there are on this machine."""


def work(job: Job) -> None:
    """Run trials until none is left."""
    if job.workers > 1:
        torch.set_num_threads(1)
    folder = SearchFolder(job.out)
    objective = Objective(job.plan, KnowledgeGraph.load(folder.graph), folder.trials)
    storage = open_storage(job.storage)
    study = optuna.load_study(study_name=job.study, storage=storage, pruner=make_pruner(job.plan))
    sampler = sampler_maker(job.plan)
    while True:
        with ExitStack() as turn:
            # Alone from counting to the settings of the trial that is taken, so that no trial is
            # taken twice and none too many. The objective ends the turn before it trains.
            turn.enter_context(study_lock(job.storage))
            trials = study.get_trials(deepcopy=False)
            if not left(study, trials):
                return
            study.sampler = sampler(len(trials))
            study.optimize(partial(objective, taken=turn.close), n_trials=1)


def main() -> None:
    """Read the job, and work."""
    job = Job.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        work(job)
    except Exception as error:
        traceback.print_exc()
        is_machine = isinstance(error, OSError | SQLAlchemyError | OptunaError | ReltuckerError)
        sys.exit(MACHINE_FAILED if is_machine else PROGRAM_FAILED)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(ORPHANED)


class Workers:
    """The workers of this machine: started, watched, replaced when they die, ended together."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._begun: dict[int, int] = {}
        self._failures = 0

    def __len__(self) -> int:
        return len(self._processes)

    def attend(self, left: int, running: int) -> None:
        """Clear away those that have ended, and start some for the trials that are left.

        `running` is the number of trials that this machine's workers have in hand.
        """
        for number, process in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[number]
            _close(process)
            if code == PROGRAM_FAILED:
                raise BrokenTrialError(f"worker {number} had an error:\n{self._said(number)}")
            self._failures = self._failures + 1 if code == MACHINE_FAILED else 0
            if self._failures == ATTEMPTS:
                lines = self._said(number).splitlines() or ["no reason was given"]
                raise StudyError(f"the workers cannot work: {lines[-1]}")
        for number in range(1, self.job.workers + 1) if left else ():
            # Whoever is not running a trial is about to take one.
            if number not in self._processes and len(self._processes) < left + running:
                self._processes[number] = self._start(number)

    def stop(self) -> None:
        """End all; what they were training goes on from its checkpoint at the next start."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()
            _close(process)
        self._processes.clear()

    def _start(self, number: int) -> subprocess.Popen[str]:
        environment = dict(os.environ)
        if self.job.workers > 1:
            # Two processes with two threads each on two cores are far slower than with one each.
            environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        log = self._log(number)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            self._begun[number] = file.tell()
            process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=environment,
                text=True,
                # Ctrl-C is for the parent, which ends its workers in order.
                start_new_session=True,
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead already, which `attend` will see
            process.stdin.write(self.job.model_dump_json() + "\n")
            process.stdin.flush()
        return process

    def _log(self, number: int) -> Path:
        return self.job.out / "workers" / f"{number}.log"

    def _said(self, number: int) -> str:
        """What a worker had to say since it was started."""
        said = self._log(number).read_bytes()[self._begun[number] :]
        return said.decode("utf-8", errors="replace").strip()


def _close(process: subprocess.Popen[str]) -> None:
    """Close the pipe; what a dead process has not read is dropped."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
