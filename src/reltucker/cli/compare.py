"""`reltucker compare`: the tables and figures of the paper's study, from existing runs."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from reltucker.cli import options, output


def command(
    runs: Annotated[list[Path], Argument(metavar="RUN", help="Run folders of one graph")],
    out: Annotated[
        Path | None,
        Option(
            help="Write a page, tables (Markdown, CSV, LaTeX) and pictures here",
            show_default="tables on the screen",
        ),
    ] = None,
    split: options.Split = "test",
    protocol: options.Protocol = "seen",
    max_entity_dim: Annotated[
        int | None, Option(help="Limit of d_e for the best fits", show_default="no limit")
    ] = None,
    relations: options.Relations = None,
    sparse: Annotated[
        str | None,
        Option(
            help="The run whose mixing matrices to draw",
            show_default="the best that learns sparsity",
        ),
    ] = None,
    against: Annotated[
        str | None,
        Option(help="The run to compare it with", show_default="the best with a fixed core"),
    ] = None,
    confidence: Annotated[float, Option(help="Confidence of the bootstrap intervals")] = 0.95,
    resamples: Annotated[int, Option(help="Samples of the bootstrap")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of the bootstrap and the tests")] = 0,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    json: options.Json = False,
) -> None:
    """Compare runs of one graph by tables and pictures.

    Shows the best fit of each model by validation MRR, quality by size, the skyline, sparsity
    patterns, differences by relation, cost, and what reciprocal relations bring. Every figure
    has a bootstrap interval over the queries; differences have the p of a paired sign-flip
    permutation test.

    Example: reltucker compare runs/mine runs/other --out comparison
    """
    from reltucker.graph import read_labels
    from reltucker.study.comparison import Options, compare_fits
    from reltucker.study.fits import read_fits
    from reltucker.study.quality import Certainty

    chosen = Options(
        protocol=protocol,
        max_entity_dim=max_entity_dim,
        relations=tuple(relations or ()),
        sparse=sparse,
        against=against,
        certainty=Certainty(resamples=resamples, confidence=confidence, seed=seed),
    )
    named = [name for name in (sparse, against) if name is not None]
    shown = None if labels is None else read_labels(labels, language)
    fits = read_fits(runs, split, named=named, relations=chosen.relations, labels=shown)
    comparison = compare_fits(fits, chosen)
    files = [] if out is None else comparison.write(out)
    document = {**comparison.to_dict(), "files": [str(path) for path in files]}
    lines = [] if out is None else [f"page: {out / 'comparison.html'}   tables: {out / 'tables'}"]
    output.show(json, document, *comparison.summary(), *lines)
