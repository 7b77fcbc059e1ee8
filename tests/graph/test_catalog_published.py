"""Every entry of the catalog, from a local server with small files of the published shape."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from reltucker.errors import GraphError
from reltucker.graph import GraphWarning, load_graph, prepare_graph
from reltucker.graph.catalog import ENTRIES, CatalogEntry, fetch
from tests.cli.test_commands import run

TRAIN = "".join(f"Q{i}\tP{i % 2}\tQ{(i * 3 + 1) % 10}\n" for i in range(10)).encode()
SPLITS = {"train": TRAIN, "valid": b"Q1\tP0\tQ2\n", "test": b"Q2\tP1\tQ3\n"}
EDGES = [
    (f"Gene::{i % 20}", f"G{'ir'[i % 2]}G", f"Gene::{(i * 7 + 3 + i // 20) % 20}")
    for i in range(40)
]

Files = dict[str, bytes]


def rows(lines: list[tuple[str, ...]], separator: str = "\t") -> bytes:
    return "".join(separator.join(line) + "\n" for line in lines).encode()


def packed(members: Files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def split_files(pattern: str) -> Files:
    return {pattern.format(split): content for split, content in SPLITS.items()}


def codex() -> Files:
    labels = {f"Q{i}": {"label": f"thing {i}" if i else "", "wiki": ""} for i in range(30)}
    return {
        **split_files("{}.txt"),
        "entities.json": json.dumps(labels).encode(),
        "relations.json": b'{"P0": {"label": "likes", "description": "x"}}',
        "entity2types.json": b'{"Q1": ["Q5", "Q6", "Q5"], "Q25": ["Q5"]}',
    }


def hetionet() -> Files:
    nodes = [(f"Gene::{i}", f"name {i}", "Gene" if i % 2 else "Disease") for i in range(25)]
    kinds = [("Gene - interacts - Gene", "GiG", "20"), ("Gene > regulates > Gene", "GrG", "20")]
    return {
        "hetionet-v1.0-edges.sif.gz": gzip.compress(
            rows([("source", "metaedge", "target"), *EDGES])
        ),
        "hetionet-v1.0-nodes.tsv": rows([("id", "name", "kind"), *nodes]),
        "metaedges.tsv": rows([("metaedge", "abbreviation", "edges"), *kinds]),
    }


def primekg() -> Files:
    header = "relation,display_relation,x_index,x_id,x_type,x_name,x_source,"
    header += "y_index,y_id,y_type,y_name,y_source\n"
    lines = [
        f'protein_drug,ppi,{x},9{x},drug,"name, of {x}",NCBI,{y},9{y},gene/protein,n{y},NCBI\n'
        for i in range(40)
        for x, y in [(i % 20, (i * 7 + 3) % 20), ((i * 7 + 3) % 20, i % 20)]
    ]
    return {"kg.csv": (header + "".join(lines)).encode()}


def wn18() -> Files:
    definitions = rows([(f"Q{i}", f"__word_NN_{i}", "what it means") for i in range(12)])
    members = split_files("wordnet-mlj12/wordnet-mlj12-{}.txt")
    members |= {"wordnet-mlj12/wordnet-mlj12-definitions.txt": definitions}
    return {"wordnet-mlj12.tar.gz": packed({"wordnet-mlj12/": b"", **members})}


def wikidata5m() -> Files:
    aliases = {
        "wikidata5m_entity.txt": b'Q1\tUniverse\tcosmos\t"all"\nQ2\tEarth\nQ77\tunused\n',
        "wikidata5m_relation.txt": b"P0\tlikes\tis fond of\n",
    }
    return {
        "wikidata5m_transductive.tar.gz": packed(split_files("wikidata5m_transductive_{}.txt")),
        "wikidata5m_alias.tar.gz": packed(aliases),
    }


def fb15k() -> Files:
    members = {"FB15k/README": b"read me\n", "._x": b"\0"}
    members |= split_files("FB15k/freebase_mtr100_mte100-{}.txt")
    return {"fb15k.tgz": packed(members)}


SHAPES: dict[str, Callable[[], Files]] = {
    "codex-s": codex,
    "codex-m": codex,
    "codex-l": codex,
    "yago3-10": lambda: {"YAGO3-10.tar.gz": packed(split_files("./any/folder/{}.txt"))},
    "umls": partial(split_files, "{}.txt"),
    "kinship": partial(split_files, "{}.txt"),
    "nations": partial(split_files, "{}.txt"),
    "wn18": wn18,
    "fb15k": fb15k,
    "wikidata5m": wikidata5m,
    "hetionet": hetionet,
    "primekg": primekg,
}
LEAKING = ("wn18", "fb15k", "primekg")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELTUCKER_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("served")
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()


Serve = Callable[..., Path]


@pytest.fixture
def serve(served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Serve files of the shape of an entry, and let the entry take its files from there."""

    def put(name: str, files: Files | None = None, **changes: Any) -> Path:
        address, folder = served[0] + f"/{name}", served[1] / name
        folder.mkdir(exist_ok=True)
        contents = SHAPES[name]() if files is None else files
        entry = ENTRIES[name]
        assert {file.file_name for file in entry.files} == contents.keys()
        for file_name, content in contents.items():
            (folder / file_name).write_bytes(content)
        moved = [
            file.model_copy(
                update={
                    "url": f"{address}/{file.file_name}",
                    "sha256": file.sha256 and hashlib.sha256(contents[file.file_name]).hexdigest(),
                }
            )
            for file in entry.files
        ]
        changed = {"files": tuple(moved), "counts": {}, **changes}
        monkeypatch.setitem(ENTRIES, name, entry.model_copy(update=changed))
        return folder

    return put


