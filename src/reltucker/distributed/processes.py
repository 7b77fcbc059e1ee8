"""Peers by torch.distributed: gloo between CPUs, NCCL between GPUs."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from reltucker.errors import PeersError
from reltucker.peers import ALONE, Peers, Route
from reltucker.training import TrainSettings, choose_device


class Processes(Peers):
    """The processes of a group, this being one of them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank = dist.get_rank()
        self.size, self.here = spread()

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        with _told(self):
            dist.all_reduce(x)
        return x

    def joined(self, part: Tensor, sizes: Sequence[int]) -> Tensor:
        """The parts of all processes, one below the other."""
        largest = max(sizes)
        padded = part.contiguous()
        if len(part) < largest:
            padded = part.new_zeros(largest, *part.shape[1:])
            padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in sizes]
        with _told(self):
            dist.all_gather(parts, padded)
        return torch.cat([found[:size] for found, size in zip(parts, sizes, strict=True)])

    def route(self, ids: Tensor, count: int) -> Route:
        """To the rows with these distinct ids."""
        return _Route(self, ids, count)

    def agreed(self, value: Any) -> Any:
        """The value that the first process has, which JSON can tell."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        size = self.total(torch.tensor(len(text), device=self.device))
        told = torch.zeros(int(size), dtype=torch.uint8, device=self.device)
        if self.rank == 0:
            told.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        return json.loads(bytes(self.total(told).tolist()))

    def wait(self) -> None:
        """Until all processes are here."""
        self.total(torch.zeros(1, device=self.device))

    def exchanged(self, x: Tensor, given: Sequence[int], taken: Sequence[int]) -> Tensor:
        """Rows of x (n, ...), of which so many go to each process; so many come from each."""
        out = x.new_empty(sum(taken), *x.shape[1:])
        with _told(self):
            dist.all_to_all_single(out, x.contiguous(), list(taken), list(given))
        return out


class _Route(Route):
    """Ids are ordered by their owners; what comes and goes is, too."""

    def __init__(self, peers: Processes, ids: Tensor, count: int) -> None:
        self.peers = peers
        bounds = [peers.span(count, rank).stop for rank in range(peers.size)]
        owner = torch.searchsorted(torch.tensor(bounds, device=ids.device), ids, right=True)
        self.order = torch.argsort(owner, stable=True)
        wanted = torch.bincount(owner, minlength=peers.size)
        asked = peers.exchanged(wanted, [1] * peers.size, [1] * peers.size)
        self.wanted, self.sent = wanted.tolist(), asked.tolist()
        found = peers.exchanged(ids[self.order], self.wanted, self.sent)
        self.asked = found - peers.span(count).start

    def fetch(self, rows: Tensor) -> Tensor:
        """Rows for those who asked; returns those of the own ids."""
        found = self.peers.exchanged(rows, self.sent, self.wanted)
        return torch.empty_like(found).index_copy_(0, self.order, found)

    def give(self, values: Tensor) -> Tensor:
        """Values for the owners; returns those for the rows of this process."""
        return self.peers.exchanged(values[self.order], self.wanted, self.sent)


@contextmanager
def _told(peers: Processes) -> Iterator[None]:
    """What torch says of a peer that is gone or hangs, in a sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise PeersError(
            f"process {peers.rank} of {peers.size} got no answer from the others: one of them has "
            f"ended, or hangs ({reason}); under torchrun with --max-restarts they begin again "
            "from the last checkpoint"
        ) from error


def spread() -> tuple[int, int]:
    """How many processes torchrun, or the like, has started together, and how many of them on this
    machine."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return size, min(size, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def is_launched() -> bool:
    """Whether torchrun, or the like, has started this process. It may be the only one that is left
    of several."""
    return "WORLD_SIZE" in os.environ


@contextmanager
def joined_group(settings: TrainSettings) -> Iterator[Peers]:
    """The processes that torchrun has started together with this one; alone where it has not."""
    if spread()[0] == 1:
        yield ALONE
        return
    here = choose_device(settings.device)
    if here.type == "cuda":
        here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(here)
    backend = "nccl" if here.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=settings.peer_seconds))
    try:
        yield Processes(here)
    finally:
        dist.destroy_process_group()
