"""`reltucker calibrate`: fit probabilities."""

from typing import Annotated

from typer import Option

from reltucker.choices import SplitName
from reltucker.cli import options, output
from reltucker.cli.processes import launched, speaks


def command(
    run: options.RunFolder,
    split: Annotated[SplitName, Option(help="Which triples to fit on")] = "valid",
    processes: options.Processes = None,
    json: options.Json = False,
) -> None:
    """Fit probabilities to scores, and draw how they come true.

    `train`, `resume`, `merge` and `search` have done so where there are validation triples. Writes
    calibration.json, and calibration.png and .svg beside it, into the run folder.

    Example: reltucker calibrate runs/mine
    """
    from reltucker.report import Column, Table
    from reltucker.report.charts import reliability_curve, write_picture
    from reltucker.report.theme import titled
    from reltucker.run import open_run

    if launched(processes):
        return
    opened = open_run(run)
    calibration = opened.calibrate(split)
    if not speaks():
        return
    figures = calibration.to_dict()
    reliability = figures["reliability"]
    chart = reliability_curve(reliability["bins"], opened.recipe.model.name)
    title = f"Do the probabilities of {run.name} come true?"
    chart = titled(chart, title, f"{opened.graph.name}, {split}")
    png, svg = write_picture(chart, run / "calibration.png")
    own = [each for each in calibration.relations.values() if each.curve is not None]
    columns = [
        Column("probability from", "low", ".1f"),
        Column("to", "high", ".1f"),
        Column("triples", "count", ",d"),
        Column("mean probability", "mean_probability", ".3f"),
        Column("share of true", "share_true", ".3f"),
    ]
    output.show(
        json,
        {"run": str(run), **figures, "pictures": [str(png), str(svg)]},
        f"{calibration.triples:,} triples of {split} and {calibration.corrupted:,} corrupted ones",
        f"{calibration.curve.method}; own curves for {len(own)} of "
        f"{len(opened.graph.relations)} relations",
        f"held out: expected calibration error {reliability['expected_calibration_error']:.4f}, "
        f"Brier score {reliability['brier']:.4f}, base rate {reliability['base_rate']:.3f}",
        Table("", columns, reliability["bins"]),
        f"picture: {png}",
    )
