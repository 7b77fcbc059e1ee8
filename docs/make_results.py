"""Write docs/results.md from its template and docs/results/: python docs/make_results.py

A result file holds the recipe's name, and what `train --json`, `evaluate --json` and
`describe-model --json` told of its run; a trial has its settings and validation MRR by epoch;
docs/published.json has the figures of the paper. In the template,

    {{best/NAME.PROTOCOL.METRIC}}   is a figure of a result file on test triples, in per cent,
    {{best/NAME.KEY}}               another one (density, parameters, epochs, minutes, ...),
    {{A - B}}                       the difference of two figures,
    {{trial.NAME}}                  the best validation MRR of a trial,
    {{table: NAME}}                 one of the tables below,
    {{file: PATH}}                  the text of a file in docs/.

A test makes the page again and compares. Written by hand are only figures of other publications and
of the first trials of the sparse SRT, whose runs were not kept.
"""

import json
import re
from pathlib import Path
from typing import Any

from reltucker.report import Column, Table

DOCS = Path(__file__).parent
PROTOCOLS = ("standard", "seen", "paper")
METRICS = {"mrr": "MRR", "hits@1": "@1", "hits@3": "@3", "hits@10": "@10"}
FORMATS = {
    "density": ".2%",
    "relation_size": ",.0f",
    "parameters": ",d",
    "epochs": "d",
    "best_epoch": "d",
    "minutes": ".0f",
}
TRAINING = [
    Column("best epoch", "best_epoch", "d"),
    Column("epochs", "epochs", "d"),
    Column("minutes", "minutes", ".1f"),
]


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """The figures of a result file by name; quality in per cent, as in the paper."""
    test, train = result["test"], result["train"]
    return {
        "recipe": result["recipe"],
        "density": test["core_density"],
        "relation_size": test["effective_relation_size"],
        "parameters": test["effective_parameters"],
        **{f"{p}.{m}": 100 * test[p][m] for p in PROTOCOLS for m in METRICS},
        "best_epoch": train["best_epoch"],
        "epochs": train["epochs"],
        "minutes": train["seconds"] / 60,
        "valid": 100 * train["seen"]["mrr"],
    }


def load(folder: Path) -> list[tuple[str, Any]]:
    """The names and the contents of the JSON files of a folder."""
    files = sorted(folder.glob("*.json"))
    return [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in files]


class Page:
    """What the template can name."""

    def __init__(self) -> None:
        results = [*load(DOCS / "results" / "best"), *load(DOCS / "results" / "paper")]
        self.results = {result["recipe"]: figures(result) for _, result in results}
        self.trials = dict(load(DOCS / "results" / "trials"))
        self.own = [result for _, result in load(DOCS / "results" / "own")]
        self.published = json.loads((DOCS / "published.json").read_text(encoding="utf-8"))

    def render(self) -> str:
        """docs/results.md."""
        template = (DOCS / "results.template.md").read_text(encoding="utf-8")
        return re.sub(r"\{\{(.+?)\}\}", lambda found: self.show(found[1].strip()), template)

    def show(self, name: str) -> str:
        """What stands in place of {{name}}."""
        if name.startswith("table: "):
            table: Table = getattr(self, f"{name.removeprefix('table: ')}_table")()
            return table.to_markdown().strip()
        if name.startswith("file: "):
            return (DOCS / name.removeprefix("file: ")).read_text(encoding="utf-8").strip()
        if " - " in name:
            first, second = (self.value(part) for part in name.split(" - "))
            return f"{first - second:.1f}"
        key = name.partition(".")[2]
        return format(self.value(name), FORMATS.get(key, ".1f"))

    def value(self, name: str) -> Any:
        """The figure with this name."""
        file, _, key = name.partition(".")
        if file == "trial":
            return 100 * max(mrr for _, mrr in self.trials[key]["valid"])
        return self.results[file][key]

    def of_folder(self, folder: str) -> list[dict[str, Any]]:
        """The results of the recipes of one folder."""
        return [r for r in self.results.values() if r["recipe"].startswith(f"{folder}/")]

    def best_table(self) -> Table:
        """The recipes of recipes/best."""
        columns = [
            Column("recipe", "recipe"),
            Column("parameters*", "parameters", ",d"),
            *(Column(f"standard {METRICS[m]}", f"standard.{m}", ".1f") for m in METRICS),
            Column("seen MRR", "seen.mrr", ".1f"),
            Column("paper MRR", "paper.mrr", ".1f"),
            *TRAINING,
        ]
        return Table("", columns, self.of_folder("best"))

    def paper_table(self) -> Table:
        """The recipes of recipes/paper next to what the paper has for them."""
        columns = [
            Column("recipe", "recipe"),
            Column("core density", "density", ".2%"),
            Column("d_r*", "relation_size", ",.0f"),
            Column("parameters*", "parameters", ",d"),
            *(Column(f"published {METRICS[m]}", f"published.{m}", ".1f") for m in METRICS),
            *(Column(f"seen {METRICS[m]}", f"seen.{m}", ".1f") for m in METRICS),
            Column("paper MRR", "paper.mrr", ".1f"),
            Column("standard MRR", "standard.mrr", ".1f"),
            *TRAINING,
        ]
        rows = [
            {**{f"published.{m}": self.published.get(r["recipe"], {}).get(m) for m in METRICS}, **r}
            for r in self.of_folder("paper")
        ]
        return Table("", columns, rows)

    def own_table(self) -> Table:
        """What presets and a search reach on graphs that nobody has tuned for, smallest first."""
        ways = ("good", "best", "search")
        columns = [
            Column("graph", "graph"),
            *(Column(name, name, ",d") for name in ("entities", "relations", "triples")),
            *(Column(f"{way} MRR", f"{way}.mrr", ".1f") for way in ways),
            *(Column(f"{way} @10", f"{way}.hits@10", ".1f") for way in ways),
            *(Column(f"{way}, s", f"{way}.seconds", ",.0f") for way in ways),
        ]
        rows = []
        for result in sorted(self.own, key=lambda result: result["sizes"]["triples"]):
            row = {"graph": result["graph"], **result["sizes"]}
            for way in set(ways) & set(result):
                found, quality = result[way], result[way]["test"]["standard"]
                row |= {f"{way}.{metric}": 100 * value for metric, value in quality.items()}
                row[f"{way}.seconds"] = found["seconds"]
            rows.append(row)
        return Table("", columns, rows)

    def trials_table(self) -> Table:
        """Every trial with the settings that are its own, and its best validation MRR."""
        rows = []
        for name, trial in self.trials.items():
            settings = ", ".join(
                f"{key.partition('.')[2]} {value}"
                for key, value in trial["settings"].items()
                if key not in ("train.epochs", "train.patience")
            )
            epoch, mrr = max(trial["valid"], key=lambda pair: pair[1])
            last = trial["valid"][-1][0]
            row = {"trial": name, "settings": settings, "mrr": 100 * mrr, "epoch": epoch}
            rows.append({**row, "epochs": last})
        columns = [
            Column("trial", "trial"),
            Column("settings", "settings"),
            Column("valid MRR", "mrr", ".1f"),
            Column("at epoch", "epoch", "d"),
            Column("epochs", "epochs", "d"),
        ]
        return Table("", columns, rows)


def page() -> str:
    """docs/results.md made anew."""
    return Page().render()


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
