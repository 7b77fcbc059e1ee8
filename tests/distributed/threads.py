"""Peers that are threads of one process: what they tell each other needs no network, so that many
cases can be tried in little time. Real processes are tried in test_processes.py."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numba
import torch
from torch import Tensor

from reltucker.distributed.processes import Processes
from reltucker.peers import Peers

Found = TypeVar("Found")


class Thread(Processes):
    """A peer among threads; routes are those of processes."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, table: list[Any]) -> None:
        self.rank, self.size, self.device = rank, size, torch.device("cpu")
        self._barrier, self._table = barrier, table

    def _told(self, mine: Any) -> list[Any]:
        """What each of them says."""
        self._barrier.wait()
        self._table[self.rank] = mine
        self._barrier.wait()
        said = list(self._table)
        self._barrier.wait()
        return said

    def total(self, x: Tensor) -> Tensor:
        return x.copy_(torch.stack(self._told(x.clone())).sum(dim=0))

    def joined(self, part: Tensor, sizes: Sequence[int]) -> Tensor:
        parts = self._told(part.clone())
        assert [len(each) for each in parts] == list(sizes)
        return torch.cat(parts)

    def exchanged(self, x: Tensor, given: Sequence[int], taken: Sequence[int]) -> Tensor:
        said = self._told(torch.split(x.clone(), list(given)))
        parts = [each[self.rank] for each in said]
        assert [len(part) for part in parts] == list(taken)
        return torch.cat(parts)


def together(size: int, work: Callable[[Peers], Found]) -> list[Found]:
    """What `work` returns in each of so many threads."""
    barrier, table = threading.Barrier(size, timeout=60), [None] * size
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        numba.set_num_threads(1)
        try:
            results[rank] = work(Thread(rank, size, barrier, table))
        except BaseException as error:
            if not isinstance(error, threading.BrokenBarrierError):
                errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
