"""RDF files: which triples come out, and where an error is said to be."""

import gzip
from pathlib import Path

import pytest
import zstandard

from reltucker.errors import GraphError
from reltucker.graph.sources import read_file
from reltucker.graph.tables import Reading

NT = b"""<http://x/a> <http://x/r> <http://x/b> .
_:n1 <http://x/r> <http://x/a> .
<http://x/a> <http://x/name> "A\\tname"@en .
"""
ROWS = [("http://x/a", "http://x/r", "http://x/b"), ("_:n1", "http://x/r", "http://x/a")]
XML = b"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">
<rdf:Description rdf:about="http://x/a"><x:r rdf:resource="http://x/b"/></rdf:Description>
<rdf:Description rdf:nodeID="n1"><x:r rdf:resource="http://x/a"/></rdf:Description>
<rdf:Description rdf:about="http://x/a"><x:name>A</x:name></rdf:Description>
</rdf:RDF>
"""
TTL = b'@prefix x: <http://x/> .\nx:a x:r x:b .\n_:n1 x:r x:a .\nx:a x:name "A", 5, true .\n'
NQ = NT.replace(b"<http://x/b> .", b"<http://x/b> <http://x/graph> .")


def read(folder: Path, name: str, content: bytes) -> tuple[list[tuple[str, ...]], int]:
    path = folder / name
    path.write_bytes(content)
    table = read_file(path)
    return table.frame.rows(), table.literals


@pytest.mark.parametrize(
    ("name", "content", "literals"),
    [
        ("a.nt", NT, 1),
        ("a.nt", b"\xef\xbb\xbf" + NT.replace(b"\n", b"\r\n"), 1),
        ("a.nq", NQ, 1),
        ("a.ttl", TTL, 3),
        ("a.rdf", XML, 1),
        ("a.xml", XML, 1),
        ("a.owl", XML, 1),
        ("a.nt.gz", gzip.compress(NT, mtime=0), 1),
        ("a.ttl.zst", zstandard.compress(TTL), 3),
    ],
)
def test_every_format_gives_the_same_triples(
    tmp_path: Path, name: str, content: bytes, literals: int
) -> None:
    assert read(tmp_path, name, content) == (ROWS, literals)


def test_nodes_without_a_label_get_the_same_name_at_every_reading(tmp_path: Path) -> None:
    content = b"<http://x/a> <http://x/r> [ <http://x/r> [] ] ."
    first, _ = read(tmp_path, "a.ttl", content)
    # Ids are random, and some are shorter than others: one reading would not show all kinds.
    for _ in range(60):
        assert first == read(tmp_path, "a.ttl", content)[0]
    assert {name for row in first for name in row if name.startswith("_:")} == {
        "_:a.ttl#1",
        "_:a.ttl#2",
    }
    assert first != read(tmp_path, "b.ttl", content)[0]


def test_a_written_label_is_kept_even_when_it_looks_generated(tmp_path: Path) -> None:
    label = b"f67c042d8b0e9d5dbc423dc9110f6dd1"
    rows, _ = read(tmp_path, "a.ttl", b"_:" + label + b" <http://x/r> <http://x/a> .")
    assert rows[0][0] == f"_:{label.decode()}"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.nt", NT + b"<http://x/a> <http://x/r> .\n", 4),
        ("a.nt", NT + b"<a> <http://x/r> <http://x/a> .\n", 4),
        ("a.nt", NT + b'<http://x/a> <http://x/r> "\xff" .\n', 4),
        ("a.nq", b"\n\nhello\n", 3),
        ("a.ttl", TTL + b"y:a x:r x:b .\n", 5),
        ("a.rdf", XML.replace(b'rdf:about="http://x/a"><x:n', b'rdf:about="#q"><x:n'), 5),
        ("a.rdf", XML.replace(b"</rdf:Description>\n</rdf", b"</rdf:Wrong>\n</rdf"), 5),
        ("a.rdf", b"garbage", 1),
    ],
)
def test_a_syntax_error_names_file_and_line(
    tmp_path: Path, name: str, content: bytes, line: int
) -> None:
    with pytest.raises(GraphError) as caught:
        read(tmp_path, name, content)
    assert f"{tmp_path / name}, line {line}: not valid" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b'<http://x/a> <http://x/r> "b" .\n'])
def test_a_file_without_entity_triples_is_called_empty(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(GraphError, match=r"a\.nt is empty"):
        read(tmp_path, "a.nt", content)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compression_is_named(tmp_path: Path, suffix: str) -> None:
    whole = gzip.compress(NT) if suffix == ".gz" else zstandard.compress(NT)
    for content in (whole[:-6], b"garbage"):
        with pytest.raises(GraphError, match="is not a whole"):
            read(tmp_path, f"a.nt{suffix}", content)


def test_zstd_without_the_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(GraphError, match="install"):
        read(tmp_path, "a.nt.zst", b"anything")


def test_what_unpacks_to_too_much_is_refused_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reltucker.graph.rdf.BATCH", 1_000)
    path = tmp_path / "bomb.nt.gz"
    path.write_bytes(gzip.compress(b"<http://a/1> <http://r/1> <http://b/1> .\n" * 20_000))
    with pytest.raises(GraphError, match=r"more than 0.0 GiB.*raise --max-memory"):
        read_file(path, reading=Reading(max_memory="1MB"))


def test_a_statement_that_does_not_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reltucker.graph.rdf.LONGEST_STATEMENT", 1 << 20)
    with pytest.raises(GraphError, match=r"no whole triple in 1 MiB"):
        read(tmp_path, "a.nt", b'<http://a/1> <http://r/1> "' + b"a" * (3 << 20))
