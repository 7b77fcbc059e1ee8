"""The best entries of a matrix that is never held as a whole."""

import math

import torch
from torch import Tensor

from reltucker.peers import Peers

BLOCK_BYTES = 16 << 20
"""How large a block of values may be: it stays near the caches while it is looked at."""


class Best:
    """The `size` largest entries of blocks that are looked at one after the other.

    values, keys : (at most `size`,) the entries so far, in no order
    floor : what a further entry must exceed
    """

    def __init__(self, size: int, like: Tensor, floor: float = -math.inf) -> None:
        self.size = size
        self.floor = floor
        self.values = like.new_empty(0)
        self.keys = torch.empty(0, dtype=torch.int64, device=like.device)

    def look(self, block: Tensor, rows: Tensor, columns: Tensor) -> None:
        """Take in a block (b, n), whose entry i, j has the key rows[i] + columns[j]; entries that
        do not count are -inf."""
        maxima = block.amax(dim=1)
        floor = self.floor
        if len(maxima) >= self.size:
            # So many rows have an entry that is as good as this one.
            least = torch.topk(maxima, self.size).values[-1:]
            floor = max(floor, float(torch.nextafter(least, torch.full_like(least, -math.inf))))
        (hot,) = torch.nonzero(maxima > floor, as_tuple=True)
        if not len(hot):
            return
        part = block[hot]
        i, j = torch.nonzero(part > floor, as_tuple=True)
        self.values = torch.cat([self.values, part[i, j]])
        self.keys = torch.cat([self.keys, rows[hot[i]] + columns[j]])
        if len(self.values) >= self.size:
            self.values, kept = torch.topk(self.values, self.size)
            self.keys = self.keys[kept]
            self.floor = max(self.floor, float(self.values[-1]))

    def join(self, peers: Peers) -> None:
        """Take in what all processes have found."""
        if peers.size == 1:
            return
        count = torch.tensor([len(self.keys)], device=self.keys.device)
        sizes = peers.joined(count, [1] * peers.size).tolist()
        self.values, self.keys = (peers.joined(each, sizes) for each in (self.values, self.keys))
        self.values, kept = torch.topk(self.values, min(self.size, len(self.values)))
        self.keys = self.keys[kept]


def rows_at_once(columns: int, dim: int) -> int:
    """How many rows of so many columns are a block, where each has a vector of `dim` numbers."""
    return max(16, BLOCK_BYTES // (4 * max(columns, dim)))
