"""A prepared graph is the graph that load_graph gives, whatever was held at a time."""

import csv
import gzip
import io
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import GraphError, RecipeError
from reltucker.graph import (
    KnowledgeGraph,
    load_graph,
    numbering,
    prepare_graph,
    preparing,
    ranges,
    streaming,
)
from reltucker.graph.prepared import MANIFEST, MARK
from reltucker.graph.preparing import Plan
from tests.graph.test_loading import RDF, TEST, TRAIN, VALID, assert_same, tsv, write_folder

SMALL = Plan(room=1 << 30, batch=30, parts=3, rows=2)
"""So little at a time that every boundary is crossed."""


@contextmanager
def crossing() -> Iterator[None]:
    """Blocks, batches, parts and ranges of a few triples each."""
    with (
        patch.object(Plan, "of", lambda *_: SMALL),
        patch.object(streaming, "PIECE", 5),
        patch.object(streaming, "TASTED_ROWS", 2),
        patch.object(numbering, "BLOCK", 3),
        patch.object(ranges, "BLOCK", 4),
        patch.object(preparing, "BLOCK", 4),
    ):
        yield


def assert_equal(prepared: KnowledgeGraph, expected: KnowledgeGraph) -> None:
    """Names, labels, splits, counts and answer indexes."""
    assert prepared.name == expected.name
    assert_same(prepared, expected)
    for own, other in (
        (prepared.entities, expected.entities),
        (prepared.relations, expected.relations),
    ):
        assert len(own) == len(other)
        assert (own.labels is None) == (other.labels is None)
        assert own.shown.to_list() == other.shown.to_list()
    for direction in ("object", "subject"):
        index, built = prepared.answers(direction), expected.answers(direction)
        assert (index.direction, index.width) == (built.direction, built.width)
        for array in ("keys", "offsets", "answers", "splits"):
            found, wanted = getattr(index, array), getattr(built, array)
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype


def check(source: Any, out: Path, **options: Any) -> KnowledgeGraph:
    """Prepare, and compare what comes out, then and when it is opened, with load_graph."""
    with warnings.catch_warnings(record=True) as before:
        warnings.simplefilter("always")
        expected = load_graph(source, **options)
    with warnings.catch_warnings(record=True) as after:
        warnings.simplefilter("always")
        made = prepare_graph(source, out, **options)
    assert [str(w.message) for w in before] == [str(w.message) for w in after]
    assert_equal(made, expected)
    assert_equal(load_graph(out), expected)
    assert not list(out.glob(".*"))
    return made


odd = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]), min_size=1)
names = st.one_of(
    st.sampled_from("abcdef"), st.sampled_from(['"', 'a"b', "é", "\ufeff", "x\x01", "y" * 300]), odd
).filter(lambda name: bool(pl.Series([name]).str.strip_chars()[0]))
triples = st.tuples(names, st.sampled_from(["r", "s", "Ω"]), names)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(triples, min_size=1, max_size=60).filter(lambda r: not r[0][0].startswith("\ufeff")),
    st.sampled_from(["g.tsv", "g.tsv.gz", "g.csv", "g.csv.zst", "g.parquet"]),
    st.integers(0, 3),
)
def test_a_single_file_is_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    file: str,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("g")
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    frame = pl.DataFrame(rows, schema=["subject", "relation", "object"], orient="row")
    parquet = io.BytesIO()
    frame.write_parquet(parquet, row_group_size=7)
    content = {
        "g.tsv": tsv(rows),
        "g.tsv.gz": gzip.compress(tsv(rows)),
        "g.csv": text.getvalue().encode(),
        "g.csv.zst": zstandard.compress(text.getvalue().encode()),
        "g.parquet": parquet.getvalue(),
    }
    (folder / file).write_bytes(content[file])
    with crossing():
        check(folder / file, folder / "out", seed=seed)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(triples, min_size=1, max_size=30),
    st.lists(triples, min_size=1, max_size=15),
    st.lists(triples, min_size=1, max_size=15),
    st.integers(0, 15),
)
def test_splits_that_share_triples_are_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory,
    train: list[tuple[str, str, str]],
    valid: list[tuple[str, str, str]],
    test: list[tuple[str, str, str]],
    shared: int,
) -> None:
    folder = tmp_path_factory.mktemp("g")
    plain = {"train": train, "valid": valid + train[:shared], "test": test + valid[:shared]}
    for rows in plain.values():
        rows.insert(0, ("first", "r", "second"))
    write_folder(folder, **plain)
    with crossing():
        check(folder, folder / "out")


