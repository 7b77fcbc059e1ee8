"""From any source to a prepared folder, in a stated amount of memory.

Tables are read in batches, names are numbered on disk, and repeated triples and answer indexes are
found for one range of entities after the other. What cannot be read in batches is loaded whole.
"""

import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from reltucker.arguments import checked
from reltucker.atomic import write_with
from reltucker.errors import GraphError
from reltucker.graph.arrays import Array, blocks, growing, mapped
from reltucker.graph.building import number_names, warn_of_overlap
from reltucker.graph.catalog import ENTRIES
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph, SplitName
from reltucker.graph.labels import DEFAULT_LANGUAGE, read_labels
from reltucker.graph.loading import load_graph, locate
from reltucker.graph.numbering import NameNumbers
from reltucker.graph.prepared import (
    DIRECTIONS,
    ENTITIES,
    RELATIONS,
    Facts,
    filling,
    is_prepared,
    open_prepared,
    write_manifest,
)
from reltucker.graph.ranges import BLOCK, find_repeated_triples, write_index
from reltucker.graph.sources import GraphSource, find_splits
from reltucker.graph.splitting import split_numbers
from reltucker.graph.streaming import TEXT, can_stream, examine_triples, stream_triples
from reltucker.graph.tables import COMPRESSIONS, PIECE, stem_and_suffix
from reltucker.machine import memory_limit
from reltucker.progress import track

DEFAULT_MEMORY = "0.25"
OWN = 192 << 20
"""Bytes that Python and its libraries take of the limit."""
LEAST = 384 << 20
"""The smallest limit, in bytes."""
LEFT_OUT = 255
"""In place of the number of a split: a triple that its split has already."""
BYTES_ON_DISK = 90
"""What a triple needs at most, working files included."""
BYTES_TO_SPLIT = 40
"""What a triple of a single file needs of memory while train, valid and test are drawn."""


