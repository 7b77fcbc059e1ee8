"""The report of a search: what was tried, what mattered, what came out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reltucker.evaluation import PROTOCOLS
from reltucker.model import CORES
from reltucker.report import TEXT, Column, Table
from reltucker.report.charts import (
    bar_panels,
    search_history,
    skyline_of_trials,
    training_curves,
)
from reltucker.report.page import Page, Part
from reltucker.report.theme import AnyChart, titled
from reltucker.search.folder import SearchFolder
from reltucker.search.outcome import IMPORTANCE_TRIALS, Outcome
from reltucker.search.plan import Plan
from reltucker.search.regions import REGION
from reltucker.search.search import SearchResult
from reltucker.training import RunFolder

SHOWN = 10
"""How many trials the short table has."""


SHOWN_OF_REGIONS = (REGION, "model.entity_dim", "train.learning_rate")
_TOO_FEW = (
    "There are too few trials to tell which settings mattered: it takes at least "
    f"{IMPORTANCE_TRIALS} that ended with different MRRs and differ in two settings that all have."
)


def write_report(result: SearchResult) -> Table:
    """Write report.html and the pictures into the folder of the search.

    Returns the table of the trials with the highest MRR; of a skyline, of its points.
    """
    outcome, plan, best = result.outcome, result.plan, result.best
    rows = sorted(outcome.complete, key=lambda row: -row["mrr"])[:SHOWN]
    title = f"The best {len(rows)} trials"
    if plan.objective == "skyline":
        rows, title = outcome.skyline, "The skyline"
    settings = _settings(outcome)
    columns = [
        Column("trial", "number", "d"),
        Column("valid MRR", "mrr", ".4f", best="max"),
        Column("params*", "effective_parameters", ",d", spare=1),
        *settings,
        Column("epochs", "epochs", "d", spare=3),
        Column("seconds", "seconds", ".0f", spare=3),
    ]
    table = Table(title, columns, rows)
    about = f"{Path(str(plan.recipe.graph.source)).name}, valid, protocol seen"

    def drawn(chart: AnyChart, title: str) -> tuple[AnyChart, str]:
        return titled(chart, title, about), title

    shares = [{"model": "", "setting": k, "share": v} for k, v in outcome.importance.items()]
    charts = {}
    if shares:
        titles = {"share": "share in the variance of the MRR"}
        bars = bar_panels(shares, titles, by="setting", format=".0%", shares=True, width=460)
        charts["importance"] = drawn(bars, "Importance of settings (fANOVA)")
    trials = [{**row, "model": _model_of(plan, row)} for row in outcome.rows]
    complete = [row for row in trials if row["state"] == "complete"]
    front = skyline_of_trials(complete, outcome.skyline, plan.max_parameters)
    history = search_history(trials)
    assert outcome.best is not None
    trained = RunFolder(SearchFolder(result.out).trial(outcome.best))
    epochs = {f"{_model_of(plan, outcome.best)}, trial {best['number']}": trained.epochs()}
    parts = [
        Part(
            "The best model on test",
            f"Its run is {result.run}.",
            {"test": _test_table(result.test)},
            code=(result.out / "best.toml").read_text(encoding="utf-8").strip(),
        ),
        Part(
            "Trials",
            "params*: effective parameters.",
            {"trials": table},
            charts={"history": drawn(history, "Validation MRR by trial")},
        ),
        Part(
            "What mattered",
            "" if shares else _TOO_FEW,
            charts=charts,
        ),
        Part(
            "MRR against parameters",
            "Numbers are trials that no other beats in both.",
            charts={"skyline": drawn(front, "Validation MRR against effective parameters")},
        ),
        Part(
            "Training of the best model",
            charts={"training": drawn(training_curves(epochs), "Validation MRR and loss by epoch")},
        ),
    ]
    failures = [row for row in outcome.rows if row["reason"]]
    if failures:
        columns = [Column("trial", "number", "d"), Column("reason", "reason"), *settings]
        tables = {"failed": Table("Failed trials", columns, failures)}
        parts.append(Part("Failed trials", "They count as the worst.", tables))
    ended = f"{outcome.count('failed')} failed and {outcome.count('pruned')} were pruned"
    together = ""
    if result.merged is not None:
        parts_of = ", ".join(str(part["number"]) for part in result.merged["trials"])
        together = (
            f"Merged, the trials {parts_of} have {result.merged['valid_mrr']:.4f}; that is the "
            "best model. "
        )
    introduction = (
        f"{len(outcome.rows)} trials were run, of which {ended}. Trial {best['number']} has the "
        f"best validation MRR, {best['valid_mrr']:.4f}, with {best['effective_parameters']:,} "
        f"effective parameters. {together}"
        "Test triples were ranked once, by the best model, after all trials."
    )
    what = "the best model" if plan.regions else plan.recipe.model.name
    page = Page(
        f"Search of {what} on {plan.recipe.graph.source}",
        f"Study {result.study}, sampler {plan.sampler}",
        [introduction],
        parts,
    )
    page.write(result.out / "report.html", result.out / "pictures")
    return table


def _settings(outcome: Outcome) -> Sequence[Column]:
    """The columns of the searched settings."""
    columns = []
    keys = outcome.parameters
    if REGION in keys:  # which have a dozen more, each of a region or two
        keys = [key for key in keys if key in SHOWN_OF_REGIONS]
    for key in keys:
        kinds = {type(row[key]) for row in outcome.rows}
        format = ".3g" if float in kinds else TEXT if kinds & {str, bool} else "d"
        columns.append(Column(key.rpartition(".")[2], key, format, spare=2))
    return columns


def _model_of(plan: Plan, row: dict[str, Any]) -> str:
    """The title of the model of a trial."""
    region = row.get(REGION)
    settings: dict[str, Any] = {"model.name": plan.recipe.model.name}
    settings |= plan.regions[region].settings if region else {}
    return CORES[row.get("model.name") or settings["model.name"]].title


def _test_table(test: dict[str, Any]) -> Table:
    columns = [
        Column("protocol", "protocol"),
        Column("MRR", "mrr", ".4f"),
        *(Column(f"HITS@{k}", f"hits@{k}", ".4f") for k in (1, 3, 10)),
        Column("mean rank", "mean_rank", ",.1f"),
        Column("queries", "queries", ",d"),
    ]
    rows = [{"protocol": protocol, **test[protocol]} for protocol in PROTOCOLS]
    return Table("Test triples", columns, rows)
