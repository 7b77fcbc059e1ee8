"""The catalog: graphs that are known by name, built in or fetched once and kept in a cache."""

import os
import shutil
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import platformdirs
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from reltucker.atomic import write_bytes
from reltucker.errors import GraphError
from reltucker.graph.annotations import Format, read_annotations, write_annotations, write_table
from reltucker.graph.building import GraphWarning, build_graph
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph
from reltucker.graph.pins import Pins, read_pins
from reltucker.graph.sources import read_file, read_folder
from reltucker.graph.tables import LABELS, TRIPLES, Reading
from reltucker.graph.unpacking import LimitedWriter, unpack_gzip, unpack_tar
from reltucker.graph.vocabulary import Vocabulary

CACHE_VARIABLE = "RELTUCKER_HOME"
SUFFIXES = (".txt", ".tsv")
ARCHIVES = (".tar.gz", ".tgz")
UNPACKED_LIMIT = 256 << 20
"""A file that has more bytes than this, packed or unpacked, is refused unless its entry says more.
"""
SEED = 0
"""Of the split of a graph that is published as one file."""

_SPLIT_FILES = [f"{split}{suffix}" for split in SPLITS for suffix in SUFFIXES]


class Statistics(NamedTuple):
    """What the published graph contains; `seen_...` counts what has all its names in train."""

    seen_entities: int
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    seen_valid: int
    seen_test: int

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> "Statistics":
        """Count the same in a graph."""
        seen = [int(graph.is_seen(triples).sum()) for triples in (graph.valid, graph.test)]
        sizes = [len(graph.split(split)) for split in SPLITS]
        return cls(graph.seen_entities, len(graph.entities), len(graph.relations), *sizes, *seen)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Content(_Record):
    """What is in a file, or in a member of an archive."""

    use: Literal["train", "valid", "test", "triples", "labels", "types"]
    member: str = ""
    format: Format = "table"
    columns: str | None = None


class PublishedFile(_Record):
    """A file that a graph is published in; catalog.toml says what the fields are."""

    url: str
    name: str = ""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    limit: int | None = None
    contents: tuple[Content, ...] = ()

    @property
    def file_name(self) -> str:
        """Its name as published."""
        return self.name or self.url.rsplit("/", 1)[-1]


class CatalogEntry(_Record):
    """A graph with a name, and the published files that hold it; without any it is built in."""

    name: str
    summary: str
    paper: str = ""
    licence: str = ""
    warning: str = ""
    refused: str = ""
    counts: dict[str, int] = {}
    files: tuple[PublishedFile, ...] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self.files and not self.refused

    @property
    def is_verified(self) -> bool:
        """Whether the checksums of all files are known."""
        return not self.refused and all(file.sha256 for file in self.files)

    @property
    def triples(self) -> int | None:
        """How many there are in all splits, where that is known."""
        if "triples" in self.counts or "train" not in self.counts:
            return self.counts.get("triples")
        return sum(self.counts[split] for split in SPLITS)

    @property
    def labels_name(self) -> str:
        """The name of the labels file that may stand beside the published files."""
        stem = self.files[0].file_name if len(self.files) == 1 else self.name
        for ending in ARCHIVES:
            stem = stem.removesuffix(ending)
        return f"{stem}.labels.tsv"

    @property
    def folder(self) -> Path:
        """Where the fetched files are kept."""
        return cache_folder() / self.name

    @property
    def pins_path(self) -> Path:
        """Where the checksums of unverified files are kept."""
        return cache_folder() / f"{self.name}.sha256"

    @property
    def is_available(self) -> bool:
        """Whether the graph can be opened without fetching it."""
        return self.is_built_in or all(
            any((self.folder / f"{split}{suffix}").is_file() for suffix in SUFFIXES)
            for split in SPLITS
        )

    def unverified(self) -> dict[str, str]:
        """The checksums of what came from files for which none is known, by their names."""
        unknown = {file.file_name for file in self.files if not file.sha256}
        return {name: sum_ for name, sum_ in read_pins(self.pins_path).items() if name in unknown}


ENTRIES = {
    name: CatalogEntry.model_validate({"name": name, **entry})
    for name, entry in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}


