import csv
import io
import math
import re
import subprocess
import sys

import pytest
from rich.console import Console

from reltucker.report import Column, Table
from reltucker.report.texts import printable, shorten

COLUMNS = [
    Column("model", "model"),
    Column("MRR", "mrr", ".3f", best="max"),
    Column("rank", "rank", ",d", best="min"),
    Column("share", "share", ".1%"),
]
ROWS = [
    {"model": "SRT", "mrr": 0.35649, "rank": 1234, "share": 0.5},
    {"model": "DRT", "mrr": 0.34, "rank": 99.6},
]


def sample(name: str = "SRT") -> Table:
    return Table("Sample", COLUMNS, [{**ROWS[0], "model": name}, ROWS[1]])


def on_terminal(table: Table, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_markdown_formats_aligns_and_marks_the_best():
    assert sample().to_markdown() == (
        "**Sample**\n\n"
        "| model | MRR | rank | share |\n"
        "| :-- | --: | --: | --: |\n"
        "| SRT | **0.356** | 1,234 | 50.0% |\n"
        "| DRT | 0.340 | **100** | – |\n"
    )


def test_latex_is_a_tabular_that_compiles_with_and_without_booktabs():
    assert sample("a_b").to_latex() == (
        "% Sample\n"
        "\\providecommand{\\toprule}{\\hline}\n"
        "\\providecommand{\\midrule}{\\hline}\n"
        "\\providecommand{\\bottomrule}{\\hline}\n"
        "\\begin{tabular}{lrrr}\n"
        "\\toprule\n"
        "model & MRR & rank & share \\\\\n"
        "\\midrule\n"
        "a\\_b & \\textbf{0.356} & 1,234 & 50.0\\% \\\\\n"
        "DRT & 0.340 & \\textbf{100} & \\textendash{} \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_csv_keeps_the_values_and_reads_back():
    name = 'a,"b"\nc'
    read = list(csv.reader(io.StringIO(sample(name).to_csv())))
    assert read == [
        ["model", "MRR", "rank", "share"],
        [name, "0.35649", "1234", "0.5"],
        ["DRT", "0.34", "99.6", ""],
    ]


def test_intervals_stand_behind_the_value_and_in_columns_of_their_own():
    columns = [Column("model", "model"), Column("MRR", "mrr", ".2f", best="max", interval=True)]
    rows = [
        {"model": "A", "mrr": 0.301, "mrr_low": 0.25, "mrr_high": 0.35},
        {"model": "B", "mrr": 0.2, "mrr_low": 0.1, "mrr_high": 0.3},
        {"model": "C", "mrr": 0.1, "mrr_low": None, "mrr_high": None},
    ]
    table = Table("", columns, rows)
    assert [row[1] for row in table.cells()] == [
        ("0.30 [0.25, 0.35]", True),
        ("0.20 [0.10, 0.30]", False),
        ("0.10", False),
    ]
    assert table.to_csv() == (
        "model,MRR,MRR low,MRR high\nA,0.301,0.25,0.35\nB,0.2,0.1,0.3\nC,0.1,,\n"
    )
    assert r"A & \textbf{0.30 {[}0.25, 0.35{]}} \\" in table.to_latex()
    assert "0.30 [0.25,0.35]" in on_terminal(table)


def test_rich_shows_markup_and_escapes_as_text():
    shown = on_terminal(sample("[red]x[/red] \x1b[31m \x9b31m"))
    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "0.356" in shown


def test_html_escapes_and_aligns():
    html = sample('<b onclick="x">&').to_html()
    assert "&lt;b onclick=&#34;x&#34;&gt;&amp;" in html
    assert "<b " not in html
    assert '<td class="right best" data-head="MRR" dir="auto">0.356</td>' in html
    assert '<th scope="col" class="right">share</th>' in html


def test_html_shortens_long_cells_and_keeps_both_ends():
    html = sample("start" + "x" * 100_000 + "end").to_html()
    assert len(html) < 6_000
    assert 'title="startxxx' in html
    assert ">startxxx" in html
    assert "xxxend</td>" in html


@pytest.mark.parametrize(
    ("name", "markdown", "latex"),
    [
        ("a|b", r"a\|b", r"a\textbar{}b"),
        ("two\nlines", "two lines", "two lines"),
        ("<i>", r"\<i\>", r"\textless{}i\textgreater{}"),
        ("\\x{}", r"\\x\{\}", r"\textbackslash{}x\{\}"),
        ("[1]*", r"\[1\]\*", "{[}1{]}{*}"),
        ("a--b", "a--b", "a-{}-b"),
        ("50%$&#_^~", r"50%\$\&\#\_^\~", r"50\%\$\&\#\_\textasciicircum{}\textasciitilde{}"),
    ],
)
def test_names_are_escaped(name: str, markdown: str, latex: str):
    assert f"| {markdown} |" in sample(name).to_markdown()
    assert f"\n{latex} & " in sample(name).to_latex()


def test_the_best_needs_a_rival_and_ties_share_it():
    column = Column("MRR", "mrr", ".3f", best="max")
    alone = Table("", [column], [{"mrr": 0.5}, {"mrr": None}, {"mrr": math.nan}])
    assert alone.cells() == [[("0.500", False)], [("–", False)], [("nan", False)]]
    tied = Table("", [column], [{"mrr": 0.50001}, {"mrr": 0.5}, {"mrr": 0.4}])
    assert [row[0][1] for row in tied.cells()] == [True, True, False]


def test_values_that_do_not_fit_the_format_are_still_shown():
    column = Column("n", "n", ",d")
    assert [column.show(value) for value in (True, "n/a", math.inf, 2.5e6)] == [
        "yes",
        "n/a",
        "inf",
        "2,500,000",
    ]


def test_a_table_without_rows_renders():
    empty = Table("", COLUMNS, [])
    assert empty.to_markdown().count("\n") == 2
    assert "<tbody>" in empty.to_html()
    assert "\\end{tabular}" in empty.to_latex()
    assert "MRR" in on_terminal(empty)


def test_printable_replaces_what_xml_cannot_carry():
    assert printable("a\x00\x0b\ud800\uffff\x1b") == "a" + "\ufffd" * 5
    assert printable("a\u202eb\u2066\u200f") == "a\ufffdb\ufffd\ufffd"
    kept = "tab\t line\n é 漢 😀"
    assert printable(kept) == kept


def test_shorten_cuts_the_middle_to_the_limit():
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcde…hijk"
    assert [len(shorten("x" * 50, limit)) for limit in (1, 2, 7)] == [1, 2, 7]


def test_tables_wait_for_nothing_heavy_and_the_room_knows_no_models():
    """`reltucker predict` prints a table and should not wait for Altair."""
    code = (
        "import sys, reltucker.report; assert 'altair' not in sys.modules; "
        "import reltucker.report.page, reltucker.report.matrices; "
        "known = {name for name in sys.modules if name.startswith('reltucker.')}; "
        "rooms = {name.split('.')[1] for name in known}; "
        "assert rooms == {'atomic', 'errors', 'report'}, rooms"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


WIDE = Table(
    "Fits",
    [
        Column("model", "model"),
        Column("d_r", "size", ",d", spare=2),
        Column("MRR", "mrr", ".4f", interval=True),
        Column("HITS, all", "hits", ".4f", spare=1),
        Column("run", "run"),
    ],
    [
        {
            "model": "ComplEx, reciprocal",
            "size": 1_234_567,
            "mrr": 0.6733,
            "mrr_low": 0.6611,
            "mrr_high": 0.6855,
            "hits": 0.8125,
            "run": "runs/a-very-long-name-of-a-run",
        }
    ],
)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (120, None),
        (70, None),
        (55, "left out: intervals"),
        (45, "left out: d_r; intervals"),
        (36, "left out: d_r; HITS, all; intervals"),
        (20, "left out: d_r; HITS, all; run; intervals"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns_and_no_number_cut(
    width: int, left_out: str | None
) -> None:
    text = on_terminal(WIDE, width)
    assert max(map(len, text.splitlines())) <= width
    said = " ".join(text.split()).partition("left out: ")
    assert (said[1] + said[2].partition(" (")[0] or None) == left_out
    numbers = {"d_r": "1,234,567", "HITS, all": "0.8125", "intervals": "[0.6611,0.6855]"}
    missing = said[2].partition(" (")[0].split("; ")
    shown = [number for name, number in numbers.items() if name not in missing]
    assert all(number in text.split() for number in ["0.6733", *shown])
    assert [word for word in ("ComplEx,", "reciprocal") if word in text.split()]


def test_a_wide_terminal_has_one_line_for_a_row() -> None:
    assert "ComplEx, reciprocal  1,234,567  0.6733 [0.6611,0.6855]" in on_terminal(WIDE)
    assert "left out" not in on_terminal(WIDE)


HOSTILE = {
    "ansi": "\x1b[31mred\x1b]0;title\x07",
    "bidi": "user\u202etxt.exe\u2066",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "formula": '=HYPERLINK("http://x","y")',
    "latex": "\\input{/etc/passwd} 100% $x_1^2$ & #~",
    "lines": "a\nb\r\nc",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_do_no_harm_in_any_output(name: str) -> None:
    table = Table(name, [Column(name, "n")], [{"n": name}])
    screen = Console(file=io.StringIO(), width=200, force_terminal=True)
    screen.print(table)
    assert isinstance(screen.file, io.StringIO)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.file.getvalue().replace("\x1b[31m", "RED"))
    for text in (shown, table.to_html(), table.to_latex(), table.to_markdown()):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|RED", text)
    assert "<script" not in table.to_html()
    assert "<img" not in table.to_html()
    for text in ("\\input", "100% ", " $x", " & "):
        assert text not in table.to_latex().partition("\n")[2]
    (row,) = list(csv.reader(io.StringIO(table.to_csv())))[1:]
    assert row[0].lstrip("'") == name
    assert not row[0].startswith(("=", "+", "-", "@"))