class Plan(NamedTuple):
    """How much is held at a time.

    room  : bytes for all of it
    batch : bytes of text that are read
    parts : of the names, one of which is numbered at a time
    rows  : triples that are sorted
    """

    room: int
    batch: int
    parts: int
    rows: int

    @classmethod
    def of(cls, limit: float, files: Iterable[Path]) -> "Plan":
        """What fits into a limit, by what was measured: a batch takes up to 16 times its text,
        names take ten times the text that they stand in, and a sorted triple 96 bytes."""
        room = int(limit) - OWN
        text = sum(path.stat().st_size * (1 if _is_plain(path) else 8) for path in files)
        parts = min(max(-(-20 * text // room), 1), 512)
        return cls(room, min(max(room // 16, PIECE), 256 << 20), parts, room // 96)


@checked()
def prepare_graph(
    source: GraphSource,
    out: str | PathLike[str],
    *,
    labels: str | PathLike[str] | None = None,
    language: str = DEFAULT_LANGUAGE,
    seed: int = 0,
    columns: str | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: bool = False,
) -> KnowledgeGraph:
    """Read and index a graph once, into a folder that `load_graph` opens at once, and open it.

    It is the graph that `load_graph` gives for the same arguments. `memory` limits what is held
    meanwhile: a share of the machine's memory, or a size such as 8GB.
    """
    folder, limit = Path(out), memory_limit(memory)
    if limit < LEAST:
        raise GraphError(
            f"memory {memory} are {limit / 2**20:,.0f} MiB, and preparing a graph needs "
            f"{LEAST >> 20} MiB; raise it"
        )
    sources = _Sources.of(source)
    with filling(folder) as scratch:
        if sources is None:
            graph = load_graph(
                source,
                labels=labels,
                language=language,
                seed=seed,
                columns=columns,
                max_memory=memory,
            )
            facts = _Writer(folder, scratch, Plan.of(limit, ()), progress).store(graph)
        else:
            file = sources.labels if labels is None else Path(labels)
            known = None if file is None else read_labels(file, language)
            writer = _Writer(folder, scratch, Plan.of(limit, sources.files.values()), progress)
            facts = writer.stream(sources._replace(columns=columns), known, seed)
            warn_of_overlap(facts.name, Counter(facts.counts), stacklevel=4)
        shutil.rmtree(scratch)
        write_manifest(folder, facts)
    return open_prepared(folder)


class _Batch(NamedTuple):
    """Where a batch begins: its first triple, and the places of its first names."""

    row: int
    entity: int
    relation: int


class _Sources(NamedTuple):
    """Files that can be read in batches; a single one is to be split."""

    files: Mapping[SplitName, Path]
    name: str
    labels: Path | None
    is_single: bool
    columns: str | None = None

    @classmethod
    def of(cls, source: GraphSource) -> "_Sources | None":
        """None where there is no file, or one that cannot be read in batches."""
        if not isinstance(source, str | PathLike) or _is_built_in(source):
            return None
        path, name = locate(source)
        if path.is_dir() and is_prepared(path):
            return None
        is_single = not path.is_dir()
        files: Mapping[SplitName, Path] = {"train": path}
        labels = None
        if not is_single:
            files, labels = find_splits(path)
        if not all(map(can_stream, files.values())):
            return None
        return cls(files, name, labels, is_single)


class _Writer:
    """Writes the files of a prepared folder, all but the manifest."""

    def __init__(self, folder: Path, scratch: Path, plan: Plan, progress: bool) -> None:
        self.folder = folder
        self.scratch = scratch
        self.plan = plan
        self.progress = progress

    def store(self, graph: KnowledgeGraph) -> Facts:
        """A graph that is in memory already."""
        for split in SPLITS:
            with growing(self.folder / f"{split}.npy", np.int32, 3) as append:
                append(graph.split(split))
        self._write_names(ENTITIES, graph.entities.to_frame().iter_slices(BLOCK))
        self._write_names(RELATIONS, graph.relations.to_frame().iter_slices(BLOCK))
        sizes = len(graph.entities), len(graph.relations)
        self._write_indexes(sizes)
        return Facts(graph.name, *sizes, graph.seen_entities, graph.seen_relations, graph.counts)

    def stream(self, sources: _Sources, labels: pl.DataFrame | None, seed: int) -> Facts:
        """A graph whose files are read batch by batch."""
        names = [
            NameNumbers(self.scratch / kind, self.plan.parts, self.plan.batch)
            for kind in ("entities", "relations")
        ]
        heights, batches = self._read(sources, names)
        self._refuse_too_much(sources, sum(heights))
        places = sum(part.places for part in names)
        with track("numbering", places, "names", self.progress) as advance:
            if not all(part.number(advance) for part in names):
                for path in sources.files.values():
                    examine_triples(path, order=sources.columns)
                raise GraphError(f"{sources.name}: a name is blank or broken; write it again")
        self._write_ids(names, batches)
        # Batches of train come first, so its names have the first places.
        end_of_train = batches[bisect_left([b.row for b in batches], heights[0])]
        entities, relations = names
        sizes = entities.before(entities.places), relations.before(relations.places)
        seen = entities.before(end_of_train.entity), relations.before(end_of_train.relation)
        triples = self.scratch / "triples.npy"
        repeated, counts = find_repeated_triples(triples, heights, sizes, self.plan.rows)
        splits = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), heights)
        splits[repeated] = LEFT_OUT
        if sources.is_single:
            splits[~repeated] = self._drawn(repeated, sizes, seed)
        del repeated
        self._write_splits(splits)
        del splits
        known = _Labels(labels)
        self._write_names(ENTITIES, map(known.beside, entities.names()))
        self._write_names(RELATIONS, map(known.beside, relations.names()))
        counts["labels_unused"] = known.unused()
        self._write_indexes(sizes)
        return Facts(sources.name, *sizes, *seen, {k: v for k, v in counts.items() if v})

    def _read(self, sources: _Sources, names: list[NameNumbers]) -> tuple[list[int], list[_Batch]]:
        """Write the triples of all batches, numbered by the names of their batch; how many each
        split has, and where batches begin."""
        files, order = sources.files, sources.columns
        heights: list[int] = []
        batches = [_Batch(0, 0, 0)]
        total = sum(path.stat().st_size for path in files.values())
        with (
            track("reading", total, "bytes", self.progress) as advance,
            growing(self.scratch / "local.npy", np.int32, 3) as append,
        ):
            for split in SPLITS:
                first = batches[-1].row
                frames: Iterable[pl.DataFrame] = ()
                if split in files:
                    frames = stream_triples(files[split], self.plan.batch, advance, order)
                for frame in frames:
                    triples = np.empty((frame.height, 3), dtype=np.int32)
                    found = number_names(frame, triples, 0)
                    for part, (distinct, _) in zip(names, found, strict=True):
                        part.add(distinct)
                    append(triples)
                    row = batches[-1].row + frame.height
                    batches.append(_Batch(row, *(part.places for part in names)))
                heights.append(batches[-1].row - first)
        return heights, batches

    def _refuse_too_much(self, sources: _Sources, triples: int) -> None:
        """Refuse what the disk or the memory cannot take, before most of the work is done."""
        need, free = BYTES_ON_DISK * triples, shutil.disk_usage(self.folder).free
        if need > free:
            raise GraphError(
                f"{self.folder} needs about {need / 2**30:,.1f} GiB for {triples:,} triples, and "
                f"its disk has {free / 2**30:,.1f} GiB left; choose another folder"
            )
        if sources.is_single and BYTES_TO_SPLIT * triples > self.plan.room:
            need = BYTES_TO_SPLIT * triples + OWN
            raise GraphError(
                f"{sources.files['train']} has {triples:,} triples, and to split them 80/10/10 "
                f"takes {need / 2**30:,.1f} GiB of memory; allow more memory, or give a folder "
                "with train, valid and test"
            )

    def _write_ids(self, names: list[NameNumbers], batches: list[_Batch]) -> None:
        """From the numbers of batches to ids."""
        local = self.scratch / "local.npy"
        with growing(self.scratch / "triples.npy", np.int32, 3) as append:
            for begin, end in pairwise(batches):
                entities = names[0].ids(begin.entity, end.entity)
                relations = names[1].ids(begin.relation, end.relation)
                subject, relation, object_ = mapped(local)[begin.row : end.row].T
                append(np.stack([entities[subject], relations[relation], entities[object_]], 1))
        local.unlink()

    def _drawn(self, repeated: Array, sizes: tuple[int, int], seed: int) -> Array:
        """The numbers of the splits of distinct triples."""
        triples = self.scratch / "triples.npy"
        distinct = self.scratch / "distinct.npy"
        if not repeated.any():
            return split_numbers(mapped(triples), *sizes, seed)
        with growing(distinct, np.int32, 3) as append:
            for begin, block in blocks(triples, BLOCK):
                append(block[~repeated[begin : begin + len(block)]])
        return split_numbers(mapped(distinct), *sizes, seed)

    def _write_splits(self, splits: Array) -> None:
        """Write the triples to the files of their splits, whose numbers are given."""
        with ExitStack() as stack:
            files = [self.folder / f"{split}.npy" for split in SPLITS]
            appends = [stack.enter_context(growing(file, np.int32, 3)) for file in files]
            for begin, block in blocks(self.scratch / "triples.npy", BLOCK):
                own = splits[begin : begin + len(block)]
                for number, append in enumerate(appends):
                    append(block[own == number])

    def _write_names(self, file: str, frames: Iterable[pl.DataFrame]) -> None:
        parts = []
        for number, frame in enumerate(frames):
            parts.append(self.scratch / f"{number}-{file}")
            frame.write_ipc(parts[-1])
        whole = pl.scan_ipc(parts, glob=False)
        plain = pl.CompatLevel.oldest()  # strings that every reader of Arrow files knows
        write_with(self.folder / file, lambda path: whole.sink_ipc(path, compat_level=plain))

    def _write_indexes(self, sizes: tuple[int, int]) -> None:
        files = [self.folder / f"{split}.npy" for split in SPLITS]
        total = len(DIRECTIONS) * sum(len(mapped(file)) for file in files)
        with track("indexing", total, "triples", self.progress) as advance:
            for direction in DIRECTIONS:
                write_index(files, self.folder, direction, sizes, self.plan.rows, advance)


class _Labels:
    """Labels of a frame (id, name), and which of them belong to a name."""

    def __init__(self, labels: pl.DataFrame | None) -> None:
        self.labels = None
        if labels is not None:
            self.labels = labels.rename({"id": "name", "name": "label"}).with_row_index("row")
            self.is_used = np.zeros(len(labels), dtype=bool)

    def beside(self, names: pl.Series) -> pl.DataFrame:
        """The names with their labels, as `Vocabulary.to_frame` has them."""
        frame = names.to_frame("name")
        if self.labels is None:
            return frame
        frame = frame.join(self.labels, on="name", how="left", maintain_order="left")
        self.is_used[frame["row"].drop_nulls().to_numpy()] = True
        return frame.select("name", "label")

    def unused(self) -> int:
        """How many labels belong to no name."""
        return 0 if self.labels is None else int((~self.is_used).sum())


def _is_plain(path: Path) -> bool:
    """Whether a file is text that is not compressed."""
    return path.suffix.lower() not in COMPRESSIONS and stem_and_suffix(path)[1] in TEXT


def _is_built_in(source: str | PathLike[str]) -> bool:
    return isinstance(source, str) and source in ENTRIES and ENTRIES[source].is_built_in
