"""The comparison of fits: the paper's tables and figures, for screen, paper and page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json, write_text
from reltucker.report import Table
from reltucker.report.page import Page
from reltucker.study.fits import Fits
from reltucker.study.parts import Comparing, Options, Part

__all__ = ["Comparison", "Options", "Part", "compare_fits"]

SUMMARY = ["best", "differences", "entity-size", "skyline", "relation-groups", "cost", "baselines"]
"""The tables that a terminal shows; the others are longer."""


@dataclass(frozen=True)
class Comparison:
    """The parts of a comparison, and what they are about."""

    fits: Fits
    options: Options
    parts: dict[str, Part]

    def tables(self) -> dict[str, Table]:
        """All tables by file name."""
        return {name: table for part in self.parts.values() for name, table in part.tables.items()}

    def summary(self) -> list[Table]:
        """The tables for a terminal."""
        tables = self.tables()
        return [tables[name] for name in SUMMARY if name in tables and tables[name].rows]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the settings, and the rows of every table."""
        return {
            "graph": self.fits.graph.name,
            "split": self.fits.split,
            "protocol": self.options.protocol,
            "max_entity_dim": self.options.max_entity_dim,
            **vars(self.options.certainty),
            "runs": [str(fit.path) for fit in self.fits.fits],
            "tables": {name: list(table.rows) for name, table in self.tables().items()},
        }

    def write(self, out: Path, name: str = "comparison") -> list[Path]:
        """Write NAME.html, comparison.json, tables/ (Markdown, CSV, LaTeX) and pictures/ (PNG,
        SVG); returns the files."""
        page = self._page()
        texts = {
            out / "tables" / f"{name}.{suffix}": text
            for name, table in self.tables().items()
            for suffix, text in (
                ("md", table.to_markdown()),
                ("csv", table.to_csv()),
                ("tex", table.to_latex()),
            )
        }
        for path, text in texts.items():
            write_text(path, text)
        pictures = page.write_pictures(out / "pictures")
        page.write(out / f"{name}.html")
        write_json(out / "comparison.json", self.to_dict())
        return [*texts, *pictures, out / f"{name}.html", out / "comparison.json"]

    def _page(self) -> Page:
        fits, certainty = self.fits, self.options.certainty
        page = Page(
            f"{len(fits.fits)} fits on {fits.graph.name}", "Relational Tucker decompositions"
        )
        page.text(
            f"Every triple of the {fits.split} split is asked for in both directions; figures are "
            f"those of the protocol {self.options.protocol!r} where nothing else is said. Brackets "
            f"hold {certainty.confidence:.0%} bootstrap intervals over the queries "
            f"({certainty.resamples:,} samples; the two queries of a triple are drawn together). "
            "Differences have the p of a two-sided paired sign-flip permutation test on reciprocal "
            f"ranks ({certainty.flips:,} flips). Both speak of these queries and these fits; they "
            "do not cover other seeds or settings of training."
        )
        page.text(_selection(fits))
        for part in self.parts.values():
            page.heading(part.heading)
            page.text(part.text)
            for table in part.tables.values():
                page.table(table)
            for name, (chart, caption) in part.charts.items():
                page.chart(chart, caption, name)
        return page


def compare_fits(fits: Fits, options: Options | None = None) -> Comparison:
    """Compare fits: best of each model, training, by size, skyline, patterns, relations, cost,
    baselines."""
    options = Options() if options is None else options
    return Comparison(fits, options, Comparing(fits, options).parts())


def _selection(fits: Fits) -> str:
    if fits.fits[0].valid_mrr is None:
        return (
            "The graph has no validation triples to choose by: what is called best was chosen by "
            f"the {fits.split} triples themselves, which flatters it."
        )
    if fits.split == "valid":
        return "What is called best was chosen by the same validation triples that are shown."
    return (
        "What is called best was chosen by the MRR on the validation triples, never by the figures "
        "that are shown."
    )
