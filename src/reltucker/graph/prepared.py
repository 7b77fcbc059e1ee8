"""A prepared graph: a folder whose arrays are mapped into memory, so that it opens at once.

prepared.json        sizes, counts, and size and checksum of every file; written last
entities.arrow       names and labels by id; relations.arrow likewise
train.npy            the triples of a split; valid.npy and test.npy likewise
object-keys.npy      the answer index for objects, with -offsets, -answers and -splits; subject-...
"""

import json
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from filelock import FileLock, Timeout

from reltucker.atomic import write_json
from reltucker.errors import GraphError
from reltucker.folders import is_free
from reltucker.graph.answers import AnswerIndex, Direction
from reltucker.graph.arrays import Array, mapped
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph
from reltucker.graph.tables import POLARS_FAILURES
from reltucker.graph.vocabulary import Vocabulary

MANIFEST = "prepared.json"
FORMAT = "reltucker prepared graph"
VERSION = 1

ENTITIES = "entities.arrow"
RELATIONS = "relations.arrow"
DIRECTIONS: tuple[Direction, ...] = ("object", "subject")
INDEX_ARRAYS = {"keys": np.int64, "offsets": np.int64, "answers": np.int32, "splits": np.uint8}
"""The arrays of an answer index, and of what they are."""
FILES = (
    ENTITIES,
    RELATIONS,
    *(f"{split}.npy" for split in SPLITS),
    *(f"{direction}-{array}.npy" for direction in DIRECTIONS for array in INDEX_ARRAYS),
)
MARK = ".prepare.tmp"
"""Stands in the folder, locked, while it is filled."""
SCRATCH = ".scratch.tmp"
AGAIN = "run `reltucker data prepare` again, into another folder or after removing this one"


class Facts(NamedTuple):
    """What the manifest says of a graph; seen is what train has."""

    name: str
    entities: int
    relations: int
    seen_entities: int
    seen_relations: int
    counts: Mapping[str, int]


