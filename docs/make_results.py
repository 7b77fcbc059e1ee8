"""Write the table of docs/results.md from docs/results/: python docs/make_results.py

A result file holds the recipe's name, and what `train --json`, `evaluate --json` and
`describe-model --json` printed for its run.
"""

import json
from pathlib import Path
from typing import Any

from reltucker.study.tables import Column, Table

DOCS = Path(__file__).parent
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

COLUMNS = [
    Column("recipe", "recipe"),
    Column("core density", "density", ".3%"),
    Column("d_r*", "relation_size", ",.0f"),
    Column("parameters*", "parameters", ",d"),
    *(
        Column(f"{protocol} {name}", f"{protocol} {key}", ".1f")
        for protocol in ("standard", "seen", "paper")
        for key, name in (("mrr", "MRR"), ("hits@10", "@10"))
    ),
    Column("best epoch", "best_epoch", "d"),
    Column("epochs", "epochs", "d"),
    Column("minutes", "minutes", ".1f"),
]


def row(result: dict[str, Any]) -> dict[str, Any]:
    """A result file as a row of the table; quality in per cent, as in the paper."""
    test, train = result["test"], result["train"]
    quality = {
        f"{protocol} {key}": 100 * test[protocol][key]
        for protocol in ("standard", "seen", "paper")
        for key in ("mrr", "hits@10")
    }
    return {
        "recipe": result["recipe"],
        "density": test["core_density"],
        "relation_size": test["effective_relation_size"],
        "parameters": test["effective_parameters"],
        **quality,
        "best_epoch": train["best_epoch"],
        "epochs": train["epochs"],
        "minutes": train["seconds"] / 60,
    }


def page() -> str:
    """docs/results.md with its table made anew."""
    files = sorted((DOCS / "results").glob("*.json"))
    rows = [row(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    table = Table("", COLUMNS, rows).to_markdown().strip()
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
