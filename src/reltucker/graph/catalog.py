"""The catalog: graphs that are known by name, built in or fetched once and kept in a cache."""

import gzip
import io
import os
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import platformdirs

from reltucker.atomic import write_bytes
from reltucker.errors import GraphError
from reltucker.graph.building import build_graph
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph
from reltucker.graph.sources import read_folder
from reltucker.graph.vocabulary import Vocabulary

CACHE_VARIABLE = "RELTUCKER_HOME"
SUFFIXES = (".txt", ".tsv")
UNPACKED_LIMIT = 256 << 20
"""An archive that unpacks to more bytes than this is refused."""

# Headers with absurd numbers end in ValueError and OverflowError inside of tarfile.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, ValueError, OverflowError)


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


@dataclass(frozen=True)
class CatalogEntry:
    """A graph with a name, and the published archive that holds it; without one it is built in."""

    name: str
    summary: str
    url: str = ""
    sha256: str = ""
    statistics: Statistics | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self.url

    @property
    def file_name(self) -> str:
        """The name of the archive as published."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def labels_name(self) -> str:
        """The name of the labels file that may stand beside the archive."""
        return self.file_name.removesuffix(".tar.gz") + ".labels.tsv"

    @property
    def folder(self) -> Path:
        """Where the fetched files are kept."""
        return cache_folder() / self.name

    @property
    def is_available(self) -> bool:
        """Whether the graph can be opened without fetching it."""
        return self.is_built_in or all(
            any((self.folder / f"{split}{suffix}").is_file() for suffix in SUFFIXES)
            for split in SPLITS
        )


_CATALOG = (
    CatalogEntry("families", "invented families with their towns, work and languages"),
    CatalogEntry(
        "fb15k-237",
        "Freebase facts without near-inverse relations (Toutanova and Chen, 2015)",
        "https://github.com/TimDettmers/ConvE/raw/master/FB15k-237.tar.gz",
        "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
        Statistics(14_505, 14_541, 237, 272_115, 17_535, 20_466, 17_526, 20_438),
    ),
    CatalogEntry(
        "wn18rr",
        "WordNet without near-inverse relations (Dettmers et al., 2018)",
        "https://github.com/TimDettmers/ConvE/raw/master/WN18RR.tar.gz",
        "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
        Statistics(40_559, 40_943, 11, 86_835, 3_034, 3_134, 2_824, 2_924),
    ),
)
ENTRIES = {entry.name: entry for entry in _CATALOG}


def cache_folder() -> Path:
    """Where fetched graphs are kept: RELTUCKER_HOME, or else the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("reltucker", appauthor=False)


def suggestion(text: str) -> str:
    """What to write instead of a name that the catalog does not have."""
    nearest = " or ".join(map(repr, Vocabulary(list(ENTRIES)).nearest(text.lower(), 2)))
    return f"did you mean {nearest}?" if nearest else f"the catalog has {', '.join(ENTRIES)}"


def fetch(name: str, *, source_folder: Path | None = None, progress: bool = False) -> Path:
    """The folder with the splits of a catalog graph, filled if it is not there yet.

    The archive is downloaded, or taken from `source_folder` where it stands under its published
    name; a labels file beside it (FB15k-237.labels.tsv) comes along as labels.tsv. Nothing is
    kept unless the checksum and the statistics of the unpacked graph are the expected ones.
    """
    if name not in ENTRIES:
        raise GraphError(f"{name[:200]!r} is not in the catalog; {suggestion(name)}")
    entry, folder = ENTRIES[name], ENTRIES[name].folder
    if entry.is_built_in:
        raise GraphError(f"{name} is built in; there is nothing to fetch")
    try:
        if not entry.is_available:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{name}.", dir=folder.parent) as working:
                unpacked = _unpacked(entry, Path(working), source_folder, progress)
                if not entry.is_available:  # else another process was faster
                    # A folder that lost a split; only where there is none can one be renamed to.
                    shutil.rmtree(folder, ignore_errors=True)
                    unpacked.rename(folder)
        labels = None if source_folder is None else source_folder / entry.labels_name
        if labels is not None and labels.is_file() and not (folder / "labels.tsv").exists():
            write_bytes(folder / "labels.tsv", labels.read_bytes())
    except OSError as cause:
        raise GraphError(
            f"{name} cannot be put into the cache folder {folder.parent} ({cause}); "
            f"{CACHE_VARIABLE} can name another folder"
        ) from cause
    return folder


def _unpacked(
    entry: CatalogEntry, working: Path, source_folder: Path | None, progress: bool
) -> Path:
    """A folder in `working` with the splits of the archive, after all checks."""
    import pooch  # not needed to open what is here

    path = (source_folder or working) / entry.file_name
    origin = entry.url if source_folder is None else str(path)
    if source_folder is None:
        download = pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=30)
        try:
            download(entry.url, str(path), None)
        except OSError as cause:
            raise GraphError(
                f"{entry.url} could not be downloaded ({cause}); check the network, "
                f"or name a folder that holds {entry.file_name}"
            ) from cause
    elif not path.is_file():
        raise GraphError(f"{source_folder} holds no file {entry.file_name}")
    found = pooch.file_hash(str(path))
    if found != entry.sha256:
        raise GraphError(
            f"{origin} is not the published archive: its SHA-256 is {found} "
            f"instead of {entry.sha256}"
        )
    folder = working / "unpacked"
    folder.mkdir()
    _unpack(path, origin, folder)
    counted = Statistics.of(build_graph(read_folder(folder)[0], entry.file_name))
    differences = [
        f"{key} is {count:,} instead of {wanted:,}"
        for key, count, wanted in zip(
            Statistics._fields, counted, entry.statistics or (), strict=True
        )
        if count != wanted
    ]
    if differences:
        raise GraphError(f"{origin} holds another graph than expected: {', '.join(differences)}")
    return folder


def _unpack(path: Path, origin: str, folder: Path) -> None:
    """Write the three splits of a .tar.gz to `folder`, and refuse whatever else is in it."""
    # Names are compared with a fixed set, so none can lead out of the folder.
    splits = {f"{split}{suffix}": split for split in SPLITS for suffix in SUFFIXES}
    unpacked: list[str] = []
    try:
        with gzip.open(path) as file:
            content = file.read(UNPACKED_LIMIT + 1)
        if len(content) > UNPACKED_LIMIT:
            raise GraphError(f"{origin} unpacks to more than {UNPACKED_LIMIT:,} bytes")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                split = splits.get(member.name)
                if split is None or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    raise GraphError(
                        f"{origin} may only hold plain files train, valid and test "
                        f"({' or '.join(SUFFIXES)}), but has {member.name[:200]!r}"
                    )
                if not 0 <= member.size <= len(content):
                    raise tarfile.ReadError(f"{member.name} cannot have {member.size:,} bytes")
                unpacked.append(split)
                source = archive.extractfile(member)
                assert source is not None, "a regular file has content"
                write_bytes(folder / member.name, source.read())
    except _DAMAGE as cause:
        raise GraphError(f"{origin} is damaged and cannot be unpacked ({cause})") from cause
    if sorted(unpacked) != sorted(SPLITS):
        raise GraphError(f"{origin} must hold each of train, valid and test once")
