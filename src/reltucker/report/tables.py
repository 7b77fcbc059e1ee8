"""A table is described once and shown on a terminal, on a page, in Markdown, CSV or LaTeX."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import rich.box
import rich.console
import rich.table
import rich.text
from markupsafe import Markup
from rich.cells import cell_len

from reltucker.report.texts import TEMPLATES, one_line, spreadsheet

Value = str | int | float | bool | None

TEXT = ""
MISSING = "–"
GAP = 2
"""Characters between two columns of a terminal."""

SHORTEST_NAME = 12
"""A longer word is broken where the terminal is narrow, rather than that a column is left out."""


@dataclass(frozen=True)
class Column:
    """One column: `key` finds its value in a row, `format` is a Python format specification.

    Formats are for instance ".3f", ",d", ".1%" or TEXT. `best` marks the largest or smallest
    number of the column. With `interval` a row also has the ends of an interval around the value,
    `KEY_low` and `KEY_high`: "0.284 [0.279, 0.289]". Where a terminal is too narrow for all, the
    columns with the highest `spare` are left out first.
    """

    header: str
    key: str
    format: str = TEXT
    best: Literal["max", "min"] | None = None
    interval: bool = False
    spare: int = 0

    @property
    def side(self) -> Literal["left", "right"]:
        """Where the cells stand: numbers on the right."""
        return "left" if self.format == TEXT else "right"

    def show(self, value: Value) -> str:
        """The text of one cell, on one line."""
        if value is None:
            return MISSING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) or self.format == TEXT:
            return one_line(str(value))
        if not math.isfinite(value):
            return str(value)
        return format(round(value) if self.format.endswith("d") else value, self.format)


@dataclass(frozen=True)
class Table:
    """A title, columns, and rows of plain values by column key; a missing key is an empty cell."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Value]]

    def cells(self) -> list[list[tuple[str, bool]]]:
        """For each row the text of its cells, and whether the cell is the best of its column."""
        return [list(row) for row in zip(*map(self._cells_of, self.columns), strict=True)]

    def _cells_of(self, column: Column) -> list[tuple[str, bool]]:
        values = [row.get(column.key) for row in self.rows]
        numbers = [v for v in values if isinstance(v, int | float) and math.isfinite(v)]
        best = None
        if column.best is not None and len(numbers) > 1:
            best = column.show(max(numbers) if column.best == "max" else min(numbers))
        cells = []
        for row, value in zip(self.rows, values, strict=True):
            shown, interval = column.show(value), ""
            low, high = (row.get(f"{column.key}_{end}") for end in ("low", "high"))
            if column.interval and low is not None and high is not None:
                interval = f" [{column.show(low)}, {column.show(high)}]"
            # The shown text decides, so that two models which print alike are both best.
            cells.append((shown + interval, shown == best))
        return cells

    def __rich_console__(
        self, console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> Iterator[rich.console.RenderableType]:
        """For the terminal: the title on a line of its own, the columns that there is room for, and
        which there was none for. Texts wrap, and intervals go to a second line; no number is cut.
        """
        if self.title:
            yield rich.text.Text(one_line(self.title), style="bold")
        shown = self._narrowed(options.max_width)
        table = rich.table.Table(
            box=rich.box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0)
        )
        for column, width in zip(shown.columns, shown._widths(options.max_width), strict=True):
            header = rich.text.Text(one_line(column.header))
            table.add_column(header, justify=column.side, width=width, overflow="fold")
        for row in shown._terminal_cells():
            # Text objects, so that a name such as "[red]" is not taken for markup.
            table.add_row(*(rich.text.Text(text, "bold" if best else "") for text, best in row))
        yield table
        kept = {column.key for column in shown.columns}
        left_out = [one_line(column.header) for column in self.columns if column.key not in kept]
        if _has_intervals(self.columns) and not _has_intervals(shown.columns):
            left_out.append("intervals")
        if left_out:
            told = f"left out: {'; '.join(left_out)} (a wider window or a pipe has all)"
            yield rich.text.Text(told, style="dim")

    def _narrowed(self, width: int) -> "Table":
        """As much of the table as the width has room for: intervals go first, then one column after
        the other, but never the first one."""
        columns = list(self.columns)
        shown = replace(self, columns=columns)
        if shown._least_width() > width and _has_intervals(columns):
            columns = [replace(column, interval=False) for column in columns]
            shown = replace(self, columns=columns)
        while shown._least_width() > width and len(columns) > 1:
            last = max(range(1, len(columns)), key=lambda place: (columns[place].spare, place))
            columns = columns[:last] + columns[last + 1 :]
            shown = replace(self, columns=columns)
        return shown

    def _terminal_cells(self) -> list[list[tuple[str, bool]]]:
        """An interval may go to the next line, but not be broken in two."""
        return [
            [
                (text.replace(", ", ",") if column.interval else text, best)
                for column, (text, best) in zip(self.columns, row, strict=True)
            ]
            for row in self.cells()
        ]

    def _spans(self) -> list[tuple[int, int]]:
        """How narrow and how wide each column can be."""
        rows, spans = self._terminal_cells(), []
        for place, column in enumerate(self.columns):
            every = [one_line(column.header), *(row[place][0] for row in rows)]
            least = max((cell_len(word) for text in every for word in text.split()), default=1)
            if column.format == TEXT:
                least = min(least, SHORTEST_NAME)
            spans.append((least, max(map(cell_len, every))))
        return spans

    def _least_width(self) -> int:
        return GAP * len(self.columns) + sum(least for least, _ in self._spans())

    def _widths(self, limit: int) -> list[int]:
        """The width of each column: as wide as it can be, the widest ones less where all together
        are wider than the limit."""
        spans = self._spans()
        widths = [max(1, most) for _, most in spans]
        while GAP * len(widths) + sum(widths) > limit:
            slack = [i for i, (least, _) in enumerate(spans) if widths[i] > max(1, least)]
            if not slack:
                break
            widths[max(slack, key=lambda i: widths[i])] -= 1
        return widths

    def to_html(self) -> Markup:
        """A <table> for a page; long cells are shortened, and their text is shown on hovering."""
        return Markup(self._fill("table.html"))

    def to_markdown(self) -> str:
        """A pipe table with the title above it."""
        return self._fill("table.md")

    def to_latex(self) -> str:
        """A tabular with the rules of booktabs, or plain lines where that package is not loaded;
        the title is a comment."""
        return self._fill("table.tex")

    def to_csv(self) -> str:
        """The values themselves, neither rounded nor shortened, but for texts that a spreadsheet
        would run as formulas.

        The ends of an interval are columns of their own.
        """
        fields = [
            (column.header + end.replace("_", " "), column.key + end)
            for column in self.columns
            for end in (("", "_low", "_high") if column.interval else ("",))
        ]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([header for header, _ in fields])
        writer.writerows([spreadsheet(row.get(key)) for _, key in fields] for row in self.rows)
        return file.getvalue()

    def _fill(self, template: str) -> str:
        headers = [{"header": one_line(c.header), "side": c.side} for c in self.columns]
        return TEMPLATES.get_template(template).render(
            title=one_line(self.title), columns=headers, rows=self.cells()
        )


def _has_intervals(columns: Sequence[Column]) -> bool:
    return any(column.interval for column in columns)
