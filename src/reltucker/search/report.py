"""The report of a search: what was tried, what mattered, what came out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reltucker.evaluation import PROTOCOLS
from reltucker.report import Column, Table
from reltucker.report.charts import (
    bar_panels,
    search_history,
    skyline_of_trials,
    training_curves,
)
from reltucker.report.page import Page, Part
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
    path = result.out / "report.html"
    return SearchPage(path, _page(result, table).write(path, result.out / "pictures"), table)


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
    ended = f"{outcome.count('failed')} failed and {outcome.count('pruned')} were pruned"
    introduction = (
        f"{len(outcome.rows)} trials were run, of which {ended}. Trial {best['number']} has the "
        f"best validation MRR, {best['valid_mrr']:.4f}, with {best['effective_parameters']:,} "
        "effective parameters. Test triples were ranked once, by its model, after all trials."
    )
    shares = [{"model": "", "setting": k, "share": v} for k, v in outcome.importance.items()]
    titles = {"share": "share in the variance of the MRR"}
    charts = {}
    if shares:
        bars = bar_panels(shares, titles, by="setting", format=".0%", width=460)
        charts["importance"] = (bars, "Importance of settings (fANOVA)")
    front = skyline_of_trials(outcome.complete, outcome.skyline, plan.max_parameters)
    epochs = {f"trial {best['number']}": RunFolder(result.run).epochs()}
    failures = [row for row in outcome.rows if row["reason"]]
    parts = [
        Part(
            "The best model on test",
            f"Its run is {result.run}.",
            {"test": _test_table(result)},
            code=(result.out / "best.toml").read_text(encoding="utf-8").strip(),
        ),
        Part(
            "Trials",
            "params*: effective parameters.",
            {"trials": table},
            charts={"history": (search_history(outcome.rows), "Validation MRR by trial")},
        ),
        Part(
            "What mattered",
            "" if shares else "There are too few finished trials to tell which settings mattered.",
            charts=charts,
        ),
        Part(
            "MRR against parameters",
            "Numbers are trials that no other beats in both.",
            charts={"skyline": (front, "Validation MRR against effective parameters")},
        ),
        Part(
            "Training of the best model",
            charts={"training": (training_curves(epochs), "Validation MRR and loss by epoch")},
        ),
    ]
    if failures:
        tables = {"failed": _failures(result, failures)}
        parts.append(Part("Failed trials", "They count as the worst.", tables))
    return Page(
        f"Search of {plan.recipe.model.name} on {plan.recipe.graph.source}",
        f"Study {result.study}, sampler {plan.sampler}",
        [introduction],
        parts,
    )


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