def quiet_fetch(name: str, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return fetch(name, **options)


def tables(path: Path, header: bool) -> list[tuple[str, ...]]:
    return pl.read_csv(path, separator="\t", has_header=header, quote_char=None).rows()


def test_every_entry_has_a_shape_here_or_says_why_not() -> None:
    known = {"families", "fb15k-237", "wn18rr", "ogbl-biokg"}
    assert ENTRIES.keys() == SHAPES.keys() | known
    for entry in ENTRIES.values():
        assert entry.summary
        assert entry.licence, entry.name
        assert entry.is_built_in or entry.paper.startswith("https://")
        names = [file.file_name for file in entry.files]
        assert len(set(names)) == len(names), "names must differ in one folder"
        assert all(file.url.startswith("https://") for file in entry.files)
        uses = [content.use for file in entry.files for content in file.contents]
        assert not uses or uses.count("train") + uses.count("triples") == 1


@pytest.mark.parametrize("name", SHAPES)
def test_every_entry_is_fetched_and_opened(name: str, serve: Serve, cache: Path) -> None:
    serve(name)
    folder = quiet_fetch(name)
    assert folder == cache / name
    assert {path.name for path in cache.iterdir()} <= {name, f"{name}.sha256"}
    if name in LEAKING:
        with pytest.warns(GraphWarning, match=f"{name} "):
            graph = load_graph(name)
    else:
        graph = load_graph(name)
    assert graph.name == name
    assert len(graph.train)
    assert len(graph.valid)
    assert len(graph.test)
    is_single = name in ("hetionet", "primekg")
    assert (folder / "train.tsv").exists() == is_single
    if not is_single:
        assert (folder / "train.txt").read_bytes() == TRAIN


def test_labels_and_types_of_codex(serve: Serve) -> None:
    serve("codex-s")
    folder = fetch("codex-s")
    graph = load_graph("codex-s")
    assert graph.entities.label(graph.entities.find("Q3")) == "thing 3"
    assert graph.entities.label(graph.entities.find("Q0")) == "Q0", "a blank label is none"
    assert graph.relations.find("likes") == graph.relations.find("P0")
    assert "Q25" not in (folder / "labels.tsv").read_text(encoding="utf-8"), "not in the graph"
    assert tables(folder / "types.tsv", False) == [("Q1", "Q5"), ("Q1", "Q6")]
    assert "labels_unused" not in graph.counts


def test_labels_and_types_of_one_file_that_is_split(serve: Serve, tmp_path: Path) -> None:
    serve("hetionet", counts={"entities": 20, "relations": 2, "triples": 40})
    folder = fetch("hetionet")
    graph = load_graph("hetionet")
    (tmp_path / "edges.tsv").write_bytes(rows(EDGES))
    own = load_graph(tmp_path / "edges.tsv")
    for split in ("train", "valid", "test"):
        expected = {(own.entities.name(s), own.entities.name(o)) for s, _, o in own.split(split)}
        found = {(graph.entities.name(s), graph.entities.name(o)) for s, _, o in graph.split(split)}
        assert found == expected, "split as any file"
    assert graph.relations.find("Gene - interacts - Gene") == graph.relations.find("GiG")
    assert graph.entities.label(graph.entities.find("Gene::4")) == "name 4"
    assert ("Gene::3", "Gene") in tables(folder / "types.tsv", False)
    prepared = prepare_graph("hetionet", tmp_path / "prepared")
    assert len(prepared.train) == len(graph.train)


def test_columns_of_primekg(serve: Serve) -> None:
    serve("primekg", counts={"entities": 20, "triples": 80})
    folder = quiet_fetch("primekg")
    graph = quiet_load("primekg")
    assert graph.entities.label(graph.entities.find("7")) == "name, of 7"
    assert graph.relations.names.to_list() == ["protein_drug"]
    assert (7, "drug") in tables(folder / "types.tsv", False)


def quiet_load(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return load_graph(name)


def test_first_names_of_aliases_and_definitions_are_labels(serve: Serve) -> None:
    serve("wikidata5m")
    folder = fetch("wikidata5m")
    expected = [("Q1", "Universe"), ("Q2", "Earth"), ("P0", "likes")]
    assert tables(folder / "labels.tsv", True) == expected
    serve("wn18")
    folder = quiet_fetch("wn18")
    assert ("Q3", "__word_NN_3") in tables(folder / "labels.tsv", True)


def test_warning_of_leaks(serve: Serve) -> None:
    serve("fb15k")
    with pytest.warns(GraphWarning, match="test triples of fb15k leak.*use fb15k-237"):
        fetch("fb15k")
    with pytest.warns(GraphWarning, match="leak"):
        fetch("fb15k")


def test_what_is_not_read_is_refused_with_a_reason(tmp_path: Path) -> None:
    for attempt in (fetch, load_graph):
        with pytest.raises(GraphError, match=r"Python pickles.*package ogb") as raised:
            attempt("ogbl-biokg")
        assert "\n" not in str(raised.value)
    folder = ENTRIES["ogbl-biokg"].folder
    folder.mkdir(parents=True)
    for split, content in SPLITS.items():
        (folder / f"{split}.tsv").write_bytes(content)
    assert len(load_graph("ogbl-biokg").test) == 1, "what a user has put there is opened"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_unverified_first_and_pinned_from_then_on(serve: Serve, cache: Path) -> None:
    source = serve("fb15k")
    quiet_fetch("fb15k")
    first = digest((source / "fb15k.tgz").read_bytes())
    pins = cache / "fb15k.sha256"
    assert pins.read_text() == f"{first}  fb15k.tgz\n"
    assert ENTRIES["fb15k"].unverified() == {"fb15k.tgz": first}
    other = packed(split_files("freebase_mtr100_mte100-{}.txt"))
    serve("fb15k", {"fb15k.tgz": other})
    assert quiet_fetch("fb15k") == cache / "fb15k", "it is here already"
    (cache / "fb15k" / "train.txt").unlink()
    for options in ({}, {"source_folder": source}):
        with pytest.raises(GraphError, match="is not what came before: its SHA-256 is") as raised:
            quiet_fetch("fb15k", **options)
        assert digest(other) in str(raised.value)
        assert first in str(raised.value)
        assert f"take the old one out of {pins}" in str(raised.value)
    with pytest.raises(GraphError, match=r"that --sha256 names for fb15k\.tgz is not what came"):
        quiet_fetch("fb15k", sha256=[digest(other)])
    pins.unlink()
    quiet_fetch("fb15k", sha256=[digest(other).upper()])
    assert pins.read_text() == f"{digest(other)}  fb15k.tgz\n"


def test_pinned_beforehand(serve: Serve, cache: Path) -> None:
    serve("codex-s")
    wanted = f"train.txt={digest(b'something else')}"
    with pytest.raises(GraphError, match="is not the file that --sha256 names: its SHA-256 is"):
        fetch("codex-s", sha256=[wanted])
    assert list(cache.iterdir()) == []
    fetch("codex-s", sha256=[f"train.txt={digest(TRAIN)}"])
    kept = (cache / "codex-s.sha256").read_text().splitlines()
    assert len(kept) == 6
    assert f"{digest(TRAIN)}  train.txt" in kept


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0" * 64, "write FILE=HEX, where FILE is one of train.txt, valid.txt"),
        ("nothing.txt=" + "0" * 64, "where FILE is one of train.txt"),
        ("train.txt=0f", "64 hexadecimal digits are needed"),
    ],
)
def test_pins_that_cannot_be(given: str, message: str, serve: Serve) -> None:
    serve("codex-s")
    with pytest.raises(GraphError, match=message):
        fetch("codex-s", sha256=[given])


