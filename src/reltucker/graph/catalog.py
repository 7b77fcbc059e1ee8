"""The catalog: graphs that are known by name, built in or fetched once and kept in a cache."""

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import platformdirs
import pooch
from rapidfuzz import process
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from reltucker.atomic import write_bytes
from reltucker.errors import GraphError
from reltucker.graph.families import families
from reltucker.graph.knowledge_graph import SPLITS, KnowledgeGraph
from reltucker.graph.loading import GraphSource, load_graph

CACHE_VARIABLE = "RELTUCKER_HOME"
SUFFIXES = (".txt", ".tsv")
LABELS = "labels.tsv"
UNPACKED_LIMIT = 256 << 20
"""An archive that unpacks to more bytes than this is refused."""

# Headers with absurd numbers end in ValueError and OverflowError inside of tarfile.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, ValueError, OverflowError)


@dataclass(frozen=True)
class Statistics:
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
        return cls(
            graph.seen_entities,
            len(graph.entities),
            len(graph.relations),
            len(graph.train),
            len(graph.valid),
            len(graph.test),
            int(graph.is_seen(graph.valid).sum()),
            int(graph.is_seen(graph.test).sum()),
        )


@dataclass(frozen=True)
class Archive:
    """A published file: where it is, and what it must be."""

    url: str
    sha256: str
    statistics: Statistics

    @property
    def file_name(self) -> str:
        """The name of the archive as published."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def labels_name(self) -> str:
        """The name of the labels file that may stand beside the archive."""
        return self.file_name.removesuffix(".tar.gz") + ".labels.tsv"


@dataclass(frozen=True)
class CatalogEntry:
    """A graph with a name; without an archive it is built in."""

    name: str
    summary: str
    archive: Archive | None = None

    @property
    def folder(self) -> Path:
        """Where the fetched files are kept."""
        return cache_folder() / self.name

    @property
    def is_available(self) -> bool:
        """Whether the graph can be opened without fetching it."""
        return self.archive is None or _has_all_splits(self.folder)


ENTRIES: dict[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry("families", "invented families with their towns, work and languages"),
        CatalogEntry(
            "fb15k-237",
            "Freebase facts without near-inverse relations (Toutanova and Chen, 2015)",
            Archive(
                "https://github.com/TimDettmers/ConvE/raw/master/FB15k-237.tar.gz",
                "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
                Statistics(14_505, 14_541, 237, 272_115, 17_535, 20_466, 17_526, 20_438),
            ),
        ),
        CatalogEntry(
            "wn18rr",
            "WordNet without near-inverse relations (Dettmers et al., 2018)",
            Archive(
                "https://github.com/TimDettmers/ConvE/raw/master/WN18RR.tar.gz",
                "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
                Statistics(40_559, 40_943, 11, 86_835, 3_034, 3_134, 2_824, 2_924),
            ),
        ),
    )
}


class DownloadProgress(Protocol):
    """What a download reports to; `total` is set once the size is known."""

    total: int

    def update(self, amount: int, /) -> object:
        """Add bytes."""

    def reset(self) -> object:
        """Start again from no bytes."""

    def close(self) -> object:
        """Take the bar away; may be called twice."""


class DownloadBar:
    """A progress bar on standard error, silent where that is not a terminal."""

    def __init__(self, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(title, total=None)
        self._is_shown = self._progress.console.is_terminal
        self._total = 0

    @property
    def total(self) -> int:
        """The size of the download in bytes, 0 while unknown."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        self._progress.update(self._task, total=size or None)
        if self._is_shown:
            self._progress.start()

    def update(self, amount: int, /) -> None:
        """Add bytes."""
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        """Start again from no bytes."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Take the bar away."""
        if self._is_shown:
            self._progress.stop()


def catalog() -> list[CatalogEntry]:
    """All graphs that are known by name, the built-in one first."""
    return list(ENTRIES.values())


