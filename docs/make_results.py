"""Write the pages of results from docs/templates/ and docs/results/: python docs/make_results.py

A result file holds the recipe's name, and what `train --json`, `evaluate --json` and
`describe-model --json` told of its run; a trial has its settings and validation MRR by epoch;
docs/published.json has the figures of the paper and of others. In a template,

    {{best/NAME.PROTOCOL.METRIC}}   is a figure of a result file on test triples, in per cent,
    {{best/NAME.KEY}}               another one (density, parameters, epochs, minutes, ...),
    {{paper/NAME.published.METRIC}} what the paper has for that recipe,
    {{one/GRAPH.KEY}}               of the best single model of a graph; likewise merged, small,
    {{published/GRAPH.mrr}}         the best of others; .small of those with few dimensions,
    {{published/METHOD.GRAPH}}      of one other method,
    {{trial.NAME}}                  the best validation MRR of a trial; @4: that of epoch 4,
    {{speed.NAME}}                  how many times as fast as PyKEEN,
    {{A - B}}                       the difference of two figures,
    {{A > B}}                       nothing, but an error if it is not so,
    {{with RECIPE}}                 at the beginning of a line: only if that recipe has a result,
    {{table: NAME}}, {{text: NAME}} a table or text made below, of a graph if one is named,
    {{file: PATH}}                  the text of a file in docs/.

A test makes the pages again and compares. Written by hand are only figures of other publications
and of trials whose runs were not kept.
"""

import json
import re
from pathlib import Path
from typing import Any

from reltucker.model import CORES
from reltucker.report import Column, Table

DOCS = Path(__file__).parent
BENCHMARKS = DOCS.parent / "benchmarks" / "results"
GRAPHS = {"fb15k-237": "FB15K-237", "wn18rr": "WN18RR"}
PROTOCOLS = ("standard", "seen", "paper")
METRICS = {"mrr": "MRR", "hits@1": "@1", "hits@3": "@3", "hits@10": "@10"}
WAYS = ("good", "best", "search")
SMALL = 200
"""The largest d_e of a small model, as in the paper's main table."""

FORMATS = {
    "density": ".2%",
    "unseen": ".0%",
    "relation_size": ",.0f",
    "parameters": ",d",
    "entity_dim": ",d",
    "epochs": "d",
    "best_epoch": "d",
    "minutes": ".0f",
    "speed": ".0f",
}
TRAINING = [
    Column("best epoch", "best_epoch", "d"),
    Column("epochs", "epochs", "d"),
    Column("minutes", "minutes", ".1f"),
]

Row = dict[str, Any]


def figures(result: Row) -> Row:
    """The figures of a result file by name; quality in per cent, as in the paper."""
    test, train, model = result["test"], result["train"], result["model"]
    queries = [test[protocol]["queries"] for protocol in ("seen", "standard")]
    return {
        "recipe": result["recipe"],
        "model": test["model"],
        "parts": [part["run"] for part in result.get("merged_from", ()) if part["weight"] > 0],
        "merged": [part["run"] for part in result.get("merged_from", ())],
        "entity_dim": model["entity_dim"],
        "relation_dim": model["relation_dim"],
        "density": "fixed" if CORES[test["model"]].learns == "nothing" else test["core_density"],
        "relation_size": test["effective_relation_size"],
        "parameters": test["effective_parameters"],
        "unseen": 1 - queries[0] / queries[1],
        **{f"{p}.{m}": 100 * test[p][m] for p in PROTOCOLS for m in METRICS},
        "best_epoch": train["best_epoch"],
        "epochs": train["epochs"],
        "minutes": train["seconds"] / 60,
        "valid": 100 * train["seen"]["mrr"],
    }


def graph_of(recipe: str) -> str:
    """The data set that a recipe, which is named after it, is for."""
    return next(graph for graph in GRAPHS if recipe.rpartition("/")[2].startswith(graph))