def test_a_known_checksum_cannot_be_pinned_otherwise(serve: Serve) -> None:
    serve("nations")
    with pytest.raises(GraphError, match="is not the published archive"):
        fetch("nations", sha256=[f"train.txt={'0' * 64}"])


def test_wrong_checksum_of_one_of_several_files(serve: Serve, cache: Path) -> None:
    source = serve("nations")
    (source / "valid.txt").write_bytes(b"Q1\tP0\tQ3\n")
    with pytest.raises(GraphError, match=r"valid\.txt is not the published archive"):
        fetch("nations")
    assert list(cache.iterdir()) == []


def test_a_list_of_checksums_that_is_none(serve: Serve, cache: Path) -> None:
    serve("fb15k")
    cache.mkdir()
    (cache / "fb15k.sha256").write_text("rubbish\n")
    with pytest.raises(GraphError, match="is not a list of checksums; repair or delete it"):
        fetch("fb15k")


def test_other_counts_are_refused_unless_the_file_is_pinned(serve: Serve, cache: Path) -> None:
    source = serve("yago3-10", counts={"entities": 10, "train": 11})
    with pytest.raises(GraphError, match="another graph than expected: train is 10 instead of 11"):
        fetch("yago3-10")
    assert list(cache.iterdir()) == []
    pin = digest((source / "YAGO3-10.tar.gz").read_bytes())
    with pytest.warns(GraphWarning, match="train is 10 instead of 11"):
        fetch("yago3-10", sha256=[pin])


