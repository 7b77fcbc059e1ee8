"""Tensors of a run in one file, or in one for each process, with an index over them.

Rows of entities are spread over processes, and so are their files; all else stands in the first
one. The index, NAME.safetensors.index.json, follows the convention of the Hugging Face hub: a
`weight_map` from the name of each tensor to its file, and `metadata`. Row n to m of E is the tensor
`E.rows.n-m`. The index is written last and replaces the former one, so that a set of files is there
as a whole or not at all; a set that no index names is removed. When training has ended, the best
weights become one file again (`joining`).
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from reltucker.atomic import write_json, write_with
from reltucker.errors import RunError
from reltucker.peers import ALONE, Peers

INDEX = ".index.json"
ROWS = re.compile(r"(?P<name>.+)\.rows\.(?P<first>\d+)-(?P<last>\d+)")


def save_tensors(
    path: Path,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    peers: Peers = ALONE,
    entities: int = 0,
) -> None:
    """Write tensors and a JSON state, which has an `epoch` where files are replaced time and again.
    Several processes write together, each the rows of entities that it has."""
    ready = {name: value.detach().contiguous() for name, value in tensors.items()}
    if peers.size == 1:
        metadata = {"state": json.dumps(state, allow_nan=False)}
        write_with(path, lambda temporary: save_file(ready, temporary, metadata=metadata))
        _remove_set(path, keep=None)
        return
    files = [
        f"{path.stem}-epoch-{state.get('epoch', 0)}-{rank + 1:05}-of-{peers.size:05}.safetensors"
        for rank in range(peers.size)
    ]
    names = {
        rank: [_named(name, value, peers.span(entities, rank)) for name, value in ready.items()]
        for rank in range(peers.size)
    }
    own = {
        name: value
        for name, value in zip(names[peers.rank], ready.values(), strict=True)
        if peers.rank == 0 or ROWS.fullmatch(name)
    }
    write_with(path.with_name(files[peers.rank]), lambda temporary: save_file(own, temporary))
    peers.wait()
    if peers.rank == 0:
        weight_map = {
            name: files[rank]
            for rank in range(peers.size)
            for name in names[rank]
            if rank == 0 or ROWS.fullmatch(name)
        }
        size = sum(path.with_name(file).stat().st_size for file in files)
        about = {"total_size": size, "processes": peers.size, "state": state}
        write_json(_index(path), {"metadata": about, "weight_map": weight_map})
        path.unlink(missing_ok=True)
        _remove_set(path, keep=set(files))
    peers.wait()


def load_tensors(
    path: Path, peers: Peers = ALONE, entities: int = 0, in_place: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `save_tensors`, whoever wrote: all rows, or those of this process of several.

    They are checked and copied; with `in_place` a process alone gets those of one file as they lie
    there, and of them only what is used comes into memory.
    """
    held = None if peers.size == 1 else peers.span(entities)
    try:
        if in_place and held is None and index_of(path) is None:
            with safe_open(path, framework="pt") as file:
                found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return found, json.loads(file.metadata()["state"])
        tensors, state = _load(path, held)
    except FileNotFoundError as error:
        if exists(path):
            raise RunError(f"{path} is damaged: {error.filename or error} is missing") from None
        raise RunError(f"{path} is missing; the run has no saved weights yet") from None
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error})") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise RunError(f"{path} is damaged: {name} holds values that are not finite")
    return tensors, state


def exists(path: Path) -> bool:
    """Whether there is such a file, or a set of them."""
    return path.is_file() or _index(path).is_file()


def remove(path: Path) -> None:
    """Remove a file, or a set of them, if it is there."""
    path.unlink(missing_ok=True)
    _remove_set(path, keep=None)


def index_of(path: Path) -> dict[str, Any] | None:
    """What stands over a set of files; None where there is no set."""
    if not _index(path).is_file():
        return None
    found: dict[str, Any] = json.loads(_index(path).read_text(encoding="utf-8"))
    return found


def remove_set(path: Path) -> None:
    """Remove a set of files, the index first."""
    _remove_set(path, keep=None)


def _load(path: Path, held: slice | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is whole and newest: a crash may leave a file beside a set of them."""
    index = index_of(path)
    if index is None:
        with safe_open(path, framework="pt") as file:
            return _in_one(file, held), json.loads(file.metadata()["state"])
    state: dict[str, Any] = index["metadata"]["state"]
    if path.is_file():
        with safe_open(path, framework="pt") as file:
            other = json.loads(file.metadata()["state"])
            if other.get("epoch", 0) > state.get("epoch", 0):
                return _in_one(file, held), other
    tensors: dict[str, Tensor] = {}
    parts: dict[str, list[tuple[int, int, str]]] = {}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(safe_open(path.with_name(name), framework="pt"))
            for name in sorted(set(index["weight_map"].values()))
        }
        for name, file_name in index["weight_map"].items():
            if match := ROWS.fullmatch(name):
                span = int(match["first"]), int(match["last"])
                parts.setdefault(match["name"], []).append((*span, file_name))
            else:
                tensors[name] = files[file_name].get_tensor(name).clone()
        for name, spans in parts.items():
            found = list(_rows(name, sorted(spans), files, held))
            tensors[name] = torch.cat(found)
    return tensors, state


def _in_one(file: Any, held: slice | None) -> dict[str, Tensor]:
    tensors = {}
    for name in file.keys():  # noqa: SIM118
        rows = file.get_slice(name)
        if held is not None and _is_of_entities(name, len(rows.get_shape())):
            tensors[name] = rows[held.start : held.stop].clone()
        else:
            tensors[name] = file.get_tensor(name).clone()
    return tensors


def _rows(
    name: str, spans: list[tuple[int, int, str]], files: dict[str, Any], held: slice | None
) -> Iterator[Tensor]:
    """The rows of a tensor that are wanted, from the files that have them."""
    expected = 0
    for first, last, file in spans:
        rows = files[file].get_slice(f"{name}.rows.{first}-{last}")
        if first != expected or rows.get_shape()[0] != last - first:
            raise ValueError(f"rows of {name} are missing")
        expected = last
        begin = first if held is None else max(first, held.start)
        end = last if held is None else min(last, held.stop)
        if begin < end or held is None:
            yield rows[begin - first : end - first].clone()


def _named(name: str, value: Tensor, held: slice) -> str:
    is_spread = _is_of_entities(name, value.dim())
    return f"{name}.rows.{held.start}-{held.stop}" if is_spread else name


def _is_of_entities(name: str, dimensions: int) -> bool:
    """Whether a tensor has a row for each entity: E itself, or what an optimiser or a mean keeps
    of it."""
    return "E" in name.split(".") and dimensions == 2


def _index(path: Path) -> Path:
    return path.with_name(path.name + INDEX)


def _remove_set(path: Path, keep: set[str] | None) -> None:
    """Remove the files of former sets; without any to keep, the index as well."""
    if keep is None:
        _index(path).unlink(missing_ok=True)
    for file in path.parent.glob(f"{path.stem}-epoch-*-of-*.safetensors"):
        if keep is None or file.name not in keep:
            file.unlink(missing_ok=True)