def load(path: Path) -> Any:
    """The contents of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def load_all(folder: str) -> dict[str, Any]:
    """The contents of the JSON files of a folder of docs/results by their names."""
    return {path.stem: load(path) for path in sorted((DOCS / "results" / folder).glob("*.json"))}


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class Pages:
    """What the templates can name."""

    def __init__(self) -> None:
        results = [*load_all("best").values(), *load_all("paper").values()]
        self.results = {result["recipe"]: figures(result) for result in results}
        self.trials = load_all("trials")
        self.own = sorted(load_all("own").values(), key=lambda found: found["sizes"]["triples"])
        published = load(DOCS / "published.json")
        self.paper: dict[str, Row] = published["paper"]
        self.others: dict[str, Row] = published["others"]
        for recipe in self.results.keys() & self.paper.keys():
            shown = {f"published.{key}": value for key, value in self.paper[recipe].items()}
            self.results[recipe] |= shown

    def render(self, name: str) -> str:
        """One page."""
        text = (DOCS / "templates" / f"{name}.md.in").read_text(encoding="utf-8")
        text = re.sub(
            r"^\{\{with (.+?)\}\} *(.*\n\n?)",
            lambda found: found[2] if found[1] in self.results else "",
            text,
            flags=re.MULTILINE,
        )
        return re.sub(r"\{\{(.+?)\}\}", lambda found: self.show(found[1].strip()), text)

    def show(self, name: str) -> str:
        """What stands in place of {{name}}."""
        kind, _, rest = name.partition(": ")
        if kind == "file":
            return (DOCS / rest).read_text(encoding="utf-8").strip()
        if kind in ("table", "text"):
            function, *graph = rest.split()
            made: Table | str = getattr(self, f"{function}_{kind}")(*graph)
            return made.to_markdown().strip() if isinstance(made, Table) else made
        if " > " in name:
            first, second = (self.value(part) for part in name.split(" > "))
            if not first > second:
                raise ValueError(f"{name} holds no longer: write the sentence beside it anew")
            return ""
        if " - " in name:
            first, second = (self.value(part) for part in name.split(" - "))
            return f"{first - second:.1f}"
        key = "speed" if name.startswith("speed.") else name.partition(".")[2]
        return format(self.value(name), FORMATS.get(key, ".1f"))

    def value(self, name: str) -> Any:
        """The figure with this name."""
        file, _, key = name.partition(".")
        folder, _, graph = file.partition("/")
        if file == "trial":
            trial, _, epoch = key.partition("@")
            curve = self.trials[trial]["valid"]
            return 100 * (dict(curve)[int(epoch)] if epoch else max(mrr for _, mrr in curve))
        if file == "speed":
            return self.faster(key)
        if folder == "published":
            return self.others[graph][key]["mrr"] if key in GRAPHS else self.known(graph, key)
        if folder in ("one", "merged", "small"):
            return self.chosen(folder, graph)[key]
        return self.results[file][key]

    # -- what is chosen among the figures ----------------------------------------------------------

    def of(self, folder: str, graph: str) -> list[Row]:
        """The results of the recipes of one folder for one data set."""
        results = [row for row in self.results.values() if row["recipe"].startswith(f"{folder}/")]
        return [row for row in results if graph_of(row["recipe"]) == graph]

    def chosen(self, kind: str, graph: str) -> Row:
        """The best single model, small model or merge by validation triples."""
        rows = [row for row in self.of("best", graph) if bool(row["parts"]) == (kind == "merged")]
        if kind == "small":
            rows = [row for row in rows if row["entity_dim"] <= SMALL]
        return max(rows, key=lambda row: float(row["valid"]))

    def known(self, graph: str, key: str) -> float:
        """The best published MRR of other methods, or (small) of those with few dimensions."""
        found = [method[graph] for method in self.others.values()]
        few = [one for one in found if one["entity_dim"] <= SMALL] if key == "small" else found
        return max(float(one["mrr"]) for one in few)

    def faster(self, work: str) -> float:
        """How many times as fast as PyKEEN an epoch of a model, or ranking, is."""
        measured = load(BENCHMARKS / "epochs-and-ranking.json")
        side, key = measured["epochs"].get(work), "seconds_per_epoch"
        if side is None:
            side, key = measured[work], "seconds"
        return float(side["pykeen"][key] / side[key])

    def title(self, row: Row) -> str:
        """The model as it is called, a merge by its parts."""
        if not row["parts"]:
            return CORES[row["model"]].title
        return " + ".join(self.title(self.results[f"best/{part}"]) for part in row["parts"])

    # -- tables ------------------------------------------------------------------------------------

    def headline_table(self) -> Table:
        """The best model of each data set, the merge, and the best small one."""
        kinds = {"one": "best single model", "merged": "merge", "small": f"d_e up to {SMALL}"}
        rows = []
        for graph, name in GRAPHS.items():
            for kind, said in kinds.items():
                row = self.chosen(kind, graph)
                size = f"{row['entity_dim']:,} / {row['parameters'] / 1e6:.1f} M"
                known = self.known(graph, "small" if kind == "small" else "mrr")
                told = {"graph": name, "which": said, "title": self.title(row), "size": size}
                rows.append({**row, **told, "known": known})
        columns = [
            Column("data set", "graph"),
            Column("", "which"),
            Column("model", "title"),
            Column("d_e / parameters", "size"),
            Column("MRR", "standard.mrr", ".1f"),
            Column("best published", "known", ".1f"),
            Column("minutes on two cores", "minutes", ".0f"),
            Column("recipe", "recipe"),
        ]
        return Table("", columns, rows)

    def published_table(self) -> Table:
        """What others have published of the same family."""
        columns = [Column("method", "method"), Column("published by", "source")]
        for graph, name in GRAPHS.items():
            columns.append(Column(f"{name}, d_e", f"{graph}.entity_dim", ",d"))
            columns.append(Column(f"{name}, MRR", f"{graph}.mrr", ".1f", best="max"))
        rows = [
            {**method, **{f"{g}.{key}": value for g in GRAPHS for key, value in method[g].items()}}
            for method in self.others.values()
        ]
        return Table("", columns, rows)

    def best_table(self, graph: str) -> Table:
        """The recipes of recipes/best for a data set."""
        columns = [
            Column("recipe", "recipe"),
            Column("d_e", "entity_dim", ",d"),
            Column("parameters*", "parameters", ",d"),
            *(Column(METRICS[m], f"standard.{m}", ".1f", best="max") for m in METRICS),
            Column("valid MRR", "valid", ".1f", best="max"),
            *TRAINING,
        ]
        return Table("", columns, self.of("best", graph))

    def published_rows_table(self) -> Table:
        """The rows of the paper's tables next to ours; what was not trained has dashes."""
        rows = []
        for recipe, published in self.paper.items():
            shown = {f"published.{key}": value for key, value in published.items()}
            rows.append({"recipe": recipe, **shown, **self.results.get(recipe, {})})
        columns = [Column("recipe", "recipe"), Column("core density", "density", ".2%")]
        for metric in ("mrr", "hits@10"):
            for source in ("published", "seen", "paper"):
                columns.append(Column(f"{source} {METRICS[metric]}", f"{source}.{metric}", ".1f"))
        return Table("", columns, rows)

    def paper_table(self, graph: str) -> Table:
        """The recipes of recipes/paper for a data set."""
        columns = [
            Column("recipe", "recipe"),
            Column("core density", "density", ".2%"),
            Column("d_r*", "relation_size", ",.0f"),
            Column("parameters*", "parameters", ",d"),
            *(Column(f"published {METRICS[m]}", f"published.{m}", ".1f") for m in METRICS),
            *(Column(f"seen {METRICS[m]}", f"seen.{m}", ".1f") for m in METRICS),
            *TRAINING,
        ]
        return Table("", columns, self.of("paper", graph))

    def protocols_table(self, graph: str) -> Table:
        """Every recipe with a result under every protocol."""
        columns = [Column("recipe", "recipe")]
        for protocol in PROTOCOLS:
            for metric, name in METRICS.items():
                columns.append(Column(f"{protocol} {name}", f"{protocol}.{metric}", ".1f"))
        return Table("", columns, [*self.of("best", graph), *self.of("paper", graph)])

    def own_rows(self) -> list[Row]:
        """What presets and a search reach on graphs that nobody has tuned for, smallest first."""
        rows = []
        for result in self.own:
            row = {"graph": result["graph"], **result["sizes"]}
            for way in set(WAYS) & set(result):
                found, quality = result[way], result[way]["test"]["standard"]
                row |= {f"{way}.{metric}": 100 * value for metric, value in quality.items()}
                row |= {f"{way}.{key}": found[key] for key in ("seconds", "entity_dim")}
                row[f"{way}.model"] = CORES[found["model"]].title
                row[f"{way}.valid"] = 100 * found["valid"]["seen"]["mrr"]
            rows.append(row)
        return rows

    def own_table(self) -> Table:
        """Graphs of one's own, MRR and time."""
        columns = [
            Column("graph", "graph"),
            *(Column(name, name, ",d") for name in ("entities", "relations", "triples")),
            *(Column(way, f"{way}.mrr", ".1f") for way in WAYS),
            *(Column(f"{way}, s", f"{way}.seconds", ",.0f") for way in WAYS),
        ]
        return Table("", columns, self.own_rows())

    def own_models_table(self) -> Table:
        """The models behind it, and their other metrics."""
        columns = [
            Column("graph", "graph"),
            Column("by", "way"),
            Column("model", "model"),
            Column("d_e", "entity_dim", ",d"),
            Column("valid MRR, seen", "valid", ".1f"),
            *(Column(METRICS[m], m, ".1f") for m in ("mrr", "hits@1", "hits@10")),
        ]
        keys = ("model", "entity_dim", "valid", "mrr", "hits@1", "hits@10")
        rows = [
            {"graph": row["graph"], "way": way, **{key: row[f"{way}.{key}"] for key in keys}}
            for row in self.own_rows()
            for way in WAYS
            if f"{way}.mrr" in row
        ]
        return Table("", columns, rows)

    def trials_table(self, graph: str) -> Table:
        """Every trial with the settings that are its own, and its best validation MRR."""
        rows = []
        for name, trial in self.trials.items():
            if graph_of(name) != graph:
                continue
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

    # -- sentences and commands --------------------------------------------------------------------

    def agreement_text(self) -> str:
        """How many rows of the paper are reached, under both readings of its filter."""
        parts = []
        for protocol in ("seen", "paper"):
            gains = [
                row[f"{protocol}.mrr"] - row["published.mrr"]
                for row in self.results.values()
                if "published.mrr" in row
            ]
            count, span = (
                sum(gain >= 0 for gain in gains),
                f"{min(gains):+.1f} to {max(gains):+.1f}",
            )
            parts.append(f"{count} of {len(gains)} rows under `{protocol}` ({span} points)")
        return f"The published MRR is reached by {' and by '.join(parts)}."

    def untrained_text(self) -> str:
        """The rows of the paper without a result."""
        names = [f"`{name}`" for name in self.paper if name not in self.results]
        return f"Not trained: {listed(names)}." if names else "Every row was trained."

    def own_text(self) -> str:
        """What the slower ways bring next to `good`."""
        parts, rows = [], self.own_rows()
        for way, said in (("best", "`best`"), ("search", "a search")):
            found = [row for row in rows if f"{way}.mrr" in row]
            gains = [row[f"{way}.mrr"] - row["good.mrr"] for row in found]
            span = f"{min(gains):+.1f} to {max(gains):+.1f} points"
            parts.append(f"{said} brings {span} on {len(gains)} of {len(rows)} graphs")
        short = [row["graph"] for row in rows if row.get("search.seconds", 1800) < 600]
        said = f" {listed(short)} had fewer than 30 minutes of search." if short else ""
        return f"Next to `good`, {', and '.join(parts)}.{said}"

    def merge_text(self, graph: str) -> str:
        """The command that makes the merge of a data set."""
        row = self.chosen("merged", graph)
        runs = " ".join(f"runs/{part}" for part in row["merged"])
        return f"reltucker merge {runs} --out runs/{row['recipe'].rpartition('/')[2]}"

    def train_text(self, graph: str) -> str:
        """The commands that train the parts of the merge of a data set."""
        return "\n".join(
            f"reltucker train best/{part} --out runs/{part}"
            for part in self.chosen("merged", graph)["merged"]
        )


NAMES = tuple(sorted(path.name.removesuffix(".md.in") for path in DOCS.glob("templates/*.md.in")))


def page(name: str = "results") -> str:
    """One page made anew."""
    return Pages().render(name)


if __name__ == "__main__":
    for page_name in NAMES:
        (DOCS / f"{page_name}.md").write_text(page(page_name), encoding="utf-8")
