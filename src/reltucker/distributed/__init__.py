"""The same step by several processes: rows of E are spread over them; torch.distributed carries
what they tell each other, and torchrun starts them."""

from reltucker.distributed.launching import launch
from reltucker.distributed.processes import Processes, is_launched, joined_group, spread

__all__ = ["Processes", "is_launched", "joined_group", "launch", "spread"]