def test_rows_that_are_repeated_count(serve: Serve) -> None:
    twice = {**SPLITS, "train": TRAIN + TRAIN[:8]}
    files = {"YAGO3-10.tar.gz": packed({f"{split}.txt": text for split, text in twice.items()})}
    serve("yago3-10", files, counts={"train": 11})
    assert (fetch("yago3-10") / "train.txt").read_bytes() == twice["train"]


def link(name: str, target: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        archive.addfile(member)
    return buffer.getvalue()


def claims(size: int) -> bytes:
    member = tarfile.TarInfo("README")
    member.size = size
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


SPLIT_TEXTS = split_files("{}.txt")


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (packed({**SPLIT_TEXTS, "../escaped.txt": b"x"}), "may only hold plain files in folders"),
        (packed({**SPLIT_TEXTS, "a/../../test.txt": b"x"}), "may only hold plain files in folders"),
        (packed({**SPLIT_TEXTS, "/test.txt": b"x"}), "may only hold plain files in folders"),
        (link("train.txt", "/etc/hostname"), "may only hold plain files in folders"),
        (packed({**SPLIT_TEXTS, "other/test.txt": b"x"}), "must hold each of test.txt, train.txt"),
        (packed({"train.txt": TRAIN}), "must hold each of test.txt, train.txt, valid.txt once"),
        (packed(SPLIT_TEXTS)[:100], "is damaged and cannot be unpacked"),
        (packed(SPLIT_TEXTS)[:-8] + bytes(8), "is damaged and cannot be unpacked"),
        (claims(8 * 1024**6), "unpacks to more than"),
        (claims(-1024), "is damaged and cannot be unpacked"),
        (b"<html>not found</html>", "is damaged and cannot be unpacked"),
        (packed({**SPLIT_TEXTS, "README": bytes(1 << 20)}), "unpacks to more than 65,536 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives hold a time
)
def test_archives_that_are_refused(archive: bytes, message: str, serve: Serve, cache: Path) -> None:
    source = serve("yago3-10", {"YAGO3-10.tar.gz": archive})
    (file,) = ENTRIES["yago3-10"].files
    if "65,536" in message:
        limited = file.model_copy(update={"limit": 1 << 16})
        ENTRIES["yago3-10"] = ENTRIES["yago3-10"].model_copy(update={"files": (limited,)})
    before = {path for path in cache.parent.rglob("*") if cache not in path.parents}
    with pytest.raises(GraphError, match=message) as raised:
        fetch("yago3-10", source_folder=source)
    assert "\n" not in str(raised.value)
    assert list(cache.iterdir()) == []
    after = {path for path in cache.parent.rglob("*") if cache not in path.parents}
    assert after - {cache} == before - {cache}


def limited_to(name: str, limit: int) -> CatalogEntry:
    files = tuple(file.model_copy(update={"limit": limit}) for file in ENTRIES[name].files)
    return ENTRIES[name].model_copy(update={"files": files})


def test_downloads_and_gzip_that_are_too_big(
    serve: Serve, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("primekg")
    monkeypatch.setitem(ENTRIES, "primekg", limited_to("primekg", 1000))
    with pytest.raises(GraphError, match=r"kg\.csv has more than 1,000 bytes"):
        fetch("primekg")
    serve("hetionet")
    monkeypatch.setitem(ENTRIES, "hetionet", limited_to("hetionet", 600))
    with pytest.raises(GraphError, match=r"edges\.sif\.gz unpacks to more than 600 bytes"):
        fetch("hetionet")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"entities.json": b"[1, 2]"}, "entities.json does not hold names by their ids"),
        ({"entities.json": b'{"Q1": {"wiki": ""}}'}, "entities.json does not hold names"),
        ({"entities.json": b'{"Q1": '}, "entities.json does not hold names"),
        ({"entity2types.json": b'{"Q1": [1]}'}, "entity2types.json does not hold names"),
        ({"train.txt": b"Q1\tP1\n"}, "columns found where 3 are needed"),
    ],
)
def test_files_with_other_content(changed: Files, message: str, serve: Serve, cache: Path) -> None:
    serve("codex-s", {**codex(), **changed})
    with pytest.raises(GraphError, match=message):
        fetch("codex-s")
    assert list(cache.iterdir()) == []


