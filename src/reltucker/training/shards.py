"""Tensors of a run in one file, or in one for each process, with an index over them.

Rows of entities are spread over processes, and so are their files; all else stands in the first
one. The index, NAME.safetensors.index.json, follows the convention of the Hugging Face hub: a
`weight_map` from the name of each tensor to its file, and `metadata`. Row n to m of E is the tensor
`E.rows.n-m`. The index is written last and replaces the former one, so that a set of files is there
as a whole or not at all; a set that no index names is removed. When training has ended, the best
weights become one file again (`joining`).

Every file has the checksums of its tensors and one of all else that it tells (`checksums`); what is
read is compared with them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from reltucker.atomic import parse_json, read_json, write_json, write_with
from reltucker.checksums import DIFFERS, checksum, signed, unsigned
from reltucker.errors import RunError
from reltucker.peers import ALONE, Peers

INDEX = ".index.json"
STATE, CHECKSUMS = "state", "tensors"
"""What the metadata of a file hold: the JSON state, and the checksums of tensors by name."""
COMPARED = 1 << 30
"""Bytes of a tensor up to which it is compared with its checksum for some of its rows."""
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
        _write(path, ready, {STATE: json.dumps(state, allow_nan=False)})
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
    _write(path.with_name(files[peers.rank]), own, {})
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
        write_json(_index(path), signed({"metadata": about, "weight_map": weight_map}))
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
    with _damage_told(path):
        if in_place and held is None and not _index(path).is_file():
            with _opened(path) as file:
                found = {name: file.file.get_tensor(name) for name in file.names()}
                return found, file.state()
        return _load(path, held)


def verify_tensors(path: Path) -> bool:
    """Read all that `save_tensors` has written, a tensor at a time; returns whether it has
    checksums. Damage is a RunError."""
    with _damage_told(path):
        if not _index(path).is_file():
            return _verify_file(path)
        names = sorted(set(_read_index(path).weight_map.values()))
        return min(_verify_file(path.with_name(name)) for name in names)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if exists(path):
            raise RunError(f"{path} is damaged: {error.filename or error} is missing") from None
        raise RunError(f"{path} is missing; the run has no saved weights yet") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"{_index(path)} is damaged ({where}: {first['msg']})") from None
    except (MemoryError, OSError, RuntimeError, SafetensorError, KeyError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error})") from error


def exists(path: Path) -> bool:
    """Whether there is such a file, or a set of them."""
    return path.is_file() or _index(path).is_file()


def files(path: Path) -> list[Path]:
    """The files in which tensors are: one, or an index with those that it names."""
    if not _index(path).is_file():
        return [path]
    return [_index(path), *sorted(path.parent.glob(f"{path.stem}-epoch-*-of-*.safetensors"))]


def remove(path: Path) -> None:
    """Remove a file, or a set of them, if it is there."""
    path.unlink(missing_ok=True)
    _remove_set(path, keep=None)


def parts_of(path: Path) -> tuple[dict[str, str], dict[str, Any]] | None:
    """Which file of a set has which tensor, and the state; None where there is no set."""
    if not _index(path).is_file():
        return None
    index = _read_index(path)
    return index.weight_map, index.metadata.state


def remove_set(path: Path) -> None:
    """Remove a set of files, the index first."""
    _remove_set(path, keep=None)


def _load(path: Path, held: slice | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is whole and newest: a crash may leave a file beside a set of them."""
    if not _index(path).is_file():
        with _opened(path) as file:
            return _in_one(file, held), file.state()
    index = _read_index(path)
    state = index.metadata.state
    if path.is_file():
        with _opened(path) as file:
            other = file.state()
            if _epoch(other) > _epoch(state):
                return _in_one(file, held), other
    tensors: dict[str, Tensor] = {}
    parts: dict[str, list[tuple[int, int, str]]] = {}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(_opened(path.with_name(name)))
            for name in sorted(set(index.weight_map.values()))
        }
        for name, file_name in index.weight_map.items():
            if match := ROWS.fullmatch(name):
                span = int(match["first"]), int(match["last"])
                parts.setdefault(match["name"], []).append((*span, file_name))
            else:
                tensors[name] = files[file_name].read(name)
        for name, spans in parts.items():
            found = list(_rows(name, sorted(spans), files, held))
            tensors[name] = torch.cat(found)
    return tensors, state