def cache_folder() -> Path:
    """Where fetched graphs are kept: RELTUCKER_HOME, or else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("reltucker", appauthor=False)


def open_graph(
    source: GraphSource, *, labels: str | PathLike[str] | None = None, seed: int = 0
) -> KnowledgeGraph:
    """A graph of the catalog by its name, or else whatever `loading.load_graph` takes.

    A name of the catalog wins over a file of the same name; `./name` or a Path is always a path.
    """
    if not isinstance(source, str | PathLike):
        return load_graph(source, labels=labels, seed=seed)
    if isinstance(source, str) and source in ENTRIES:
        return _open_entry(ENTRIES[source], labels, seed)
    if not os.path.exists(source):
        raise GraphError(
            f"{str(source)[:200]!r} is neither a file or folder nor a graph of the catalog"
            f"; {_suggestion(str(source))}"
        )
    return load_graph(source, labels=labels, seed=seed)


def fetch(
    name: str, *, source_folder: Path | None = None, progress: DownloadProgress | None = None
) -> Path:
    """The folder with the splits of a catalog graph, filled if it is not there yet.

    The archive is downloaded, or taken from `source_folder` where it stands under its published
    name; a labels file beside it (FB15k-237.labels.tsv) comes along as labels.tsv. Nothing is
    kept unless the checksum and the statistics of the unpacked graph are the expected ones.
    """
    if name not in ENTRIES:
        raise GraphError(f"{name[:200]!r} is not in the catalog; {_suggestion(name)}")
    entry = ENTRIES[name]
    if entry.archive is None:
        raise GraphError(f"{name} is built in; there is nothing to fetch")
    folder = entry.folder
    try:
        if not _has_all_splits(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{name}.", dir=folder.parent) as working:
                _fill(entry.name, entry.archive, folder, Path(working), source_folder, progress)
        if source_folder is not None and not (folder / LABELS).exists():
            labels = source_folder / entry.archive.labels_name
            if labels.is_file():
                write_bytes(folder / LABELS, labels.read_bytes())
    except OSError as cause:
        raise GraphError(
            f"{name} cannot be put into the cache folder {folder.parent} ({cause}); "
            f"{CACHE_VARIABLE} can name another folder"
        ) from cause
    return folder


def _open_entry(
    entry: CatalogEntry, labels: str | PathLike[str] | None, seed: int
) -> KnowledgeGraph:
    if entry.archive is None:
        if labels is not None:
            raise GraphError(f"the names of {entry.name} are readable as they are; omit the labels")
        return families(seed)
    if not entry.is_available:
        raise GraphError(
            f"{entry.name} is not on this machine yet; run: reltucker data fetch {entry.name}"
        )
    return load_graph(entry.folder, labels=labels, seed=seed, name=entry.name)


def _suggestion(text: str) -> str:
    matches = process.extract(text[:200].lower(), list(ENTRIES), limit=2, score_cutoff=60)
    if matches:
        return f"did you mean {' or '.join(repr(match) for match, _, _ in matches)}?"
    return f"the catalog has {', '.join(ENTRIES)}"


def _has_all_splits(folder: Path) -> bool:
    return all(
        any((folder / f"{split}{suffix}").is_file() for suffix in SUFFIXES) for split in SPLITS
    )


def _fill(
    name: str,
    archive: Archive,
    folder: Path,
    working: Path,
    source_folder: Path | None,
    progress: DownloadProgress | None,
) -> None:
    """Unpack and check in `working`; only a folder that passed is renamed to `folder`."""
    if source_folder is None:
        path, origin = working / archive.file_name, archive.url
        _download(archive, path, progress)
    else:
        path = source_folder / archive.file_name
        origin = str(path)
        if not path.is_file():
            raise GraphError(f"{source_folder} holds no file {archive.file_name}")
    _check_sum(path, origin, archive.sha256)
    unpacked = working / name
    unpacked.mkdir()
    _unpack(path, origin, unpacked)
    _check_statistics(origin, archive.statistics, load_graph(unpacked, name=name))
    if _has_all_splits(folder):  # another process was faster
        return
    # What is there now has lost a split; a folder can only be renamed to where there is none.
    shutil.rmtree(folder, ignore_errors=True)
    unpacked.rename(folder)


def _download(archive: Archive, path: Path, progress: DownloadProgress | None) -> None:
    bar = False if progress is None else progress
    download = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    try:
        download(archive.url, str(path), None)
    except OSError as cause:
        raise GraphError(
            f"{archive.url} could not be downloaded ({cause}); check the network, "
            f"or name a folder that holds {archive.file_name}"
        ) from cause
    finally:
        if progress is not None:
            progress.close()


def _check_sum(path: Path, origin: str, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise GraphError(
            f"{origin} is not the published archive: its SHA-256 is {found} instead of {expected}"
        )


def _check_statistics(origin: str, expected: Statistics, graph: KnowledgeGraph) -> None:
    found, wanted = asdict(Statistics.of(graph)), asdict(expected)
    differences = [
        f"{key} is {found[key]:,} instead of {wanted[key]:,}"
        for key in wanted
        if found[key] != wanted[key]
    ]
    if differences:
        raise GraphError(f"{origin} holds another graph than expected: {', '.join(differences)}")


def _unpack(path: Path, origin: str, folder: Path) -> None:
    """Write the three splits of a .tar.gz to `folder`, and refuse whatever else is in it."""
    try:
        with gzip.open(path) as file:
            content = file.read(UNPACKED_LIMIT + 1)
        if len(content) > UNPACKED_LIMIT:
            raise GraphError(f"{origin} unpacks to more than {UNPACKED_LIMIT:,} bytes")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            unpacked: list[str] = []
            for member in archive:
                _check_member(origin, member)
                if not 0 <= member.size <= len(content):
                    raise tarfile.ReadError(f"{member.name} cannot have {member.size:,} bytes")
                unpacked.append(member.name.rsplit(".", 1)[0])
                if unpacked.count(unpacked[-1]) > 1:
                    break
                source = archive.extractfile(member)
                assert source is not None, "a regular file has content"
                write_bytes(folder / member.name, source.read())
    except _DAMAGE as cause:
        raise GraphError(f"{origin} is damaged and cannot be unpacked ({cause})") from cause
    if sorted(unpacked) != sorted(SPLITS):
        raise GraphError(f"{origin} must hold each of train, valid and test once")


def _check_member(origin: str, member: tarfile.TarInfo) -> None:
    # Names are compared with a fixed set, so none can lead out of the folder.
    allowed = {f"{split}{suffix}" for split in SPLITS for suffix in SUFFIXES}
    if member.name not in allowed or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise GraphError(
            f"{origin} may only hold plain files train, valid and test "
            f"({' or '.join(SUFFIXES)}), but has {member.name[:200]!r}"
        )
