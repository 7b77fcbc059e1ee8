"""The report of a search: what was tried, what mattered, what came out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reltucker.evaluation import PROTOCOLS
from reltucker.report import Column, Table
from reltucker.report.charts import (
    search_history,
    setting_importance,
    skyline_of_trials,
    training_curves,
)
from reltucker.report.page import Page
from reltucker.search import SearchResult
from reltucker.training import RunFolder

SHOWN = 10
"""How many trials the short table has."""


@dataclass(frozen=True)
class SearchPage:
    """The page that was written, its pictures, and the table of the best trials."""

    path: Path
    pictures: list[Path]
    table: Table


def write_report(result: SearchResult) -> SearchPage:
    """Write report.html and the pictures into the folder of the search."""
    table = best_trials(result)
    page = _page(result, table)
    pictures = page.write_pictures(result.out / "pictures")
    path = result.out / "report.html"
    page.write(path)
    return SearchPage(path, pictures, table)


def best_trials(result: SearchResult) -> Table:
    """The trials with the highest MRR; of a skyline, its points."""
    is_skyline = result.plan.objective == "skyline"
    ranked = sorted(result.outcome.complete, key=lambda row: -row["mrr"])[:SHOWN]
    rows = result.outcome.skyline if is_skyline else ranked
    title = "The skyline" if is_skyline else f"The best {len(rows)} trials"
    return Table(title, _columns(result), rows)


def _columns(result: SearchResult) -> list[Column]:
    keys = result.outcome.parameters
    return [
        Column("trial", "number", "d"),
        Column("valid MRR", "mrr", ".4f", best="max"),
        Column("params*", "effective_parameters", ",d"),
        *(Column(key.rpartition(".")[2], key, _format(result, key)) for key in keys),
        Column("epochs", "epochs", "d"),
        Column("seconds", "seconds", ".0f"),
    ]


def _format(result: SearchResult, key: str) -> str:
    values = [row[key] for row in result.outcome.rows if row[key] is not None]
    if any(isinstance(value, float) for value in values):
        return ".3g"
    return "" if any(isinstance(value, str | bool) for value in values) else "d"


def _page(result: SearchResult, table: Table) -> Page:
    outcome, plan, best = result.outcome, result.plan, result.best
    page = Page(
        f"Search of {plan.recipe.model.name} on {plan.recipe.graph.source}",
        f"Study {result.study}, sampler {plan.sampler}",
    )
    ended = f"{outcome.count('failed')} failed and {outcome.count('pruned')} were pruned"
    page.text(
        f"{len(outcome.rows)} trials were run, of which {ended}. Trial {best['number']} has the "
        f"best validation MRR, {best['valid_mrr']:.4f}, with {best['effective_parameters']:,} "
        "effective parameters. Test triples were ranked once, by its model, after all trials."
    )
    page.heading("The best model on test")
    page.table(_test_table(result), f"Its run is {result.run}.")
    page.code((result.out / "best.toml").read_text(encoding="utf-8").strip())
    page.heading("Trials")
    page.chart(search_history(outcome.rows), "Validation MRR by trial", "history")
    page.table(table, "params*: effective parameters.")
    page.heading("What mattered")
    if outcome.importance:
        page.chart(
            setting_importance(outcome.importance), "Importance of settings (fANOVA)", "importance"
        )
    else:
        page.text("There are too few finished trials to tell which settings mattered.")
    page.heading("MRR against parameters")
    page.chart(
        skyline_of_trials(outcome.complete, outcome.skyline, plan.max_parameters),
        "Validation MRR against effective parameters; numbers are trials that no other beats in "
        "both",
        "skyline",
    )
    page.heading("Training of the best model")
    epochs = {f"trial {best['number']}": RunFolder(result.run).epochs()}
    page.chart(training_curves(epochs), "Validation MRR and loss by epoch", "training")
    failures = [row for row in outcome.rows if row["reason"]]
    if failures:
        page.heading("Failed trials")
        page.table(_failures(result, failures), "They count as the worst.")
    return page


def _test_table(result: SearchResult) -> Table:
    columns = [
        Column("protocol", "protocol"),
        Column("MRR", "mrr", ".4f"),
        *(Column(f"HITS@{k}", f"hits@{k}", ".4f") for k in (1, 3, 10)),
        Column("mean rank", "mean_rank", ",.1f"),
        Column("queries", "queries", ",d"),
    ]
    rows = [{"protocol": protocol, **result.test[protocol]} for protocol in PROTOCOLS]
    return Table("Test triples", columns, rows)


def _failures(result: SearchResult, rows: list[dict[str, Any]]) -> Table:
    keys = result.outcome.parameters
    settings = [Column(key.rpartition(".")[2], key, _format(result, key)) for key in keys]
    columns = [Column("trial", "number", "d"), Column("reason", "reason"), *settings]
    return Table("Failed trials", columns, rows)
