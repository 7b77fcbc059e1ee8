"""Fetching from folders and a local server, archives that attack, and names of graphs."""

import gzip
import hashlib
import io
import os
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from reltucker.errors import GraphError
from reltucker.graph import describe_graph, load_graph
from reltucker.graph.catalog import (
    ENTRIES,
    CatalogEntry,
    PublishedFile,
    Statistics,
    cache_folder,
    fetch,
)
from reltucker.graph.families import families

SPLIT_TEXTS = {
    "train.txt": b"a\tlikes\tb\nb\tlikes\tc\nc\tknows\ta\n",
    "valid.txt": b"a\tlikes\tc\n",
    "test.txt": b"a\tknows\tb\nd\tknows\ta\n",
}
STATISTICS = Statistics(3, 4, 2, 3, 1, 2, 1, 1)

Member = tuple[tarfile.TarInfo, bytes]
Publish = Callable[[bytes], Path]


def plain(name: str, content: bytes) -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, target: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def splits(*left_out: str) -> list[Member]:
    return [plain(name, text) for name, text in SPLIT_TEXTS.items() if name not in left_out]


def packed(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELTUCKER_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put an archive into a folder and an entry `tiny` with its checksum into the catalog."""

    def put(content: bytes) -> Path:
        folder = tmp_path / "published"
        folder.mkdir(exist_ok=True)
        (folder / "Tiny.tar.gz").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        url = "http://127.0.0.1:9/Tiny.tar.gz"
        file = PublishedFile(url=url, sha256=digest)
        counts = STATISTICS._asdict()
        entry = CatalogEntry(name="tiny", summary="a test graph", files=(file,), counts=counts)
        monkeypatch.setitem(ENTRIES, "tiny", entry)
        return folder

    return put


def change(monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
    """Change the one file of the entry `tiny`."""
    file = ENTRIES["tiny"].files[0].model_copy(update=values)
    monkeypatch.setitem(ENTRIES, "tiny", ENTRIES["tiny"].model_copy(update={"files": (file,)}))


def assert_refused(folder: Path, cache: Path, message: str) -> str:
    before = sorted(path for path in cache.parent.rglob("*") if cache not in path.parents)
    with pytest.raises(GraphError, match=message) as raised:
        fetch("tiny", source_folder=folder)
    assert list(cache.iterdir()) == [], "nothing may stay behind"
    after = sorted(path for path in cache.parent.rglob("*") if cache not in path.parents)
    assert set(after) - {cache} == set(before) - {cache}, "nothing may be written elsewhere"
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_catalog_lists_built_in_and_published() -> None:
    assert list(ENTRIES)[:3] == ["families", "fb15k-237", "wn18rr"]
    available = [name for name, entry in ENTRIES.items() if entry.is_available]
    assert available == ["families"]
    assert ENTRIES["fb15k-237"].files[0].file_name == "FB15k-237.tar.gz"
    assert ENTRIES["fb15k-237"].labels_name == "FB15k-237.labels.tsv"


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.setenv("RELTUCKER_HOME", "~/graphs")
    assert cache_folder() == Path.home() / "graphs"
    monkeypatch.delenv("RELTUCKER_HOME")
    assert "reltucker" in cache_folder().parts
    assert cache_folder().is_absolute()


def test_fetch_from_a_folder(publish: Publish, cache: Path) -> None:
    source = publish(packed(splits()))
    (source / "Tiny.labels.tsv").write_text("a\tAnna\nlikes\tis fond of\n", encoding="utf-8")
    folder = fetch("tiny", source_folder=source)
    assert folder == cache / "tiny"
    assert {p.name for p in folder.iterdir()} == {*SPLIT_TEXTS, "labels.tsv"}
    assert all((folder / name).read_bytes() == text for name, text in SPLIT_TEXTS.items())
    assert [p.name for p in cache.iterdir()] == ["tiny"], "no temporary folder stays"
    graph = load_graph("tiny")
    assert graph.name == "tiny"
    assert Statistics.of(graph) == STATISTICS
    assert graph.entities.label(graph.entities.find("a")) == "Anna"
    assert ENTRIES["tiny"].is_available


def test_fetching_twice_does_nothing(publish: Publish) -> None:
    source = publish(packed(splits()))
    folder = fetch("tiny", source_folder=source)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    (source / "Tiny.tar.gz").unlink()
    assert fetch("tiny", source_folder=source) == folder
    assert fetch("tiny") == folder, "not even the network is needed"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_labels_can_follow_later(publish: Publish) -> None:
    source = publish(packed(splits()))
    folder = fetch("tiny", source_folder=source)
    assert not (folder / "labels.tsv").exists()
    (source / "Tiny.labels.tsv").write_text("a\tAnna\n", encoding="utf-8")
    fetch("tiny", source_folder=source)
    assert (folder / "labels.tsv").read_text(encoding="utf-8") == "a\tAnna\n"


def test_a_folder_that_lost_a_split_is_filled_again(publish: Publish) -> None:
    source = publish(packed(splits()))
    folder = fetch("tiny", source_folder=source)
    (folder / "test.txt").unlink()
    with pytest.raises(GraphError, match="run: reltucker data fetch tiny"):
        load_graph("tiny")
    fetch("tiny", source_folder=source)
    assert (folder / "test.txt").read_bytes() == SPLIT_TEXTS["test.txt"]


def test_archive_not_in_the_folder(publish: Publish, cache: Path) -> None:
    source = publish(packed(splits()))
    (source / "Tiny.tar.gz").rename(source / "other.tar.gz")
    assert_refused(source, cache, r"holds no file Tiny\.tar\.gz")


def test_checksum_that_differs_names_both_sums(publish: Publish, cache: Path) -> None:
    content = packed(splits())
    source = publish(content)
    expected = hashlib.sha256(content).hexdigest()
    (source / "Tiny.tar.gz").write_bytes(content + b"x")
    message = assert_refused(source, cache, "is not the published archive")
    assert expected in message
    assert hashlib.sha256(content + b"x").hexdigest() in message


def test_other_statistics(publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = publish(packed(splits()))
    counts = STATISTICS._replace(entities=5, seen_test=2)._asdict()
    changed = ENTRIES["tiny"].model_copy(update={"counts": counts})
    monkeypatch.setitem(ENTRIES, "tiny", changed)
    message = assert_refused(source, cache, "entities is 4 instead of 5, seen_test is 1 instead of")
    assert "relations" not in message


ATTACKS: dict[str, list[Member]] = {
    "parent folder": [*splits("test.txt"), plain("../test.txt", b"a\tb\tc\n")],
    "hidden parent folder": [*splits(), plain("x/../../escaped.txt", b"a\tb\tc\n")],
    "absolute path": [*splits("test.txt"), plain("/test.txt", b"a\tb\tc\n")],
    "subfolder": [*splits("test.txt"), plain("data/test.txt", b"a\tb\tc\n")],
    "other file": [*splits(), plain("setup.py", b"")],
    "other suffix": [*splits("test.txt"), plain("test.csv", b"a,b,c\n")],
    "folder": [*splits("test.txt"), special("test.txt", tarfile.DIRTYPE)],
    "symbolic link": [*splits("test.txt"), special("test.txt", tarfile.SYMTYPE, "/etc/hostname")],
    "hard link": [*splits("test.txt"), special("test.txt", tarfile.LNKTYPE, "train.txt")],
    "character device": [*splits("test.txt"), special("test.txt", tarfile.CHRTYPE)],
    "block device": [*splits("test.txt"), special("test.txt", tarfile.BLKTYPE)],
    "pipe": [*splits("test.txt"), special("test.txt", tarfile.FIFOTYPE)],
    "link first, then a file through it": [
        special("train.txt", tarfile.SYMTYPE, "../../escaped.txt"),
        *splits(),
    ],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_archives_that_attack(attack: str, publish: Publish, cache: Path) -> None:
    assert_refused(publish(packed(ATTACKS[attack])), cache, "may only hold plain files")


@pytest.mark.parametrize(
    "members",
    [splits("test.txt"), [*splits(), plain("test.tsv", b"a\tb\tc\n")], [*splits(), *splits()], []],
    ids=["missing split", "two suffixes", "each twice", "empty"],
)
def test_every_split_once(members: list[Member], publish: Publish, cache: Path) -> None:
    assert_refused(publish(packed(members)), cache, "each of train, valid and test once")


def test_archive_that_unpacks_to_too_much(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["reltucker.graph.catalog"], "UNPACKED_LIMIT", 1 << 16)
    bomb = packed([*splits("test.txt"), plain("test.txt", bytes(1 << 20))])
    assert len(bomb) < 1 << 13
    assert_refused(publish(bomb), cache, "unpacks to more than 65,536 bytes")


@pytest.mark.parametrize("claimed", [10**6, 10**12, 8 * 1024**6, -1024])
def test_header_that_claims_an_impossible_size(claimed: int, publish: Publish, cache: Path) -> None:
    member, content = plain("train.txt", SPLIT_TEXTS["train.txt"])
    member.size = claimed
    content = member.tobuf(tarfile.GNU_FORMAT) + content.ljust(512, b"\0") + bytes(1024)
    assert_refused(publish(gzip.compress(content)), cache, "is damaged and cannot be unpacked")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"<html>not found</html>",
        lambda content: content[:30] + bytes(20) + content[50:],
        lambda content: gzip.compress(b"not a tar file"),
        lambda content: gzip.compress(gzip.decompress(content)[:700]),
    ],
    ids=["cut", "empty", "web page", "zeros inside", "no tar inside", "tar cut"],
)
def test_damaged_archives(damage: Callable[[bytes], bytes], publish: Publish, cache: Path) -> None:
    assert_refused(publish(damage(packed(splits()))), cache, "damaged|train, valid and test once")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "published").mkdir()
    handler = partial(QuietHandler, directory=str(tmp_path / "published"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize("progress", [False, True])
def test_download(
    progress: bool,
    server: str,
    publish: Publish,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    publish(packed(splits()))
    change(monkeypatch, url=f"{server}/Tiny.tar.gz")
    folder = fetch("tiny", progress=progress)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert ("100%" in shown.err) if progress else shown.err == ""
    assert (folder / "train.txt").read_bytes() == SPLIT_TEXTS["train.txt"]
    assert [p.name for p in cache.iterdir()] == ["tiny"], "the archive is not kept"


def test_download_of_something_else(
    server: str, publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(packed(splits()))
    change(monkeypatch, url=f"{server}/Tiny.tar.gz", sha256="0" * 64)
    with pytest.raises(GraphError, match=f"its SHA-256 is [0-9a-f]{{64}} instead of {'0' * 64}"):
        fetch("tiny")
    assert list(cache.iterdir()) == []


def test_download_that_is_not_there(
    server: str, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(packed(splits()))
    change(monkeypatch, url=f"{server}/Gone.tar.gz")
    with pytest.raises(GraphError, match=r"could not be downloaded \(404"):
        fetch("tiny")


def test_no_network(publish: Publish, cache: Path) -> None:
    publish(packed(splits()))
    with pytest.raises(GraphError, match="could not be downloaded") as raised:
        fetch("tiny", progress=True)
    assert "name a folder that holds Tiny.tar.gz" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(cache.iterdir()) == []


def test_cache_that_cannot_be_written(publish: Publish, cache: Path) -> None:
    source = publish(packed(splits()))
    cache.write_text("a file where the folder should be")
    with pytest.raises(GraphError, match="RELTUCKER_HOME can name another folder"):
        fetch("tiny", source_folder=source)


def test_fetch_of_names_that_cannot_be_fetched() -> None:
    with pytest.raises(GraphError, match="families is built in"):
        fetch("families")
    with pytest.raises(GraphError, match="'fb15k237' is not in the catalog; did you mean 'fb15k-2"):
        fetch("fb15k237")


def test_open_families() -> None:
    assert np.array_equal(load_graph("families", seed=4).train, families(4).train)
    with pytest.raises(GraphError, match="omit the labels"):
        load_graph("families", labels="labels.tsv")


def test_open_what_is_not_fetched() -> None:
    with pytest.raises(GraphError, match="run: reltucker data fetch fb15k-237"):
        load_graph("fb15k-237")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("WN18RR", "did you mean 'wn18rr'"),
        ("familes", "did you mean 'families'"),
        ("./no/such/thing", "the catalog has families, fb15k-237, wn18rr"),
        ("x" * 5000, "the catalog has families"),
        ("with\0zero", "the catalog has families"),
    ],
)
def test_open_what_is_neither(name: str, hint: str) -> None:
    with pytest.raises(GraphError, match=hint) as raised:
        load_graph(name)
    assert len(str(raised.value)) < 400


def test_catalog_wins_over_a_file_unless_written_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "families"
    folder.mkdir()
    for name, text in SPLIT_TEXTS.items():
        (folder / name).write_bytes(text)
    assert len(load_graph("families").relations) == 20
    for written in (f".{os.sep}families", str(folder), Path("families")):
        assert Statistics.of(load_graph(written)) == STATISTICS


def test_open_a_path_with_labels(tmp_path: Path) -> None:
    triples = "".join(f"e{i}\tr\te{(i * 3 + 1) % 10}\n" for i in range(10))
    (tmp_path / "own.tsv").write_text(triples, encoding="utf-8")
    (tmp_path / "names.tsv").write_text("e0\tNull\n", encoding="utf-8")
    graph = load_graph(str(tmp_path / "own.tsv"), labels=tmp_path / "names.tsv", seed=1)
    assert graph.entities.label(graph.entities.find("e0")) == "Null"


DATASETS = Path(
    os.environ.get("RELTUCKER_DATASETS", Path(__file__).parents[3] / "shared" / "datasets")
)


@pytest.mark.datasets
@pytest.mark.parametrize("name", ["fb15k-237", "wn18rr"])
def test_published_graphs(name: str) -> None:
    entry, expected = ENTRIES[name], Statistics(**ENTRIES[name].counts)
    file_name = entry.files[0].file_name
    if not (DATASETS / file_name).is_file():
        pytest.skip(f"{file_name} is not in {DATASETS}; RELTUCKER_DATASETS names a folder")
    fetch(name, source_folder=DATASETS)
    graph = load_graph(name)
    assert Statistics.of(graph) == expected
    described = describe_graph(graph)
    assert described["triples"]["train"] == expected.train
    assert described["seen_triples"]["test"] == expected.seen_test
    assert described["unseen_entities"] == expected.entities - expected.seen_entities
    assert sum(described["relation_kinds"].values()) == expected.relations
    label = {"fb15k-237": ("/m/010016", "Denton"), "wn18rr": ("00001740", "breathe.v.01")}[name]
    if (DATASETS / entry.labels_name).is_file():
        assert graph.entities.label(graph.entities.find(label[0])) == label[1]