pieces = st.lists(
    st.sampled_from(
        [
            *(b"a", b"b", b" ", b"\t", b",", b"\n", b"\r\n", b'"', b"\xc3\xa9", b"\xef\xbb\xbf"),
            *(b"a\tr\tb\n", b"b,r,a\n", b'"a\nb",r,c\n', b"subject\trelation\tobject\n", b"\xff"),
        ]
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(pieces, st.sampled_from(["g.tsv", "g.csv"]))
def test_any_bytes_are_the_same_graph_or_refused_by_both(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], file: str
) -> None:
    folder = tmp_path_factory.mktemp("g")
    (folder / file).write_bytes(b"".join(content))
    try:
        expected = load_graph(folder / file)
    except GraphError:
        with crossing(), pytest.raises(GraphError) as caught:
            prepare_graph(folder / file, folder / "out")
        assert str(folder / file) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (folder / "out").exists()
        return
    with crossing():
        assert_equal(prepare_graph(folder / file, folder / "out"), expected)


@pytest.mark.parametrize("file", ["g.tsv", "g.csv.gz", "g.parquet"])
def test_many_triples_cross_real_blocks(tmp_path: Path, file: str) -> None:
    rows = [(f"entity {i % 231}", f"r{i % 7}", f"entity {i * 7 % 31}") for i in range(30_000)]
    frame = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    path = tmp_path / file
    if file == "g.parquet":
        frame.write_parquet(path, row_group_size=5_000)
    else:
        text = frame.write_csv(separator="\t" if file == "g.tsv" else ",").encode()
        path.write_bytes(text if file == "g.tsv" else gzip.compress(text))
    plan = Plan(room=1 << 30, batch=100_000, parts=4, rows=3_000)
    with patch.object(Plan, "of", lambda *_: plan), patch.object(streaming, "PIECE", 10_000):
        made = check(path, tmp_path / "out", seed=2)
    assert made.counts["duplicates_train"] > 0


def test_paths_are_no_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "a[1] b=c"
    folder.mkdir()
    (folder / "g{x}*.tsv").write_bytes(tsv(TRAIN))
    frame = pl.DataFrame(TRAIN, schema=list("spo"), orient="row")
    frame.write_parquet(folder / "g[1].parquet")
    check(folder / "g{x}*.tsv", folder / "out*?[2]")
    check(folder / "g[1].parquet", folder / "out{3}")


def test_a_line_end_between_quotes_ends_no_block() -> None:
    text = b'a,"r\n",b\n"x\n\n"",",r,c\nlast,"r\nb'
    with patch.object(streaming, "PIECE", 4):
        pieces = [text[n : n + 4] for n in range(0, len(text), 4)]
        found = list(streaming._blocks(Path("g.csv"), pieces, 1, quoted=True))
    assert found == [b'a,"r\n",b\n', b'"x\n\n"",",r,c\n', b'last,"r\nb']


def test_labels_come_along(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, train=TRAIN, valid=VALID, test=TEST)
    labels = tmp_path / "labels.tsv"
    labels.write_text("a\tFirst\nr\tlikes\nnobody\tNobody\nnewer\tNew\n")
    with crossing():
        made = check(folder, tmp_path / "out")
        assert made.counts == {"labels_unused": 1}
        labels.write_text("nobody\tNobody\n")
        check(folder, tmp_path / "unlabelled")
        other = tmp_path / "other.csv"
        other.write_text("b,Second\n")
        check(folder, tmp_path / "others", labels=other)
    again = load_graph(tmp_path / "out", labels=other)
    assert [again.entities.label(i) for i in range(3)] == ["First", "Second", "c"]
    assert again.answers("object") is not None


def test_other_sources_are_loaded_whole(tmp_path: Path) -> None:
    check("families", tmp_path / "families", seed=1)
    (tmp_path / "g.ttl").write_text(RDF)
    check(tmp_path / "g.ttl", tmp_path / "rdf", language="de")
    made = check({"train": TRAIN, "test": TEST}, tmp_path / "rows")
    assert made.valid.shape == (0, 3)
    (tmp_path / "zipped.tsv").write_bytes(gzip.compress(tsv(TRAIN)))  # without the ending
    check(tmp_path / "zipped.tsv", tmp_path / "zipped")
    check(tmp_path / "families", tmp_path / "again")
    assert not streaming.can_stream(tmp_path / "none.tsv")


def test_bad_names_are_named_with_their_line(tmp_path: Path) -> None:
    for name, fault in ((" ", "blank"), ("x\0", "NUL"), ("y" * 100_001, "100001")):
        folder = tmp_path / fault
        folder.mkdir()
        write_folder(folder, train=TRAIN, valid=[*VALID, ("a", name, "b")])
        with crossing(), pytest.raises(GraphError, match=r"valid.tsv, line 3: the relation") as e:
            prepare_graph(folder, tmp_path / "out")
        assert fault in str(e.value)
        frame = pl.DataFrame([*TRAIN, ("a", name, "b")], schema=list("spo"), orient="row")
        frame.write_parquet(folder / "g.parquet")
        with crossing(), pytest.raises(GraphError, match=r"g.parquet, row 4: the relation"):
            prepare_graph(folder / "g.parquet", tmp_path / "out")
    frame = pl.DataFrame({"s": ["a"] * 5, "p": ["r"] * 4 + [None], "o": ["b"] * 5})
    frame.write_parquet(tmp_path / "g.parquet")
    with crossing(), pytest.raises(GraphError, match=r"g.parquet, row 5: the relation is blank"):
        prepare_graph(tmp_path / "g.parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["g.tsv.gz", "g.tsv.zst", "g.parquet"])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, file: str) -> None:
    rows = tsv([(f"e{i * 7919 % 1009}", "r", f"e{i}") for i in range(3000)])
    parquet = io.BytesIO()
    pl.read_csv(rows, separator="\t", has_header=False).write_parquet(parquet)
    content = {
        "g.tsv.gz": gzip.compress(rows),
        "g.tsv.zst": zstandard.compress(rows),
        "g.parquet": parquet.getvalue(),
    }[file]
    (tmp_path / file).write_bytes(content[:-20])
    with crossing(), pytest.raises(GraphError, match=f"{file} is not a whole"):
        prepare_graph(tmp_path / file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_memory_or_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.tsv"
    path.write_bytes(tsv(TRAIN))
    with pytest.raises(GraphError, match=r"memory 1MiB are 1 MiB, and preparing a graph needs"):
        prepare_graph(path, tmp_path / "out", memory="1MiB")
    with pytest.raises(RecipeError, match="no limit of memory"):
        prepare_graph(path, tmp_path / "out", memory="plenty")
    with monkeypatch.context() as patched:
        patched.setattr(Plan, "of", lambda *_: SMALL._replace(room=100))
        with pytest.raises(GraphError, match=r"g.tsv has 3 triples, .*allow more memory"):
            prepare_graph(path, tmp_path / "out")
    with monkeypatch.context() as patched:
        usage = type("usage", (), {"free": 200})
        patched.setattr("shutil.disk_usage", lambda _: usage)
        with pytest.raises(GraphError, match=r"its disk has 0.0 GiB left; choose another folder"):
            prepare_graph(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_up_is_told_and_left_clean(tmp_path: Path) -> None:
    """The limit on the size of a file stands in for a full disk."""
    rows = [(f"entity {i}", "r", f"entity {i // 2}") for i in range(40_000)]
    (tmp_path / "g.tsv").write_bytes(tsv(rows))
    for limit in (100_000, 700_000):
        code = f"""
import resource
from reltucker.graph import prepare_graph
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
prepare_graph({str(tmp_path / "g.tsv")!r}, {str(tmp_path / "out")!r})
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "reltucker.errors.GraphError" in done.stderr
        assert "cannot be written" in done.stderr.splitlines()[-1]
        assert not (tmp_path / "out").exists()


KILLED = """
import sys
from pathlib import Path
from reltucker.graph import prepare_graph, preparing, prepared
def stop(*_, **__):
    print("here", flush=True)
    sys.stdin.read()
setattr(*{target}, stop)
prepare_graph(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize(
    "target",
    [
        '(preparing._Writer, "_write_ids")',
        '(preparing._Writer, "_write_indexes")',
        '(preparing, "write_manifest")',
        '(prepared, "write_json")',
    ],
)
def test_what_was_killed_is_not_taken_for_a_graph(tmp_path: Path, target: str) -> None:
    source = write_folder(tmp_path, train=TRAIN, valid=VALID, test=TEST)
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED.format(target=target), str(source), str(out)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
    assert not (out / MANIFEST).exists()
    assert (out / MARK).exists()
    with pytest.raises(GraphError, match=r"whose preparation did not end; run `reltucker data"):
        load_graph(out)
    with warnings.catch_warnings():
        check(source, out)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process alone")
def test_memory_stays_below_the_limit(tmp_path: Path) -> None:
    """A folder of 600,000 triples with long names, in the least memory; loaded whole it is more."""
    rng = np.random.default_rng(0)
    ends = rng.integers(200_000, size=(600_000, 2))
    frame = pl.DataFrame({"s": ends[:, 0], "o": ends[:, 1]}).select(
        pl.format("http://example.org/a/long/name/of/an/entity/{}{}", pl.lit("x" * 200), "s"),
        pl.lit("r").alias("r"),
        pl.format("http://example.org/a/long/name/of/an/entity/{}{}", pl.lit("x" * 200), "o").alias(
            "o"
        ),
    )
    (tmp_path / "graph").mkdir()
    frame.write_csv(tmp_path / "graph" / "train.tsv", separator="\t", include_header=False)
    del frame
    code = """
import sys
from pathlib import Path
from reltucker.graph import load_graph, prepare_graph
graph = prepare_graph(*map(Path, sys.argv[1:]), memory="384MiB") if sys.argv[2:] else load_graph(
    Path(sys.argv[1])
)
status = Path("/proc/self/status").read_text()
print(len(graph.entities), status.partition("VmHWM:")[2].split()[0])
"""
    figures = []
    for out in ([], [str(tmp_path / "out")]):
        command = [sys.executable, "-c", code, str(tmp_path / "graph"), *out]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures.append([int(figure) for figure in done.stdout.split()])
    (entities, whole), (same, streamed) = figures
    assert entities == same
    assert streamed <= 384 << 10 < whole
