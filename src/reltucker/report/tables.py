"""A table is described once and shown on a terminal, on a page, in Markdown, CSV or LaTeX."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import rich.box
import rich.console
import rich.table
import rich.text
from markupsafe import Markup

from reltucker.report.texts import TEMPLATES, one_line, spreadsheet

Value = str | int | float | bool | None

TEXT = ""
MISSING = "–"


@dataclass(frozen=True)
class Column:
    """One column: `key` finds its value in a row, `format` is a Python format specification.

    Formats are for instance ".3f", ",d", ".1%" or TEXT. `best` marks the largest or smallest
    number of the column. With `interval` a row also has the ends of an interval around the value,
    `KEY_low` and `KEY_high`: "0.284 [0.279, 0.289]".
    """

    header: str
    key: str
    format: str = TEXT
    best: Literal["max", "min"] | None = None
    interval: bool = False

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

    def to_rich(self) -> rich.console.Group:
        """For the terminal: the title on a line of its own, since a table's wraps at its width."""
        title = [rich.text.Text(one_line(self.title), style="bold")] if self.title else []
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            # Where the screen is narrow, texts wrap and numbers stay whole.
            table.add_column(
                rich.text.Text(one_line(column.header)),
                justify=column.side,
                no_wrap=column.format != TEXT and not column.interval,
                overflow="fold",
            )
        for row in self.cells():
            # Text objects, so that a name such as "[red]" is not taken for markup. An interval may
            # go to the next line, but not be broken in two.
            shown = [
                rich.text.Text(
                    text.replace(", ", ",") if column.interval else text, "bold" if best else ""
                )
                for column, (text, best) in zip(self.columns, row, strict=True)
            ]
            table.add_row(*shown)
        return rich.console.Group(*title, table)

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
