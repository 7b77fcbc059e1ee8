"""Tables of names: what is read, and which line an error names."""

import csv
import gzip
import io
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import GraphError
from reltucker.graph import tables
from reltucker.graph.sources import read_file
from reltucker.graph.streaming import read_table
from reltucker.graph.tables import TRIPLES, Layout, Reading, from_frame

GOOD = b"a\tr\tb\nc\tr\td\n"


def is_usable(name: str) -> bool:
    return bool(pl.Series([name]).str.strip_chars()[0])


names = st.text(
    st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]), min_size=1, max_size=12
).filter(is_usable)
rows_of_names = st.lists(st.tuples(names, names, names), min_size=1, max_size=20).filter(
    # A byte order mark in front belongs to the file, and a first row of column names is a header.
    lambda rows: not rows[0][0].startswith("\ufeff") and rows[0][1].lower() != "relation"
)


def read(folder: Path, content: bytes, name: str = "train.tsv") -> list[tuple[str, ...]]:
    path = folder / name
    path.write_bytes(content)
    return read_file(path).frame.rows()


def failure(folder: Path, content: bytes, name: str = "train.tsv") -> str:
    with pytest.raises(GraphError) as caught:
        read(folder, content, name)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder / name) in message
    return message


@settings(deadline=None)
@given(rows_of_names, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_any_names_come_back_from_tsv(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    end: str,
    with_mark: bool,
    last_end: bool,
) -> None:
    text = end.join("\t".join(row) for row in rows) + (end if last_end else "")
    content = (b"\xef\xbb\xbf" if with_mark else b"") + text.encode()
    assert read(tmp_path_factory.mktemp("t"), content) == rows


any_names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[any_names.filter(is_usable)] * 3), min_size=1, max_size=20).filter(
        lambda rows: not rows[0][0].startswith("\ufeff") and rows[0][1].lower() != "relation"
    )
)
def test_any_names_come_back_from_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    content = text.getvalue().encode()
    assert read(tmp_path_factory.mktemp("t"), content, "train.csv") == rows


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([b"a", b"b", b" ", b"\t", b"\n", b"\r\n", b'"', b"\xc3\xa9"])))
def test_bulk_reading_agrees_with_the_careful_pass(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    content, path = b"".join(pieces), tmp_path_factory.mktemp("t") / "train.tsv"
    layout = Layout(3, (0, 1, 2), has_header=False)
    bulk = tables.parse_in_bulk(content, TRIPLES, layout, quoted=False)
    if bulk is None or bulk.select(tables.bad_names(pl.all()).any()).transpose()["column_0"].any():
        return
    lines = content.splitlines(keepends=True)
    careful = tables.careful_batches(lines, path, TRIPLES, layout, quoted=False)
    assert bulk.rows() == pl.concat(careful).rows()


@pytest.mark.parametrize("header", [b"subject\trelation\tobject\n", b"Head\tRELATION\tTail\r\n"])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n \n"])
def test_a_header_is_skipped_only_as_the_first_line(
    tmp_path: Path, header: bytes, before: bytes
) -> None:
    assert read(tmp_path, before + header + GOOD) == [("a", "r", "b"), ("c", "r", "d")]
    assert len(read(tmp_path, GOOD + header)) == 3


def test_only_the_full_header_is_skipped(tmp_path: Path) -> None:
    assert len(read(tmp_path, b"subject\trelation\tb\n")) == 1


@pytest.mark.parametrize(
    "content",
    [b"\n\na\tr\tb\nc\tr\td", b"a\tr\tb\n\n  \nc\tr\td\n\n", b"a\tr\tb\r\n\r\nc\tr\td\r\n"],
)
def test_blank_lines_are_ignored(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == [("a", "r", "b"), ("c", "r", "d")]


def test_quotes_are_ordinary_characters_in_tsv(tmp_path: Path) -> None:
    assert read(tmp_path, b'"a\tr""\tb"c\n') == [('"a', 'r""', 'b"c')]


def test_spaces_around_a_name_are_kept(tmp_path: Path) -> None:
    assert read(tmp_path, b" a \tr \t b\n") == [(" a ", "r ", " b")]


def test_a_stray_quote_in_csv_is_kept(tmp_path: Path) -> None:
    assert read(tmp_path, b'a,r,5" disk\nc,r,d\n', "t.csv")[0][2] == '5" disk'


@pytest.mark.parametrize(("line", "found"), [(b"a\tr\n", 2), (b"a\tr\tb\tc\n", 4), (b"a\n", 1)])
@pytest.mark.parametrize("lines_before", [0, 1, 3])
def test_a_wrong_column_count_names_line_and_count(
    tmp_path: Path, line: bytes, found: int, lines_before: int
) -> None:
    message = failure(tmp_path, b"x\ty\tz\n" * lines_before + line + GOOD)
    assert f"line {lines_before + 1}: {found} columns" in message


def test_a_trailing_tab_is_a_fourth_column(tmp_path: Path) -> None:
    assert "line 2: 4 columns" in failure(tmp_path, b"a\tr\tb\nc\tr\td\t\n")


def test_a_comma_separated_line_needs_three_columns(tmp_path: Path) -> None:
    assert "line 3: 2 columns" in failure(tmp_path, b'a,r,"x\ny"\nc,d\n', "train.csv")


def test_broken_encoding_names_the_line(tmp_path: Path) -> None:
    assert "line 3: the text is not UTF-8" in failure(tmp_path, GOOD + b"\xff\tr\tb\n")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"  \r\n", b"subject\trelation\tobject\n"])
