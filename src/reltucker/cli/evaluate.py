"""`reltucker evaluate`: rank the triples of a split."""

from typing import Annotated, Any

from typer import Option

from reltucker.choices import Breakdown
from reltucker.cli import options, output
from reltucker.cli.processes import launched


def command(
    run: options.RunFolder,
    split: options.Split = "test",
    by: Annotated[Breakdown | None, Option(help="Break the figures down")] = None,
    sample: Annotated[
        int | None, Option(min=1, help="Rank so many triples, drawn at random", show_default="all")
    ] = None,
    classify: Annotated[
        bool, Option("--classify", help="Also tell the triples from corrupted ones")
    ] = False,
    labels: options.RunLabels = None,
    language: options.Language = "en",
    processes: options.Processes = None,
    json: options.Json = False,
) -> None:
    """Judge a model: MRR and HITS@k under three protocols.

    Each triple is ranked in both directions. standard: all triples against all entities, without
    the other known answers of all splits. seen: the same with entities of train only. paper: as
    seen, but answers of test are not left out.

    With --classify, triples and as many corrupted ones, with another entity of the relation's
    range, are taken for true where the probability reaches a threshold chosen on validation.

    Example: reltucker evaluate runs/mine --by relation
    """
    from reltucker.report import TEXT, Column, Table
    from reltucker.run import open_run

    if launched(processes):
        return
    opened = open_run(run, labels=labels, language=language)
    evaluation = opened.evaluate(split, by, sample=sample, classify=classify)
    figures, frame = evaluation.to_dict(), evaluation.frame()
    formats = {"mean_rank": ",.1f", "queries": ",d"}
    formats |= dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"), ".4f")
    columns = [Column(name, name, formats.get(name, TEXT)) for name in frame.columns]
    output.show(
        json,
        figures,
        f"{run}: {evaluation.model}, entity_dim {evaluation.entity_dim}, relation_dim "
        f"{evaluation.relation_dim}, effective relation size "
        f"{figures['effective_relation_size']:,.0f}, effective parameters "
        f"{figures['effective_parameters']:,}; {split} split, {evaluation.seconds:.1f} s",
        Table("", columns, frame.to_dicts()),
        *([_table(figures["classification"])] if classify else []),
    )


def _table(figures: dict[str, Any]) -> Any:
    from reltucker.report import Column, Table

    rest = {"brier": "Brier score", "expected_calibration_error": "calibration error"}
    names = ("accuracy", "precision", "recall", "f1", "roc_auc", "average_precision")
    columns = [Column(name, name, ".4f") for name in names]
    columns += [Column(header, name, ".4f") for name, header in rest.items()]
    columns.append(Column("decisions", "decisions", ",d"))
    return Table("", columns, [{**figures, **figures["reliability"]}])