class StoredVocabulary(Vocabulary):
    """Names that stay in their file until one of them is asked for; training asks for none."""

    def __init__(self, path: Path, size: int, kind: str) -> None:
        self.path = path
        self.size = size
        self.kind = kind

    def __len__(self) -> int:
        return self.size

    @cached_property
    def _columns(self) -> tuple[pl.Series, pl.Series | None]:
        try:
            with self.path.open("rb") as file:  # a path could be taken for a pattern
                read = Vocabulary.from_frame(pl.read_ipc(file), self.kind)
        except POLARS_FAILURES as cause:
            raise GraphError(f"{self.path} is damaged; {AGAIN}") from cause
        if len(read) != self.size:
            raise GraphError(f"{self.path} is damaged: it has not {self.size} names; {AGAIN}")
        return read.names, read.labels

    @property
    def names(self) -> pl.Series:  # type: ignore[override]
        """The names by id."""
        return self._columns[0]

    @property
    def labels(self) -> pl.Series | None:  # type: ignore[override]
        """The labels by id, if there are any."""
        labels = self._columns[1]
        return None if labels is None or labels.null_count() == len(labels) else labels


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds a prepared graph, or what a preparation left that did not end."""
    return (folder / MANIFEST).is_file() or (folder / MARK).is_file()


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """Take a folder and give a scratch folder in it; when the body fails, nothing is left."""
    if not _is_free(folder):
        raise GraphError(f"{folder} holds something already; choose another folder, or remove it")
    is_new = not folder.exists()
    lock = FileLock(folder / MARK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise GraphError(
            f"another process prepares a graph in {folder}; wait for it or choose another folder"
        ) from None
    except OSError as cause:
        raise GraphError(_cannot_write(folder, cause)) from cause
    scratch = folder / SCRATCH
    is_whole = False
    try:
        _clear(folder)
        scratch.mkdir()
        yield scratch
        is_whole = True
    except (OSError, pl.exceptions.PolarsError) as cause:
        raise GraphError(_cannot_write(folder, cause)) from cause
    finally:
        if not is_whole:
            _clear(folder)
        (folder / MARK).unlink(missing_ok=True)
        lock.release()
        if is_new and not is_whole:
            folder.rmdir()


def _is_free(folder: Path) -> bool:
    """Whether a folder is missing or empty, or has only what a preparation left that was killed."""
    if is_free(folder):
        return True
    return (
        folder.is_dir()
        and (folder / MARK).is_file()
        and not (folder / MANIFEST).exists()
        and all(path.name in FILES or path.name.endswith(".tmp") for path in folder.iterdir())
    )


def _clear(folder: Path) -> None:
    """Remove what a preparation writes."""
    for path in folder.iterdir():
        if path.name == SCRATCH:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != MARK and (path.name in (*FILES, MANIFEST) or path.name.endswith(".tmp")):
            path.unlink()


def _cannot_write(folder: Path, cause: Exception) -> str:
    reason = (str(cause).splitlines() or [type(cause).__name__])[0]
    return f"{folder} cannot be written ({reason}); make room or choose another folder"


def write_manifest(folder: Path, facts: Facts) -> None:
    """Say that the folder is whole."""
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        **facts._asdict(),
        "bytes": {file: (folder / file).stat().st_size for file in FILES},
        "crc32": {file: _checksum(folder / file) for file in FILES},
    }
    write_json(folder / MANIFEST, manifest)


def verify_prepared(folder: Path) -> None:
    """Read every file of a prepared folder and refuse one that has changed; opening looks at sizes
    alone, for it must not wait for all that."""
    for file, checksum in _manifest(folder)["crc32"].items():
        if _checksum(folder / file) != checksum:
            raise GraphError(f"{folder / file} is damaged: its content has changed; {AGAIN}")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def open_prepared(folder: Path, labels: pl.DataFrame | None = None) -> KnowledgeGraph:
    """The graph of a prepared folder, with labels of a frame (id, name) before its own; what is
    missing or damaged is named."""
    manifest = _manifest(folder)
    for file, size in manifest["bytes"].items():
        try:
            found = (folder / file).stat().st_size
        except OSError as cause:
            raise GraphError(f"{folder / file} is missing; {AGAIN}") from cause
        if found != size:
            raise GraphError(
                f"{folder / file} is damaged: it has {found:,} bytes instead of {size:,}; {AGAIN}"
            )
    facts = Facts(*(manifest[field] for field in Facts._fields))
    train, valid, test = (_array(folder / f"{split}.npy", np.int32, 2) for split in SPLITS)
    graph = KnowledgeGraph(
        facts.name,
        StoredVocabulary(folder / ENTITIES, facts.entities, "entity"),
        StoredVocabulary(folder / RELATIONS, facts.relations, "relation"),
        train,
        valid,
        test,
        facts.seen_entities,
        facts.seen_relations,
        facts.counts,
    )
    if labels is not None:
        graph = graph.labelled(labels)
    return graph.with_answers(*(_index(folder, way, facts.relations) for way in DIRECTIONS))


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GraphError(
            f"{folder} holds a graph whose preparation did not end; "
            f"run `reltucker data prepare GRAPH --out {folder}` again"
        ) from None
    except (OSError, ValueError) as cause:
        raise GraphError(f"{path} is damaged ({cause}); {AGAIN}") from cause
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise GraphError(f"{path} is not of a prepared graph; {AGAIN}")
    if manifest.get("version") != VERSION:
        raise GraphError(
            f"{folder} was prepared in version {manifest.get('version')} of the format, and this "
            f"reltucker reads version {VERSION}; {AGAIN}"
        )
    is_whole = (
        isinstance(manifest.get("name"), str)
        and all(isinstance(manifest.get(field), int) for field in Facts._fields[1:5])
        and isinstance(manifest.get("counts"), dict)
        and all(isinstance(manifest.get(key), dict) for key in ("bytes", "crc32"))
        and set(manifest["bytes"]) == set(manifest["crc32"]) == set(FILES)
    )
    if not is_whole:
        raise GraphError(f"{path} is damaged: something is missing in it; {AGAIN}")
    return manifest


def _index(folder: Path, direction: Direction, width: int) -> AnswerIndex:
    keys, offsets, answers, splits = (
        _array(folder / f"{direction}-{name}.npy", dtype, 1) for name, dtype in INDEX_ARRAYS.items()
    )
    return AnswerIndex(direction, width, keys, offsets, answers, splits)


def _array(path: Path, dtype: type, dimensions: int) -> Array:
    try:
        array = mapped(path)
    except (OSError, ValueError, EOFError) as cause:
        raise GraphError(f"{path} is damaged ({cause}); {AGAIN}") from cause
    if array.dtype != dtype or array.ndim != dimensions:
        raise GraphError(f"{path} is damaged: it holds another kind of numbers; {AGAIN}")
    return array
