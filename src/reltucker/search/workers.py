"""The workers of this machine: started, watched, replaced when they die, ended together."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from reltucker.errors import StudyError
from reltucker.search.worker import Job

ATTEMPTS = 3
"""So many workers in a row may fail to run, beside those that are killed, before it is given up."""


class Workers:
    """Up to `count` processes; each has one thread where there are several."""

    def __init__(self, job: Job, count: int) -> None:
        self.job = job
        self.count = count
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._failures = 0

    def __len__(self) -> int:
        return len(self._processes)

    def attend(self, waiting: int, running: int) -> None:
        """Clear away those that have ended, and start some for trials that wait.

        `running` is the number of trials that this machine's workers have in hand.
        """
        for number, process in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[number]
            _close(process)
            self._failures = self._failures + 1 if code == 1 else 0
            if self._failures == ATTEMPTS:
                raise StudyError(f"the workers cannot work: {self._last_words(number)}")
        for number in range(1, self.count + 1) if waiting else ():
            # Whoever is not running a trial is about to take one that waits.
            if number not in self._processes and len(self._processes) < waiting + running:
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
        if self.count > 1:
            # Two processes with two threads each on two cores are far slower than with one each.
            environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        job = self.job.model_copy(update={"number": number, "is_alone": self.count == 1})
        log = self._log(number)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", "from reltucker.search.worker import main; main()"],
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
            process.stdin.write(job.model_dump_json() + "\n")
            process.stdin.flush()
        return process

    def _log(self, number: int) -> Path:
        return self.job.out / "workers" / f"{number}.log"

    def _last_words(self, number: int) -> str:
        lines = self._log(number).read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "no reason was given"


def _close(process: subprocess.Popen[str]) -> None:
    """Close the pipe; what a dead process has not read is dropped."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