def cache_folder() -> Path:
    """Where fetched graphs are kept: RELTUCKER_HOME, or else the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("reltucker", appauthor=False)


def suggestion(text: str) -> str:
    """What to write instead of a name that the catalog does not have."""
    nearest = " or ".join(map(repr, Vocabulary(list(ENTRIES)).nearest(text.lower(), 2)))
    some = ", ".join(list(ENTRIES)[:3])
    others = f"the catalog has {some} and {len(ENTRIES) - 3} more: reltucker data list"
    return f"did you mean {nearest}?" if nearest else others


def located(name: str) -> Path:
    """The folder of a graph that was fetched; warns of what one should know about it."""
    entry = ENTRIES[name]
    if not entry.is_available:
        raise GraphError(
            entry.refused or f"{name} is not on this machine yet; run: reltucker data fetch {name}"
        )
    _warn(entry)
    return entry.folder


def fetch(
    name: str,
    *,
    source_folder: Path | None = None,
    sha256: Sequence[str] = (),
    progress: bool = False,
) -> Path:
    """The folder with the splits of a catalog graph, filled if it is not there yet.

    The files are downloaded, or taken from `source_folder` where they stand under their published
    names; a labels file beside them (FB15k-237.labels.tsv) comes along as labels.tsv. Nothing is
    kept unless the checksums and the counts of the graph are the expected ones. Where no checksum
    is known, that of the first file to come is kept, and later ones must have the same; `sha256`
    (HEX, or FILE=HEX) tells it beforehand, and then other counts are a warning only.
    """
    if name not in ENTRIES:
        raise GraphError(f"{name[:200]!r} is not in the catalog; {suggestion(name)}")
    entry, folder = ENTRIES[name], ENTRIES[name].folder
    if entry.is_built_in or entry.refused:
        raise GraphError(entry.refused or f"{name} is built in; there is nothing to fetch")
    try:
        sums = {file.file_name: file.sha256 for file in entry.files}
        pins = Pins.read(entry.pins_path, sums, sha256)
        if not entry.is_available:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{name}.", dir=folder.parent) as working:
                made = _Fetching(entry, Path(working), source_folder, pins, progress)
                made.fill()
                if not entry.is_available:  # else another process was faster
                    # A folder that lost a split; only where there is none can one be renamed to.
                    shutil.rmtree(folder, ignore_errors=True)
                    made.folder.rename(folder)
                pins.keep(made.sums)
        labels = None if source_folder is None else source_folder / entry.labels_name
        if labels is not None and labels.is_file() and not (folder / "labels.tsv").exists():
            write_bytes(folder / "labels.tsv", labels.read_bytes())
    except OSError as cause:
        raise GraphError(
            f"{name} cannot be put into the cache folder {folder.parent} ({cause}); "
            f"{CACHE_VARIABLE} can name another folder"
        ) from cause
    _warn(entry)
    return folder


def _warn(entry: CatalogEntry) -> None:
    if entry.warning:
        warnings.warn(entry.warning, GraphWarning, stacklevel=4)


class _Fetching:
    """The way of a graph from its published files to a folder with splits, labels and types."""

    def __init__(
        self,
        entry: CatalogEntry,
        working: Path,
        source_folder: Path | None,
        pins: Pins,
        progress: bool,
    ) -> None:
        self.entry, self.source_folder, self.pins = entry, source_folder, pins
        self.progress = progress
        self.published, self.folder = working / "published", working / "unpacked"
        self.published.mkdir()
        self.folder.mkdir()
        self.sums: dict[str, str] = {}

    def fill(self) -> None:
        """Obtain, check, unpack and convert all files."""
        annotations: list[tuple[Content, Path, str]] = []
        whole: tuple[Content, Path] | None = None
        for number, file in enumerate(self.entry.files):
            path, origin = self._obtained(file)
            for content, part in self._parts(file, path, origin, number):
                if content.use in ("labels", "types"):
                    annotations.append((content, part, origin))
                elif content.use == "triples":
                    whole = content, part
                else:
                    part.rename(self.folder / f"{content.use}{part.suffix}")
        if whole is None:
            graph = build_graph(read_folder(self.folder)[0], self.entry.name)
        else:
            graph = self._split(*whole)
        self._compare(graph, self.entry.name if len(self.sums) > 1 else origin)
        names = {"labels": pl.concat([graph.entities.names, graph.relations.names])}
        names["types"] = graph.entities.names
        headers = {"labels": LABELS, "types": ()}
        for use, used in names.items():
            frames = [
                read_annotations(path, origin, content.format, content.columns)
                for content, path, origin in annotations
                if content.use == use
            ]
            write_annotations(self.folder / f"{use}.tsv", frames, used, headers[use])

    def _obtained(self, file: PublishedFile) -> tuple[Path, str]:
        """A published file on this machine, with the right checksum, and where it comes from."""
        import pooch  # not needed to open what is here

        name, limit = file.file_name, file.limit or UNPACKED_LIMIT
        path = (self.source_folder or self.published) / name
        origin = file.url if self.source_folder is None else str(path)
        if self.source_folder is None:
            download = pooch.HTTPDownloader(
                progressbar=self.progress, chunk_size=1 << 16, timeout=30
            )
            try:
                with path.open("wb") as target:
                    refusal = f"{origin} has more than {limit:,} bytes"
                    download(file.url, LimitedWriter(target, limit, refusal), None)
            except OSError as cause:
                raise GraphError(
                    f"{file.url} could not be downloaded ({cause}); check the network, "
                    f"or name a folder that holds {name}"
                ) from cause
        elif not path.is_file():
            raise GraphError(f"{self.source_folder} holds no file {name}")
        self.sums[name] = pooch.file_hash(str(path))
        self.pins.check(name, self.sums[name], origin)
        return path, origin

    def _parts(
        self, file: PublishedFile, path: Path, origin: str, number: int
    ) -> Iterator[tuple[Content, Path]]:
        """What is in a file, each as a plain file in a folder of our own."""
        folder, limit = self.published / str(number), file.limit or UNPACKED_LIMIT
        folder.mkdir()
        if file.file_name.endswith(ARCHIVES):
            yield from self._members(file, path, origin, folder)
            return
        stem = folder / f"content{_suffix(file.file_name)}"
        if file.file_name.endswith(".gz"):
            unpack_gzip(path, origin, stem, limit)
        elif self.source_folder is None:
            path.rename(stem)
        else:
            shutil.copyfile(path, stem)
        yield from ((content, stem) for content in file.contents)

    def _members(
        self, file: PublishedFile, path: Path, origin: str, folder: Path
    ) -> Iterator[tuple[Content, Path]]:
        limit = file.limit or UNPACKED_LIMIT
        if not file.contents:
            only = f"plain files train, valid and test ({' or '.join(SUFFIXES)})"
            found = unpack_tar(path, origin, _SPLIT_FILES, folder, limit, only=only)
            splits = {split: [n for n in found if Path(n).stem == split] for split in SPLITS}
            if any(len(names) != 1 for names in splits.values()):
                raise GraphError(f"{origin} must hold each of train, valid and test once")
            for split, (name,) in splits.items():
                yield Content(use=split), folder / name
            return
        names = {content.member for content in file.contents}
        found = unpack_tar(path, origin, names, folder, limit)
        if sorted(found) != sorted(names):
            raise GraphError(f"{origin} must hold each of {', '.join(sorted(names))} once")
        for content in file.contents:
            yield content, folder / content.member

    def _split(self, content: Content, path: Path) -> KnowledgeGraph:
        """Write the splits of a single set of triples, as `load_graph` would draw them."""
        table = read_file(path, reading=Reading(content.columns))
        graph = build_graph({"train": table}, self.entry.name, seed=SEED)
        for split in SPLITS:
            columns = zip(TRIPLES, graph.split(split).T, strict=True)
            names = {"subject": graph.entities, "relation": graph.relations}
            rows = pl.DataFrame(
                [names.get(c, graph.entities).names.gather(ids).alias(c) for c, ids in columns]
            ).with_columns(pl.all().str.replace_all(r"[\t\r\n]+", " "))
            write_table(self.folder / f"{split}.tsv", rows, TRIPLES)
        return graph

    def _compare(self, graph: KnowledgeGraph, origin: str) -> None:
        """Refuse a graph with other counts than the published ones, which count rows."""
        counted = Statistics.of(graph)._asdict()
        for split in SPLITS:
            counted[split] += graph.counts.get(f"duplicates_{split}", 0)
        counted["triples"] = sum(counted[split] for split in SPLITS)
        differences = [
            f"{key} is {counted[key]:,} instead of {wanted:,}"
            for key, wanted in self.entry.counts.items()
            if counted[key] != wanted
        ]
        if not differences:
            return
        message = f"{origin} holds another graph than expected: {', '.join(differences)}"
        known = {**self.pins.given, **self.pins.published}
        if not self.pins.given or not self.sums.keys() <= known.keys():
            raise GraphError(message)
        warnings.warn(message, GraphWarning, stacklevel=4)


def _suffix(name: str) -> str:
    """The ending of a plain file; tables with tabs have several."""
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix if suffix in (*SUFFIXES, ".csv", ".json") else ".tsv"
