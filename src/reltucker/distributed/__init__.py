"""The same step by several processes: rows of E are spread over them; torch.distributed carries
what they tell each other, and torchrun starts them."""

from reltucker.distributed.processes import Processes, joined_group

__all__ = ["Processes", "joined_group"]
