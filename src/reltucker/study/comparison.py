"""The comparison of fits: the paper's tables and figures, for screen, paper and page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json, write_text
from reltucker.study.comparison_parts import Comparing, Options, Part
from reltucker.study.fits import Fits
from reltucker.study.report import Report
from reltucker.study.tables import Table

__all__ = ["Comparison", "Options", "compare_fits"]

SUMMARY = (
    "best",
    "differences",
    "entity-size",
    "skyline",
    "relation-groups",
    "cost",
    "baselines",
)
"""The tables that a terminal shows; the others are longer."""


@dataclass(frozen=True)
class Comparison:
    """The parts of a comparison, and what they are about."""

    fits: Fits
    options: Options
    parts: list[Part]

    def tables(self) -> dict[str, Table]:
        """All tables by file name."""
        return {name: table for part in self.parts for name, table in part.tables.items()}

    def summary(self) -> list[Table]:
        """The tables for a terminal."""
        tables = self.tables()
        return [tables[name] for name in SUMMARY if name in tables and tables[name].rows]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the settings, and the rows of every table."""
        certainty = self.options.certainty
        return {
            "graph": self.fits.graph.name,
            "split": self.fits.split,
            "protocol": self.options.protocol,
            "max_entity_dim": self.options.max_entity_dim,
            **vars(certainty),
            "runs": [str(fit.path) for fit in self.fits.fits],
            "tables": {name: list(table.rows) for name, table in self.tables().items()},
        }

    def write(self, out: Path) -> list[Path]:
        """Write comparison.html and .json, tables/ (Markdown, CSV, LaTeX) and pictures/ (PNG, SVG);
        returns the files."""
        report = self._report()
        files = []
        for name, table in self.tables().items():
            for suffix, text in (
                ("md", table.to_markdown()),
                ("csv", table.to_csv()),
                ("tex", table.to_latex()),
            ):
                files.append(out / "tables" / f"{name}.{suffix}")
                write_text(files[-1], text)
        files += report.write_pictures(out / "pictures")
        files += [out / "comparison.html", out / "comparison.json"]
        report.write(files[-2])
        write_json(files[-1], self.to_dict())
        return files

    def _report(self) -> Report:
        fits, certainty = self.fits, self.options.certainty
        report = Report(
            f"{len(fits.fits)} fits on {fits.graph.name}", "Relational Tucker decompositions"
        )
        report.text(
            f"Every triple of the {fits.split} split is asked for in both directions; figures are "
            f"those of the protocol {self.options.protocol!r} where nothing else is said. Brackets "
            f"hold {certainty.confidence:.0%} bootstrap intervals over the queries "
            f"({certainty.resamples:,} samples; the two queries of a triple are drawn together). "
            "Differences have the p of a two-sided paired sign-flip permutation test on reciprocal "
            f"ranks ({certainty.flips:,} flips). Both speak of these queries and these fits; they "
            "do not cover other seeds or settings of training."
        )
        report.text(_selection(fits))
        for part in self.parts:
            report.heading(part.heading)
            report.text(part.text)
            for table in part.tables.values():
                report.table(table)
            for name, (chart, caption) in part.charts.items():
                report.chart(chart, caption, name)
        return report


def compare_fits(fits: Fits, options: Options | None = None) -> Comparison:
    """Compare fits: best of each model, by size, skyline, patterns, relations, cost, baselines."""
    options = Options() if options is None else options
    return Comparison(fits, options, Comparing(fits, options).parts())


def _selection(fits: Fits) -> str:
    if fits.fits[0].valid_mrr is None:
        return (
            "The graph has no validation triples to choose by: what is called best was chosen by "
            f"the {fits.split} triples themselves, which flatters it."
        )
    return (
        "What is called best was chosen by the MRR on the validation triples, never by the figures "
        "that are shown."
        if fits.split != "valid"
        else "What is called best was chosen by the same validation triples that are shown."
    )
