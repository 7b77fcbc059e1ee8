"""A command that is run by several processes together."""

import os
import sys


def launched(processes: int | None) -> bool:
    """Run this very command in so many processes, unless it is one of them already. Returns whether
    that was done."""
    if processes is None or processes == 1 or is_one_of_several():
        return False
    from reltucker.distributed import launch

    launch(processes, _without_processes(sys.argv[1:]))
    return True


def is_one_of_several() -> bool:
    """Whether torchrun has started this process."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def speaks() -> bool:
    """Whether this process prints results and mistakes: of several, the first does."""
    return not is_one_of_several() or os.environ.get("RANK", "0") == "0"


def _without_processes(arguments: list[str]) -> list[str]:
    kept, skipped = [], False
    for argument in arguments:
        if skipped or argument.startswith("--processes="):
            skipped = False
        elif argument == "--processes":
            skipped = True
        else:
            kept.append(argument)
    return kept
