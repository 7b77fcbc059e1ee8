"""One file of what several processes have written, so that one process can use it where it lies."""

import json
import math
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from reltucker.atomic import write_with
from reltucker.training import shards

LINE = 64
"""Bytes of a cache line; the numbers begin with one."""


def join(path: Path) -> None:
    """Make one file of a set of them, where there is one. None of it is held in memory: parts are
    mapped, and written one below the other."""
    found = shards.parts_of(path)
    if found is None:
        return
    files_of, state = found
    pieces: dict[str, list[Tensor]] = {}
    kinds: dict[str, str] = {}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(safe_open(path.with_name(name), framework="pt"))
            for name in set(files_of.values())
        }
        for part, file in sorted(files_of.items(), key=lambda item: _place(item[0])):
            _, name, _ = _place(part)
            pieces.setdefault(name, []).append(files[file].get_tensor(part))
            kinds[name] = files[file].get_slice(part).get_dtype()
        write_with(path, lambda temporary: _write(temporary, pieces, kinds, state))
    shards.remove_set(path)


def _place(part: str) -> tuple[bool, str, int]:
    """Whether it is a tensor that was not spread, its name, and the first row that the part has."""
    found = re.fullmatch(shards.ROWS, part)
    return (False, found["name"], int(found["first"])) if found else (True, part, 0)


def _write(
    path: Path, pieces: dict[str, list[Tensor]], kinds: dict[str, str], state: dict[str, Any]
) -> None:
    """A safetensors file: the length of a header, the header in JSON, and all numbers."""
    header: dict[str, Any] = {}
    sums: dict[str, str] = {}
    end = 0
    for name, parts in pieces.items():
        shape = list(parts[0].shape)
        if len(parts) > 1:
            shape[0] = sum(map(len, parts))
        begin, end = end, end + math.prod(shape) * parts[0].element_size()
        header[name] = {"dtype": kinds[name], "shape": shape, "data_offsets": [begin, end]}
        sums[name] = shards.checksum_of(parts, shape)
    about = {shards.STATE: json.dumps(state, allow_nan=False)}
    header["__metadata__"] = shards.metadata_of(about, sums)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % LINE)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for parts in pieces.values():
            for part in parts:
                file.write(part.reshape(-1).view(torch.uint8).numpy().data)