def test_an_empty_file_is_called_empty(tmp_path: Path, content: bytes) -> None:
    assert "is empty" in failure(tmp_path, content)


@pytest.mark.parametrize(
    ("line", "column"),
    [(b"\tr\tb", "subject"), (b"a\t\tb", "relation"), (b"a\tr\t", "object"), (b"\t\t", "subject")],
)
def test_an_empty_name_names_line_and_column(tmp_path: Path, line: bytes, column: str) -> None:
    message = failure(tmp_path, b"\n" + GOOD + line + b"\n")
    assert f"line 4: the {column} is blank" in message


@pytest.mark.parametrize(
    ("name", "fault"), [("  \u2003", "blank"), ("a\0b", "NUL"), ("x" * 100_001, "100001 char")]
)
def test_examining_finds_the_line_of_a_bad_name(tmp_path: Path, name: str, fault: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(GOOD + f"a\tr\t{name}\n".encode())
    table = read_table(path)
    with pytest.raises(GraphError, match=f"line 3: the object .*{fault}") as caught:
        table.examine()
    assert len(str(caught.value)) < 500


def test_a_name_of_the_longest_length_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(b"x" * 100_000 + b"\tr\tb\n")
    read_table(path).examine()


def test_the_careful_pass_counts_lines_over_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH", 2)
    assert "line 6: the relation is blank" in failure(tmp_path, GOOD * 2 + b"\n" + b"a\t \tb\nx\n")
    assert len(read(tmp_path, GOOD * 3 + b"\n")) == 6


@pytest.mark.parametrize("content", [b'a,r,"b\n', b'a,r,"b"c\n'])
def test_broken_quoting_names_the_line(tmp_path: Path, content: bytes) -> None:
    assert "line 2: the line is not CSV" in failure(tmp_path, b"a,r,b\n" + content, "train.csv")


def compressed(suffix: str, content: bytes) -> bytes:
    return gzip.compress(content) if suffix == ".gz" else zstandard.compress(content)


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".zstd"])
def test_compressed_text_is_read(tmp_path: Path, suffix: str) -> None:
    name = f"train.tsv{suffix}"
    assert read(tmp_path, compressed(suffix, GOOD), name) == [("a", "r", "b"), ("c", "r", "d")]
    two_parts = compressed(suffix, GOOD) + compressed(suffix, b"e\tr\tf\n")
    assert len(read(tmp_path, two_parts, name)) == 3


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compression_is_named(tmp_path: Path, suffix: str) -> None:
    whole = compressed(suffix, b"".join(b"a%d\tr\tb\n" % i for i in range(50_000)))
    for content in (whole[: len(whole) // 2], whole[:-4], b"garbage" * 50, GOOD):
        message = failure(tmp_path, content, f"train.tsv{suffix}")
        assert "is not a whole" in message


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_lines_are_named_in_compressed_text(tmp_path: Path, suffix: str) -> None:
    content = compressed(suffix, GOOD + b"a\tb\n")
    assert "line 3: 2 columns" in failure(tmp_path, content, f"train.tsv{suffix}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"none\.tsv"):
        read_table(tmp_path / "none.tsv")


def test_a_file_name_is_not_a_pattern(tmp_path: Path) -> None:
    assert len(read(tmp_path, GOOD, "tr[ab]*.tsv")) == 2


def parquet(folder: Path, frame: pl.DataFrame) -> Path:
    path = folder / "train.parquet"
    frame.write_parquet(path)
    return path


def test_parquet_integers_become_their_digits(tmp_path: Path) -> None:
    path = parquet(tmp_path, pl.DataFrame({"x": [10, -2], "y": ["r", "s"], "z": [3, 4]}))
    assert read_table(path).frame.rows() == [("10", "r", "3"), ("-2", "s", "4")]


@pytest.mark.parametrize("values", [[1.5], [[1]], [True], [{"a": 1}]])
def test_other_parquet_types_are_refused(tmp_path: Path, values: list[object]) -> None:
    path = parquet(tmp_path, pl.DataFrame({"s": ["a"], "p": ["r"], "o": values}))
    with pytest.raises(GraphError, match=r"train\.parquet, column 'o' holds"):
        read_table(path)


def test_a_null_in_parquet_is_a_blank_name(tmp_path: Path) -> None:
    path = parquet(tmp_path, pl.DataFrame({"s": ["a", "b"], "p": ["r", None], "o": ["c", "d"]}))
    with pytest.raises(GraphError, match=r"train\.parquet, row 2: the relation is blank"):
        read_table(path)


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    path = parquet(tmp_path, pl.DataFrame({"s": ["a"] * 99, "p": ["r"] * 99, "o": ["c"] * 99}))
    whole = path.read_bytes()
    for content in (whole[:-20], whole[:10], b"garbage", b""):
        path.write_bytes(content)
        with pytest.raises(GraphError, match=r"train\.parquet is not a whole Parquet"):
            read_table(path)


def test_empty_parquet_is_called_empty(tmp_path: Path) -> None:
    path = parquet(tmp_path, pl.DataFrame(schema=dict.fromkeys("spo", pl.String)))
    with pytest.raises(GraphError, match="is empty"):
        read_file(path)


@pytest.mark.parametrize("columns", ["subject relation object", "Head Relation Tail", "s p o"])
def test_columns_are_found_by_name(columns: str) -> None:
    s, p, o = columns.split()
    frame = pl.DataFrame({"weight": [0.5], o: ["b"], p: ["r"], s: ["a"]})
    assert from_frame(frame, TRIPLES, "x").frame.rows() == [("a", "r", "b")]


@pytest.mark.parametrize("count", [0, 2, 4])
def test_nameless_columns_must_be_three(count: int) -> None:
    frame = pl.DataFrame({f"c{i}": ["a"] for i in range(count)})
    with pytest.raises(GraphError, match=f"has {count} columns"):
        from_frame(frame, TRIPLES, "the frame")


@pytest.mark.parametrize(
    ("file", "content", "columns"),
    [
        ("a.tsv", b"r\ta\tb\n", "relation,subject,object"),
        ("a.tsv", b"r\ta\tb\tmore\nr\ta\tb\n", "relation,subject,object"),
        ("a.csv", b"weight,who,what,whom\n1,a,r,b\n", "who,what,whom"),
        ("a.csv", b"weight,subject,relation,object\n1,a,r,b\n", "2,3,4"),
        ("a.csv", b'1,a,r,"b"\n,a,r,b\n', "2,3,4"),
        ("a.csv", b"id,Predicate,Source,Target\n1,r,a,b\n", None),
        ("a.tsv", b"r\tt\th\nr\tb\ta\n", None),
    ],
)
def test_columns_are_chosen_by_order_name_number_or_header(
    tmp_path: Path, file: str, content: bytes, columns: str | None
) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    assert set(read_table(path, reading=Reading(columns)).frame.rows()) == {("a", "r", "b")}


def test_columns_of_frames_and_parquet_are_chosen(tmp_path: Path) -> None:
    frame = pl.DataFrame({"what": ["r"], "who": ["a"], "whom": ["b"]})
    frame.write_parquet(tmp_path / "a.parquet")
    for columns in ("who,what,whom", "2,1,3", "relation,subject,object"):
        assert from_frame(frame, TRIPLES, "x", order=columns).frame.rows() == [("a", "r", "b")]
        table = read_table(tmp_path / "a.parquet", reading=Reading(columns))
        assert table.frame.rows() == [("a", "r", "b")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("who,what", r"--columns who,what: 2 columns are named where 3 are needed"),
        ("1,2,9", r"a.tsv has no column '9'; its first row is a, r, b"),
        ("who,what,whom", r"a.tsv has no column 'who'"),
    ],
)
def test_columns_that_are_not_there_are_told(tmp_path: Path, columns: str, message: str) -> None:
    (tmp_path / "a.tsv").write_bytes(GOOD)
    with pytest.raises(GraphError, match=message):
        read_table(tmp_path / "a.tsv", reading=Reading(columns))


@pytest.mark.parametrize("suffix", [".gz", ".zst", ""])
def test_what_unpacks_to_too_much_is_refused_with_the_limit(tmp_path: Path, suffix: str) -> None:
    content = b"a\tr\tb\n" * 300_000
    path = tmp_path / f"bomb.tsv{suffix}"
    path.write_bytes(compressed(suffix, content) if suffix else gzip.compress(content))
    with pytest.raises(GraphError, match=r"more than 0.0 GiB.*\(20MB\).*raise --max-memory"):
        read_table(path, reading=Reading(max_memory="20MB"))
    assert len(read_table(path, reading=Reading(max_memory="40MB")).frame) == 300_000


def test_rows_of_parquet_are_counted_before_they_are_read(tmp_path: Path) -> None:
    frame = pl.DataFrame({"s": ["a"], "p": ["r"], "o": ["b"]})
    pl.concat([frame] * 10, rechunk=True).select(
        pl.all().repeat_by(50_000).explode()
    ).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(GraphError, match="raise --max-memory"):
        read_table(tmp_path / "a.parquet", reading=Reading(max_memory="40MB"))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_line_that_does_not_end_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reltucker.graph.streaming.LONGEST_LINE", 1 << 20)
    path = tmp_path / f"zeros.tsv{suffix}"
    path.write_bytes(compressed(suffix, bytes(5 << 20)))
    with pytest.raises(GraphError, match=r"a line of more than 1 MiB"):
        read_table(path)
