"""The machine: how much memory it has, how much was used, and a limit that somebody states."""

import os
import re
import sys
from pathlib import Path

from reltucker.errors import RecipeError

CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux tells a container its limit: control groups of the second and of the first kind."""


def physical_memory() -> float:
    """Bytes of memory that the machine or the container has; without a limit where the system does
    not tell."""
    try:
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        memory = float("inf")
    for path in CONTAINER_LIMITS:
        try:
            memory = min(memory, float(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return memory


def peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes; None where the system does not
    tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return largest if sys.platform == "darwin" else 1024 * largest


UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def memory_limit(text: str, option: str = "--memory") -> float:
    """Bytes of a limit: a share of the machine's memory such as 0.25 or 25%, or a size such as
    8GB, 512MiB or 8000000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(%|[kmgt]i?b)?", text.strip().lower())
    number, unit = (float(found[1]), found[2] or "") if found else (0.0, "")
    is_share = unit == "%" or (not unit and number <= 1)
    if unit == "%":
        number /= 100
    if not number or (is_share and number > 1):
        raise RecipeError(
            f"{option} {text!r} is no limit of memory; write a share such as 0.25 or 25%, "
            "or a size such as 8GB"
        )
    return number * physical_memory() if is_share else number * UNITS[unit]
