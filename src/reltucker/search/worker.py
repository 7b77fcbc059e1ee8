"""A worker: a process that runs waiting trials of a study until there are none.

It is started by `reltucker search` and reads its job from standard input. It ends when that is
closed, hence with its parent, however that ends.
"""

import os
import sys
import threading
import traceback
from pathlib import Path

import optuna
import torch
from optuna.trial import TrialState
from pydantic import BaseModel, ConfigDict

from reltucker.graph import KnowledgeGraph
from reltucker.search.plan import Plan
from reltucker.search.samplers import NothingLeft, planned_study
from reltucker.search.storage import open_storage, retry
from reltucker.search.trial import Objective, worker_name, worker_of

ORPHANED = 4


class Job(BaseModel):
    """What a worker is told. The graph in `out` has no test triples, and it knows no other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Plan
    study: str
    storage: str
    out: Path
    number: int
    heartbeat: int
    is_alone: bool


def graph_folder(out: Path) -> Path:
    """Where the graph without its test triples is kept for the workers."""
    return out / "graph"


def trials_folder(out: Path) -> Path:
    """Where each trial has its run folder."""
    return out / "trials"


def work(job: Job) -> None:
    """Run trials until none waits."""
    if not job.is_alone:
        torch.set_num_threads(1)
    graph = KnowledgeGraph.load(graph_folder(job.out))
    storage = open_storage(job.storage, job.heartbeat)
    study = planned_study(job.study, storage, job.plan, job.number)
    objective = Objective(job.plan, graph, trials_folder(job.out))
    try:
        while True:
            study.optimize(objective)
    except NothingLeft:
        return
    except Exception:
        # Not the trial's fault: somebody else, or the next start, goes on with it.
        for trial in study.get_trials(states=(TrialState.FAIL,))[-1:]:
            if worker_of(trial) == worker_name(os.getpid()):
                retry()(study, trial)
        raise


def main() -> None:
    """Read the job, and work."""
    job = Job.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        work(job)
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(ORPHANED)
