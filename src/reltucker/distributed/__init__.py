"""The same step by several processes: rows of E are spread over them; torch.distributed carries
what they tell each other, and torchrun starts them."""

from reltucker.distributed.launching import again, launch
from reltucker.distributed.processes import (
    Processes,
    is_launched,
    is_restarted,
    joined_group,
    spread,
)

__all__ = ["Processes", "again", "is_launched", "is_restarted", "joined_group", "launch", "spread"]