def _in_one(file: "_File", held: slice | None) -> dict[str, Tensor]:
    tensors = {}
    for name in file.names():
        is_spread = held is not None and _is_of_entities(name, file.dimensions(name))
        tensors[name] = file.read(name, held if is_spread else None)
    return tensors


def _rows(
    name: str, spans: list[tuple[int, int, str]], files: "dict[str, _File]", held: slice | None
) -> Iterator[Tensor]:
    """The rows of a tensor that are wanted, from the files that have them."""
    expected = 0
    for first, last, file in spans:
        part = f"{name}.rows.{first}-{last}"
        if first != expected or files[file].length(part) != last - first:
            raise ValueError(f"rows of {name} are missing")
        expected = last
        begin = first if held is None else max(first, held.start)
        end = last if held is None else min(last, held.stop)
        if begin < end or held is None:
            yield files[file].read(part, slice(begin - first, end - first))


def _epoch(state: dict[str, Any]) -> int:
    epoch = state.get("epoch", 0)
    return epoch if isinstance(epoch, int) else 0


# -- one file -------------------------------------------------------------------------------------


class _About(BaseModel):
    state: dict[str, Any]


class _Index(BaseModel):
    """What the index over a set of files holds."""

    metadata: _About
    weight_map: dict[str, str]


def _read_index(path: Path) -> _Index:
    return _Index.model_validate(unsigned(read_json(_index(path))))


def _write(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    sums = {name: _checksum(value) for name, value in tensors.items()}
    metadata = metadata_of(about, sums)
    write_with(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def metadata_of(about: dict[str, str], sums: dict[str, str]) -> dict[str, str]:
    """The metadata of a file, from what it tells and the checksums of its tensors."""
    return signed({**about, CHECKSUMS: json.dumps(sums)})


def _checksum(value: Tensor) -> str:
    plain = value.detach().cpu().contiguous()
    return checksum_of([plain], plain.shape)


def checksum_of(parts: Sequence[Tensor], shape: Sequence[int]) -> str:
    """Of a tensor of this shape whose rows stand in parts."""
    numbers = [part.reshape(-1).view(torch.uint8).numpy().data for part in parts]
    size = sum(map(len, numbers))
    return checksum(f"{parts[0].dtype}{tuple(shape)}uint8({size},)".encode(), *numbers)


@contextmanager
def _opened(path: Path) -> Iterator["_File"]:
    with safe_open(path, framework="pt") as file:
        yield _File(path, file)


class _File:
    """A safetensors file, opened; what is read is compared with its checksums, if it has any."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path = path
        self.file = file
        self.about = unsigned(file.metadata() or {})
        self.sums: dict[str, str] | None = parse_json(self.about.get(CHECKSUMS, "null"))
        if self.sums is not None and (
            not isinstance(self.sums, dict) or set(self.sums) != set(self.names())
        ):
            raise ValueError(f"{path.name}: {DIFFERS}")

    def names(self) -> list[str]:
        return list(self.file.keys())

    def state(self) -> dict[str, Any]:
        state = parse_json(self.about[STATE])
        if not isinstance(state, dict):
            raise ValueError("its state is not a table of names and values")
        return state

    def dimensions(self, name: str) -> int:
        return len(self.file.get_slice(name).get_shape())

    def length(self, name: str) -> int:
        return int((*self.file.get_slice(name).get_shape(), -1)[0])

    def read(self, name: str, rows: slice | None = None) -> Tensor:
        """A copy of a tensor, or of some rows of it. Pages of it are mapped, so that they come
        from the disk once, for the checksum and the copy; some rows of a large tensor alone are
        not compared, or every process would read all of it."""
        tensor: Tensor = self.file.get_tensor(name)
        is_some = rows is not None and tensor[rows].numel() < tensor.numel()
        sums = None if is_some and tensor.nbytes > COMPARED else self.sums
        if sums is not None and sums[name] != _checksum(tensor):
            raise ValueError(f"{name} in {self.path.name}: {DIFFERS}")
        tensor = tensor.clone() if rows is None else tensor[rows].clone()
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds values that are not finite")
        return tensor


def _verify_file(path: Path) -> bool:
    with _opened(path) as file:
        for name in file.names():
            file.read(name)
        return file.sums is not None


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
