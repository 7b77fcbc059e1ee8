"""A table is described once and shown on a terminal, on a page, in Markdown, CSV or LaTeX."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import jinja2
import rich.box
import rich.console
import rich.table
import rich.text
from markupsafe import Markup

Align = Literal["left", "right", "center"]
Value = str | int | float | bool | None

TEXT = ""
PERCENT = ".1%"
MISSING = "–"
CELL_CHARACTERS = 90
HINT_CHARACTERS = 2_000

# XML 1.0 (so SVG) cannot write these, and those from \x7f to \x9f steer a terminal.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = re.compile(r"\s+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&$!])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    # After the \\ that ends a row these would be read as its arguments.
    **{character: f"{{{character}}}" for character in "[]*"},
    # Two of them would become a curly quote.
    **{character: f"{character}{{}}" for character in "`'"},
    "–": r"\textendash{}",
    "…": r"\ldots{}",
}

_RULES = ("toprule", "midrule", "bottomrule")

_HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<table>
<thead><tr>
{% for column in columns %}
<th scope="col" class="{{ column.side }}">{{ printable(column.header) }}</th>
{% endfor %}
</tr></thead>
<tbody>
{% for row in rows %}
<tr>
{% for cell in row %}
<td class="{{ cell.side }}{{ ' best' if cell.best }}" dir="auto"
{%- if cell.hint %} title="{{ cell.hint }}"{% endif %}>{{ cell.text }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
"""
)


def printable(text: str) -> str:
    """`text` with every character that XML, HTML or UTF-8 cannot carry replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def shorten(text: str, limit: int) -> str:
    """`text` cut in its middle to `limit` characters: names often differ only at their ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return text[: limit - 1 - tail] + "…" + text[len(text) - tail :]


@dataclass(frozen=True)
class Column:
    """One column: `key` finds its value in a row, `format` is a Python format specification.

    Formats are for instance ".3f", ",d", PERCENT or TEXT. Numbers stand right unless `align` says
    otherwise. `best` marks the largest or smallest number of the column. With `interval` a row also
    has the ends of an interval around the value, `KEY_low` and `KEY_high`: "0.284 [0.279, 0.289]".
    """

    header: str
    key: str
    format: str = TEXT
    align: Align | None = None
    best: Literal["max", "min"] | None = None
    interval: bool = False

    @property
    def side(self) -> Align:
        """Where the cells stand."""
        return self.align or ("left" if self.format == TEXT else "right")

    def show(self, value: Value) -> str:
        """The text of one cell, on one line."""
        if value is None:
            return MISSING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) or self.format == TEXT:
            return _SPACES.sub(" ", printable(str(value)))
        if not math.isfinite(value):
            return str(value)
        return format(round(value) if self.format.endswith("d") else value, self.format)

    def show_interval(self, row: Mapping[str, Value]) -> str:
        """What follows the value: its interval, where the column and the row have one."""
        low, high = (row.get(f"{self.key}_{end}") for end in ("low", "high"))
        if not self.interval or low is None or high is None:
            return ""
        return f" [{self.show(low)}, {self.show(high)}]"


@dataclass(frozen=True)
class _Cell:
    text: str
    side: Align
    best: bool
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A title, columns, and rows of plain values by column key; a missing key is an empty cell."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Value]]

    def cells(self) -> list[list[tuple[str, bool]]]:
        """For each row the text of its cells, and whether the cell is the best of its column."""
        shown = [[column.show(row.get(column.key)) for column in self.columns] for row in self.rows]
        # The shown text decides, so that two models which print alike are both best.
        best = [self._best(column) for column in self.columns]
        return [
            [
                (text + column.show_interval(row), text == top)
                for column, text, top in zip(self.columns, texts, best, strict=True)
            ]
            for row, texts in zip(self.rows, shown, strict=True)
        ]

    def _best(self, column: Column) -> str | None:
        values = [
            value
            for value in (row.get(column.key) for row in self.rows)
            if isinstance(value, int | float) and math.isfinite(value)
        ]
        if column.best is None or len(values) < 2:
            return None
        return column.show(max(values) if column.best == "max" else min(values))

    def to_rich(self) -> rich.console.Group:
        """For the terminal: the title on a line of its own, since a table's wraps at its width."""
        title = [rich.text.Text(_one_line(self.title), style="bold")] if self.title else []
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            # Where the screen is narrow, texts wrap and numbers stay whole.
            table.add_column(
                rich.text.Text(_one_line(column.header)),
                justify=column.side,
                no_wrap=column.format != TEXT and not column.interval,
                overflow="fold",
            )
        for row in self.cells():
            # Text objects, so that a name such as "[red]" is not taken for markup.
            table.add_row(
                *(
                    # An interval may go to the next line, but not be broken in two.
                    rich.text.Text(
                        text.replace(", ", ",") if column.interval else text,
                        style="bold" if best else "",
                    )
                    for column, (text, best) in zip(self.columns, row, strict=True)
                )
            )
        return rich.console.Group(*title, table)

    def to_html(self) -> Markup:
        """A <table> for a page; long cells are shortened, and their text is shown on hovering."""
        rows = [
            [
                _Cell(
                    text=shorten(text, CELL_CHARACTERS),
                    side=column.side,
                    best=best,
                    hint=shorten(text, HINT_CHARACTERS) if len(text) > CELL_CHARACTERS else "",
                )
                for column, (text, best) in zip(self.columns, row, strict=True)
            ]
            for row in self.cells()
        ]
        return Markup(_HTML.render(columns=self.columns, rows=rows, printable=printable))

    def to_markdown(self) -> str:
        """A pipe table with the title above it."""
        rules = {"left": ":--", "right": "--:", "center": ":-:"}
        lines = [[_markdown(_one_line(column.header)) for column in self.columns]]
        lines += [[rules[column.side] for column in self.columns]]
        lines += [
            [f"**{_markdown(text)}**" if best else _markdown(text) for text, best in row]
            for row in self.cells()
        ]
        title = f"**{_markdown(_one_line(self.title))}**\n\n" if self.title else ""
        return title + "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def to_csv(self) -> str:
        """The values themselves, neither rounded nor shortened: this form is for programs.

        The ends of an interval are columns of their own.
        """
        ends = {
            column: ("", " low", " high") if column.interval else ("",) for column in self.columns
        }
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.header + end for column in self.columns for end in ends[column]])
        writer.writerows(
            [
                row.get(column.key + end.replace(" ", "_"))
                for column in self.columns
                for end in ends[column]
            ]
            for row in self.rows
        )
        return file.getvalue()

    def to_latex(self) -> str:
        """A tabular with the rules of booktabs, or plain lines where that package is not loaded;
        the title is a comment."""
        header = [_latex(_one_line(column.header)) for column in self.columns]
        rows = [
            [f"\\textbf{{{_latex(text)}}}" if best else _latex(text) for text, best in row]
            for row in self.cells()
        ]
        lines = [f"% {_one_line(self.title)}"] if self.title else []
        lines += [f"\\providecommand{{\\{rule}}}{{\\hline}}" for rule in _RULES]
        lines += [f"\\begin{{tabular}}{{{''.join(column.side[0] for column in self.columns)}}}"]
        lines += ["\\toprule", f"{' & '.join(header)} \\\\", "\\midrule"]
        lines += [f"{' & '.join(row)} \\\\" for row in rows]
        lines += ["\\bottomrule", "\\end{tabular}"]
        return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return _SPACES.sub(" ", printable(text))


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)