def test_the_files_of_a_folder_stay_as_they_are(serve: Serve, cache: Path) -> None:
    source = serve("codex-s")
    fetch("codex-s", source_folder=source)
    assert {p.name for p in source.iterdir()} == codex().keys()
    assert (cache / "codex-s" / "types.tsv").is_file()


def test_data_fetch_shows_checksums_to_pin(serve: Serve, tmp_path: Path) -> None:
    source = serve("fb15k")
    found = digest((source / "fb15k.tgz").read_bytes())
    with pytest.warns(GraphWarning, match="test triples of fb15k leak"):
        done = run("data", "fetch", "fb15k", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["unverified"] == {"fb15k.tgz": found}
    assert Path(document["pins"]).is_file()
    with pytest.warns(GraphWarning, match="leak"):
        shown = run("data", "fetch", "fb15k", "--sha256", found, cwd=tmp_path).stdout
    assert "no checksum is known for these files" in shown
    assert f"  {found}  fb15k.tgz\n" in shown
    wrong = run("data", "fetch", "fb15k", "--sha256", "0" * 64, cwd=tmp_path, code=2).stderr
    assert "is not what came before" in wrong
    with pytest.warns(GraphWarning, match="test triples of fb15k leak"):
        run("data", "describe", "fb15k", cwd=tmp_path)
    serve("nations")
    assert json.loads(run("data", "fetch", "nations", "--json", cwd=tmp_path).stdout).keys() == {
        "name",
        "folder",
    }


def test_data_list(tmp_path: Path) -> None:
    shown = run("data", "list", cwd=tmp_path, columns="200").stdout
    assert all(name in shown for name in ENTRIES)
    assert "4,594,485" in shown
    for text in ("test triples of wn18 leak", "test triples of fb15k leak", "Python pickles"):
        assert text in shown
    rows = {
        row["name"]: row for row in json.loads(run("data", "list", "--json", cwd=tmp_path).stdout)
    }
    assert list(rows) == list(ENTRIES)
    assert rows["wn18"]["warning"].endswith("use wn18rr")
    assert rows["codex-s"]["triples"] == 36_543
    assert rows["codex-s"]["verified"] is False
    assert rows["nations"]["verified"] is True
    assert rows["ogbl-biokg"]["verified"] is False
    assert rows["hetionet"]["counts"] == {"entities": 45158, "relations": 24, "triples": 2250197}
    assert rows["yago3-10"]["files"] == [{"url": ENTRIES["yago3-10"].files[0].url, "sha256": None}]


def test_the_table_of_the_docs_is_the_catalog() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for entry in ENTRIES.values():
        line = lines[entry.name]
        known = {"entities": None, "relations": None, **entry.counts, "triples": entry.triples}
        for key in ("entities", "relations", "triples"):
            assert known[key] is None or f"| {known[key]:,} |" in line, (entry.name, key)
        assert entry.licence in line
        if entry.files:
            some = any(file.sha256 for file in entry.files)
            word = "known" if entry.is_verified else "known in part" if some else "unverified"
            assert line.endswith(f"| {word} |"), entry.name
