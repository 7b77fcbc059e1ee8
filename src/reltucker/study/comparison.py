"""The comparison of fits: the paper's tables and figures, for screen, paper and page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json, write_text
from reltucker.report import Table
from reltucker.report.page import Page, Part
from reltucker.study.fits import Fits
from reltucker.study.parts import Comparing, Options

__all__ = ["Comparison", "Options", "compare_fits"]

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

    def summary(self) -> list[Table | str]:
        """The tables for a terminal, and remarks."""
        tables = self.tables()
        shown = [tables[name] for name in SUMMARY if name in tables and tables[name].rows]
        return [*shown, *self._dense_cores()]

    def _dense_cores(self) -> list[str]:
        """A remark on each fit that could have learned a sparse core, and has not."""
        return [
            f"The core of {fit.label} is not sparse: it has {fit.sizes.core_density:.1%} of its "
            "entries."
            for fit in self.fits.fits
            if fit.learns == "pattern" and not fit.is_sparse
        ]

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
        texts = {
            out / "tables" / f"{table_name}.{suffix}": text
            for table_name, table in self.tables().items()
            for suffix, text in (
                ("md", table.to_markdown()),
                ("csv", table.to_csv()),
                ("tex", table.to_latex()),
            )
        }
        for path, text in texts.items():
            write_text(path, text)
        title = f"{len(self.fits.fits)} fits on {self.fits.graph.name}"
        page = Page(
            title, "Relational Tucker decompositions", self._introduction(), self.parts.values()
        )
        pictures = page.write(out / f"{name}.html", out / "pictures")
        write_json(out / "comparison.json", self.to_dict())
        return [*texts, *pictures, out / f"{name}.html", out / "comparison.json"]

    def _introduction(self) -> list[str]:
        split, certainty = self.fits.split, self.options.certainty
        how = (
            f"Every triple of the {split} split is asked for in both directions; figures are "
            f"those of the protocol {self.options.protocol!r} where nothing else is said. Brackets "
            f"hold {certainty.confidence:.0%} bootstrap intervals over the queries "
            f"({certainty.resamples:,} samples; the two queries of a triple are drawn together). "
            "Differences have the p of a two-sided paired sign-flip permutation test on reciprocal "
            f"ranks ({certainty.flips:,} flips). Both speak of these queries and these fits; they "
            "do not cover other seeds or settings of training."
        )
        dense = self._dense_cores()
        if self.fits.fits[0].valid_mrr is None:
            return [
                how,
                *dense,
                "The graph has no validation triples to choose by: what is called best was chosen "
                f"by the {split} triples themselves, which flatters it.",
            ]
        by = "MRR on the validation triples, never by the figures that are shown"
        by = "same validation triples that are shown" if split == "valid" else by
        return [how, *dense, f"What is called best was chosen by the {by}."]


def compare_fits(fits: Fits, options: Options | None = None) -> Comparison:
    """Compare fits: best of each model, training, by size, skyline, patterns, relations, cost,
    baselines."""
    options = Options() if options is None else options
    return Comparison(fits, options, Comparing(fits, options).parts())
