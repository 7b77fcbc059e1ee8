"""`reltucker compare`: the tables and figures of the paper's study, from existing runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from reltucker.cli.evaluate import Split
from reltucker.cli.output import console, print_json


class ProtocolName(StrEnum):
    """An evaluation protocol."""

    standard = "standard"
    seen = "seen"
    paper = "paper"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, all of one graph and split")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write a page, tables (Markdown, CSV, LaTeX) and pictures here"),
    ] = None,
    split: Annotated[Split, typer.Option(help="Which triples are ranked")] = Split.test,
    protocol: Annotated[
        ProtocolName, typer.Option(help="Of the figures; the others stand beside")
    ] = ProtocolName.seen,
    max_entity_dim: Annotated[
        int | None, typer.Option(help="Limit of d_e for the table of best fits")
    ] = None,
    relations: Annotated[
        list[str] | None,
        typer.Option(
            "--relation", help="Draw its mixing matrix; repeatable; default: the most frequent"
        ),
    ] = None,
    sparse: Annotated[
        str | None,
        typer.Option(help="The run whose mixing matrices are shown; default: the best sparse one"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="The run compared with it by relation; default: the best with a fixed core"
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the bootstrap intervals")] = 0.95,
    resamples: Annotated[int, typer.Option(help="Samples of the bootstrap")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap and the tests")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False,
) -> None:
    """Compare runs of one graph: the best fit of each model, quality by size, the skyline,
    sparsity patterns, relation by relation, cost, with and without reciprocal relations.

    Every figure has a bootstrap interval over the queries; differences have the p of a paired
    sign-flip permutation test. The best fits are chosen by their validation MRR.
    """
    from reltucker.study.comparison import Options, compare_fits
    from reltucker.study.fits import read_fits
    from reltucker.study.quality import Certainty

    certainty = Certainty(resamples=resamples, confidence=confidence, seed=seed)
    options = Options(
        protocol=cast(Any, protocol.value),
        max_entity_dim=max_entity_dim,
        relations=tuple(relations or ()),
        sparse=sparse,
        against=against,
        certainty=certainty,
    )
    fits = read_fits(
        runs,
        cast(Any, split.value),
        named=[name for name in (sparse, against) if name is not None],
        relations=options.relations,
    )
    comparison = compare_fits(fits, options)
    files = [] if out is None else comparison.write(out)
    if json:
        print_json({**comparison.to_dict(), "files": [str(path) for path in files]})
        return
    screen = console()
    for table in comparison.summary():
        screen.print(table.to_rich())
    if out is not None:
        screen.print(f"page: {out / 'comparison.html'}   tables: {out / 'tables'}")
