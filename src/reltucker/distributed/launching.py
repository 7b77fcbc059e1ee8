"""Several processes on this machine, started by the launcher of torchrun."""

import logging
import os
import secrets
import signal
import sys
from collections.abc import Sequence

from reltucker.errors import PeersError
from reltucker.progress import error_console

TOLD = {2, 3}
"""Exit codes of commands that have said what was wrong: nothing is begun again."""

RESTARTS = 3
"""How often processes are started again, after one of them has died."""


def launch(processes: int, command: Sequence[str]) -> None:
    """Run `reltucker` with these arguments in so many processes, until all have ended well.

    Where one is killed, all end, and begin again: a training goes on from its last checkpoint then.
    A user's mistake ends it at once; its sentence has been printed.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for start in range(RESTARTS + 1):
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=secrets.token_hex(8),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            monitor_interval=0.1,
        )
        try:
            elastic_launch(config, sys.executable)("-m", "reltucker", *command)
        except ChildFailedError as error:
            codes = {failure.exitcode for failure in error.failures.values()}
            if told := codes & TOLD:
                raise SystemExit(min(told)) from None
            if start == RESTARTS:
                raise PeersError(
                    f"a process of {processes} has died, and did so again after each of "
                    f"{RESTARTS} restarts; is there enough memory for so many?"
                ) from None
            first = error.get_first_failure()[1]
            how = f"by signal {-first.exitcode}" if first.exitcode < 0 else f"({first.exitcode})"
            line = f"process {first.local_rank} of {processes} has died {how}; all begin again"
            error_console().print(f"warning: {line} from the last checkpoint", markup=False)
        except SignalException as error:
            for number, handler in handlers.items():  # the launcher's are still there
                signal.signal(number, handler)
            signal.raise_signal(signal.Signals(error.sigval))
        else:
            return
