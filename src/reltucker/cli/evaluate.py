"""`reltucker evaluate`: rank the triples of a split."""

from typing import Annotated, Any

from typer import Option

from reltucker.choices import Breakdown, ShownProtocol
from reltucker.cli import options, output
from reltucker.cli.processes import launched
from reltucker.cli.train import validation_lines


def command(
    run: options.RunFolder,
    split: options.Split = "test",
    by: Annotated[
        Breakdown | None, Option(help="Break the figures down", show_default="not broken down")
    ] = None,
    protocol: Annotated[
        ShownProtocol | None,
        Option(help="Which figures to show; --json has all", show_default="all; seen with --by"),
    ] = None,
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
    seen, but answers of test are not left out. On other splits than test, answers of test are left
    out by none of them; figures with all left out stand beside those of valid for information.

    With --classify, triples and as many corrupted ones, with another entity of the relation's
    range, are taken for true where the probability reaches a threshold chosen on validation.

    Example: reltucker evaluate runs/mine --by relation
    """
    from reltucker.evaluation import FULL_FILTER, PROTOCOLS
    from reltucker.report import Table
    from reltucker.run import open_run

    if launched(processes):
        return
    opened = open_run(run, labels=labels, language=language)
    evaluation = opened.evaluate(split, by, sample=sample, classify=classify)
    figures = evaluation.to_dict()
    chosen = protocol or ("all" if by is None else "seen")
    shown = list(PROTOCOLS) if chosen == "all" else [chosen]
    rows = [row for row in evaluation.frame().to_dicts() if row["protocol"] in shown]
    if by is None and "seen" in shown and FULL_FILTER in figures:
        rows.append({"protocol": "seen, answers of test left out too", **figures[FULL_FILTER]})
    title = f"by {by}, protocol {chosen}" if by is not None and len(shown) == 1 else ""
    filtered = "answers left out: those of train and valid"
    if split == "test":
        filtered = "answers left out: those of train, valid and test; by paper, of train and valid"
    result = opened.result if split == "test" and by is None else None
    output.show(
        json,
        figures,
        f"{run}: {evaluation.model}, entity_dim {evaluation.entity_dim}, relation_dim "
        f"{evaluation.relation_dim}; {split} split, {evaluation.seconds:.1f} s",
        f"effective relation size {figures['effective_relation_size']:,.0f}, effective parameters "
        f"{figures['effective_parameters']:,}",
        Table(title, _columns(rows, len(shown) > 1), rows),
        filtered,
        *([] if result is None else validation_lines(result)),
        *([_table(figures["classification"])] if classify else []),
    )


def _columns(rows: list[dict[str, Any]], with_protocol: bool) -> list[Any]:
    from reltucker.report import TEXT, Column

    formats = {"mean_rank": ",.1f", "queries": ",d"}
    formats |= dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"), ".4f")
    spare = {"relation": 4, "mean_rank": 2, "hits@1": 2, "hits@3": 3, "hits@10": 1}
    names = list(rows[0]) if rows else []
    if "label" in names:  # before the name, which is left out where it says the same
        names.remove("relation")
        if any(row["label"] != row["relation"] for row in rows):
            names.append("relation")
    if "label" in names or "kind" in names or "direction" in names:
        names = [name for name in names if name != "protocol" or with_protocol]
    headers = {"label": "relation", "relation": "name"}
    return [
        Column(headers.get(name, name), name, formats.get(name, TEXT), spare=spare.get(name, 0))
        for name in names
    ]


def _table(figures: dict[str, Any]) -> Any:
    from reltucker.report import Column, Table

    rest = {"brier": "Brier score", "expected_calibration_error": "calibration error"}
    names = ("accuracy", "precision", "recall", "f1", "roc_auc", "average_precision")
    columns = [Column(name.replace("_", " "), name, ".4f") for name in names]
    columns += [Column(header, name, ".4f", spare=1) for name, header in rest.items()]
    columns.append(Column("decisions", "decisions", ",d", spare=2))
    return Table("", columns, [{**figures, **figures["reliability"]}])
