"""The parts of a comparison of fits: one method for each table or figure of the paper."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reltucker.errors import ReltuckerError
from reltucker.evaluation import PROTOCOLS, Protocol
from reltucker.report import Column, Table
from reltucker.report.charts import bar_panels, quality_against, relation_bars, training_curves
from reltucker.report.page import Part
from reltucker.report.theme import AnyChart, titled
from reltucker.study.fits import Fit, Fits
from reltucker.study.inspection import (
    MIXING_COLUMNS,
    describe_mixing,
    mixing_charts,
    most_frequent,
)
from reltucker.study.quality import Certainty
from reltucker.study.relation_wise import compare_relations
from reltucker.study.skyline import skyline

METRICS = {"mrr": "MRR", "hits@1": "HITS@1", "hits@3": "HITS@3", "hits@10": "HITS@10"}
COSTS = {
    "seconds_per_epoch": "seconds per epoch",
    "seconds": "seconds in all",
    "peak_mebibytes": "peak memory, MiB",
    "epoch_gigaoperations": "billion operations per epoch",
}
PATTERNS = 4
"""How many of the most frequent relations are drawn where none are named."""

MODEL = [Column("model", "model"), Column("d_e", "entity_dim", "d", spare=1)]
PARAMETERS = Column("parameters*", "effective_parameters", ",d", spare=2)
SIZES = [
    Column("d_r", "relation_dim", "d", spare=4),
    Column("d_r*", "effective_relation_size", ",.0f", spare=4),
    PARAMETERS,
]
SPARE_METRICS = {"mrr": 0, "hits@1": 3, "hits@3": 4, "hits@10": 1}
METRIC_COLUMNS = [
    Column(name, key, ".3f", interval=True, spare=SPARE_METRICS[key])
    for key, name in METRICS.items()
]
QUALITY = [replace(column, best="max") for column in METRIC_COLUMNS]
MRR = QUALITY[0]
RUN = Column("run", "run", spare=1)
COST = [
    Column("epochs", "epochs", ",d", spare=3),
    Column("best epoch", "best_epoch", ",d", spare=4),
    Column("s / epoch", "seconds_per_epoch", ",.3f"),
    Column("s in all", "seconds", ",.1f", spare=1),
    Column("peak MiB", "peak_mebibytes", ",.0f", spare=1),
    Column("billion ops / epoch", "epoch_gigaoperations", ",.3f", spare=3),
    Column("million ops / query", "query_megaoperations", ",.3f", spare=3),
]
DIFFERENCE = [
    Column("difference of MRR", "difference", "+.4f", interval=True),
    Column("p", "p", ".4f", spare=1),
]
ADJUSTED = Column("p, Holm", "p_holm", ".4f", spare=2)


@dataclass(frozen=True)
class Options:
    """What a comparison shows.

    `max_entity_dim` limits the table of best fits. `sparse` and `against` name the two runs of the
    relation-wise comparison: the first gives the diagonals and the heat maps of `relations`.
    """

    protocol: Protocol = "seen"
    max_entity_dim: int | None = None
    relations: tuple[str, ...] = ()
    sparse: str | None = None
    against: str | None = None
    certainty: Certainty = field(default_factory=Certainty)


class Comparing:
    """A comparison in the making: the fits with their figures, and a method for each part."""

    def __init__(self, fits: Fits, options: Options) -> None:
        self.fits, self.options = fits, options
        self.protocol, self.certainty = options.protocol, options.certainty
        self.others = [p for p in PROTOCOLS if p != options.protocol]
        names = [fit.name for fit in fits.fits]
        self.quality = {
            p: dict(zip(names, self.certainty.qualities(fits.fits, p), strict=True))
            for p in PROTOCOLS
        }
        limit = options.max_entity_dim
        small = [fit for fit in fits.fits if limit is None or fit.entity_dim <= limit]
        if not small:
            raise ReltuckerError(f"no run has an entity size of at most {limit}")
        self.best_fits = self._best_of_each(small, lambda fit: fit.kind)
        by_size = self._best_of_each(fits.fits, lambda fit: (fit.kind, fit.entity_dim))
        order = [fit.kind for fit in fits.fits]
        self.by_size = sorted(by_size, key=lambda fit: (order.index(fit.kind), fit.entity_dim))

    def parts(self) -> dict[str, Part]:
        """All that apply to these fits, in the paper's order."""
        makers = [self.best, self.training, self.entity_size, self.skyline, self.patterns]
        makers += [self.relations] if len(self.fits.fits) > 1 else []
        makers += [self.cost, self.baselines, self.all_fits]
        made = {make.__name__: make() for make in makers}
        return {name: part for name, part in made.items() if part is not None}

    # -- the parts ----------------------------------------------------------------------------

    def best(self) -> Part:
        """The paper's main table, the other protocols, and the differences between models."""
        limit = self.options.max_entity_dim
        up_to = "" if limit is None else f" up to entity size {limit}"
        rows = [self.row(fit) for fit in self.best_fits]
        others = [Column(f"MRR, {p}", f"{p} mrr", ".3f", best="max", spare=5) for p in self.others]
        protocols = [
            {"model": fit.kind, "protocol": p, "run": fit.name, **self.quality[p][fit.name]}
            for fit in self.best_fits
            for p in PROTOCOLS
        ]
        by_protocol = [MODEL[0], Column("protocol", "protocol"), *METRIC_COLUMNS, RUN]
        # Where all best fits are of one model, single runs are compared.
        compared = self.best_fits if len(self.best_fits) > 1 else self.fits.fits
        pairs = list(itertools.combinations(compared, 2))
        found = self.certainty.differences(pairs, self.protocol)
        differing = [
            {"first": first.label, "second": second.label, **difference}
            for (first, second), difference in zip(pairs, found, strict=True)
        ]
        columns = [Column("first", "first"), Column("second", "second"), *DIFFERENCE, ADJUSTED]
        title = f"Best fit of each model{up_to}"
        paired = "Differences, first minus second, with a paired test"
        chart = bar_panels(rows, METRICS, shares=True)
        return Part(
            "The best fit of each model",
            "d_r*: effective relation size; parameters*: effective number of parameters, that is "
            "free and not zero. d_r is left out where it follows from d_e.",
            {
                "best": Table(title, [*MODEL, *SIZES, *QUALITY, *others, RUN], rows),
                "protocols": Table("The same fits under every protocol", by_protocol, protocols),
                **({"differences": Table(paired, columns, differing)} if pairs else {}),
            },
            charts={"best": self.drawn(chart, title, f"{title}, with intervals over the bars")},
        )

    def training(self) -> Part | None:
        """Validation MRR and loss by epoch, of the fits whose runs still have their records."""
        epochs = {fit.kind: fit.open().epochs() for fit in self.best_fits}
        if not any(epochs.values()):
            return None
        about = f"{self.fits.graph.name}, valid, protocol seen"
        chart = titled(training_curves(epochs), "Validation MRR and loss by epoch", about)
        charts = {"training": (chart, "By epoch; points mark those whose weights were kept")}
        return Part("Training", "The same fits while they were trained.", charts=charts)

    def entity_size(self) -> Part:
        """MRR against d_e."""
        rows = [self.row(fit) for fit in self.by_size]
        title, chart = "MRR by entity size", quality_against(rows, "entity_dim", "entity size d_e")
        return Part(
            "Quality and entity size",
            "The best fit of each model and entity size.",
            {"entity-size": Table(title, [*MODEL, *SIZES, MRR, RUN], rows)},
            charts={"entity-size": self.drawn(chart, title, f"{title}, with intervals")},
        )

    def skyline(self) -> Part:
        """MRR against effective parameters, dominated fits left out."""
        kept: list[Fit] = []
        for group in _groups(self.fits.fits, lambda fit: fit.kind):
            sizes = [fit.sizes.effective_parameters for fit in group]
            kept += [group[i] for i in skyline(sizes, [self.merit(fit) for fit in group])]
        rows = [self.row(fit) for fit in kept]
        axis = "effective number of parameters (d_e beside the points)"
        chart = quality_against(rows, "effective_parameters", axis, note="entity_dim")
        title = "MRR against effective parameters"
        return Part(
            "Quality and effective parameters",
            "The skyline: a fit is left out if another fit of the same model has at most as many "
            "effective parameters and at least its MRR on the validation triples, and is better in "
            f"one of the two. {len(kept)} of {len(self.fits.fits)} fits stay.",
            {"skyline": Table("Fits that are not dominated", [*MODEL, *SIZES, MRR, RUN], rows)},
            charts={"skyline": self.drawn(chart, title, f"{title}, with intervals")},
        )

    def patterns(self) -> Part | None:
        """|M_k| of chosen relations as heat maps, of a core that became sparse or if asked for."""
        fit, graph = self.sparse_fit(), self.fits.graph
        if not (fit.is_sparse or self.options.sparse or self.options.relations):
            return None
        chosen = [graph.relations.find(name) for name in self.options.relations]
        chosen = chosen or most_frequent(graph, PATTERNS)
        run = self.fits.open(fit)
        rows = [describe_mixing(run, k) for k in chosen]
        return Part(
            "Learned sparsity patterns" if fit.is_sparse else "Mixing matrices",
            f"|M_k| in {fit.label}: bright cells are pairs of coordinates that interact. "
            f"{fit.sizes.core_density:.4%} of its core's entries are not zero. Diagonal: the sum "
            "of the absolute diagonal values of M_k, also as a share of all absolute values.",
            {"patterns": Table(f"Mixing matrices of {fit.label}", MIXING_COLUMNS, rows)},
            charts=mixing_charts(run, chosen, "pattern"),
        )

    def relations(self) -> Part:
        """Two fits side by side on the most frequent relations."""
        first = self.sparse_fit()
        second = self.other_fit(first)
        relations, groups = compare_relations(
            self.fits, first, second, self.protocol, self.certainty
        )
        names = {"first": first.kind, "second": second.kind}
        if first.kind == second.kind:
            names = {"first": first.label, "second": second.label}
        columns = [
            Column("train triples", "triples", ",d", spare=3),
            Column("tested", "tested", ",d", spare=1),
            Column("diagonal", "diagonal", ",.2f", spare=2),
            *(
                Column(
                    f"{name} {METRICS[key]}", f"{which}_{key}", ".3f", interval=True, spare=spare
                )
                for key, spare in (("mrr", 0), ("hits@10", 3))
                for which, name in names.items()
            ),
            *DIFFERENCE,
            ADJUSTED,
        ]
        bars = [
            {
                "relation": row["shown"],
                "model": name,
                "tested": row["tested"],
                **{f"mrr{end}": row.get(f"{which}_mrr{end}") for end in ("", "_low", "_high")},
            }
            for row in relations
            for which, name in names.items()
            if row["group"] and row["tested"]
        ]
        title = "MRR on the relations with the strongest diagonals, then with the weakest"
        caption = f"{title}, with intervals over the bars"
        count = len(relations)
        return Part(
            "Relation by relation",
            f"{first.label} and {second.label} on the {count} most frequent relations of train, "
            f"by the sum of absolute diagonal values of the mixing matrices of {first.name}; "
            "groups are judged over the queries of their relations together.",
            {
                "relation-groups": Table(
                    "The relations with the strongest and with the weakest diagonals",
                    [Column("relations", "group"), *columns],
                    groups,
                ),
                "relations": Table(
                    f"The {count} most frequent relations, strongest diagonal first",
                    [Column("relation", "label"), Column("group", "group", spare=4), *columns],
                    relations,
                ),
            },
            charts=({"relations": self.drawn(relation_bars(bars), title, caption)} if bars else {}),
        )

    def cost(self) -> Part:
        """Time, memory and operations."""
        rows = [
            {**self.row(fit), **fit.cost, "fit": f"{fit.kind} {fit.entity_dim}"}
            for fit in self.by_size
        ]
        title = "Time, memory and operations"
        chart = bar_panels(rows, COSTS, by="fit", format=",.3~r")
        columns = [*MODEL, PARAMETERS, *COST, RUN]
        return Part(
            "Cost",
            "Seconds per epoch are those of training alone; seconds in all include validation. "
            "Peak memory is the largest resident size of the training process until the fit "
            "ended, so that fits made one after another in one process share it. Operations are "
            "counted for the model that was kept: per epoch of training, forward and backward; per "
            "query to rank all entities.",
            {"cost": Table("Cost of the best fit of each model and entity size", columns, rows)},
            charts={"cost": (titled(chart, title, self.fits.graph.name), title)},
        )

    def baselines(self) -> Part | None:
        """With and without reciprocal relations, where a model was fitted both ways."""
        fits = sorted(self.by_size, key=lambda fit: (fit.model, fit.entity_dim, fit.reciprocal))
        pairs = [
            (later, earlier)
            for earlier, later in itertools.pairwise(fits)
            if (earlier.model, earlier.entity_dim) == (later.model, later.entity_dim)
        ]
        if not pairs:
            return None
        found = self.certainty.differences(pairs, self.protocol)
        gains = {later.name: row for (later, _), row in zip(pairs, found, strict=True)}
        rows = [
            {
                **self.row(fit),
                "base": fit.model,
                "fit": f"{fit.kind} {fit.entity_dim}",
                **gains.get(fit.name, {}),
            }
            for fit in fits
        ]
        reciprocal = Column("reciprocal", "reciprocal")
        columns = [Column("model", "base"), MODEL[1], reciprocal, *SIZES[1:], *QUALITY]
        title = "Fits without and with reciprocal relations"
        chart = bar_panels(rows, METRICS, by="fit", shares=True)
        return Part(
            title,
            "With reciprocal relations (?, k, j) is asked as (j, k^-1, ?), each inverse having an "
            "embedding of its own. Differences are those of a fit with reciprocal relations to "
            "the one without.",
            {"baselines": Table(title, [*columns, *DIFFERENCE, RUN], rows)},
            charts={"baselines": self.drawn(chart, title, title)},
        )

    def all_fits(self) -> Part:
        """Every fit that was compared."""
        density = Column("core density", "core_density", ".4%", spare=3)
        valid = Column("MRR on valid", "valid_mrr", ".3f", best="max")
        columns = [RUN, *MODEL, *SIZES, density, valid, MRR]
        rows = [self.row(fit) for fit in self.fits.fits]
        return Part("All fits", "In the order given.", {"fits": Table("All fits", columns, rows)})

    # -- what the parts share -----------------------------------------------------------------

    def drawn(self, chart: AnyChart, title: str, caption: str) -> tuple[AnyChart, str]:
        """A chart of these figures, with a title that says whose, and a caption."""
        about = f"{self.fits.graph.name}, {self.fits.split}, protocol {self.protocol}"
        return titled(chart, title, about), caption

    def merit(self, fit: Fit) -> float:
        """By what fits are chosen: the MRR on valid; without valid triples that on the split."""
        if fit.valid_mrr is not None:
            return fit.valid_mrr[self.protocol]
        return float(self.quality[self.protocol][fit.name]["mrr"])

    def row(self, fit: Fit) -> dict[str, Any]:
        """All figures of a fit, under the chosen protocol and beside it the others."""
        return {
            "run": fit.name,
            "model": fit.kind,
            "reciprocal": fit.reciprocal,
            "entity_dim": fit.entity_dim,
            "relation_dim": fit.relation_dim,
            **fit.sizes.to_dict(),
            "valid_mrr": None if fit.valid_mrr is None else fit.valid_mrr[self.protocol],
            **self.quality[self.protocol][fit.name],
            **{
                f"{p} {key}": value
                for p in self.others
                for key, value in self.quality[p][fit.name].items()
            },
        }

    def sparse_fit(self) -> Fit:
        """The named run, or the best that has learned which entries exist, or the first."""
        if self.options.sparse is not None:
            return self.fits.named(self.options.sparse)
        sparse = [fit for fit in self.fits.fits if fit.is_sparse]
        return self._best_learning("pattern", sparse or self.fits.fits)

    def other_fit(self, first: Fit) -> Fit:
        """The named run, or the best other model with a fixed core, or the first of another model,
        or the first other one."""
        if self.options.against is not None:
            other = self.fits.named(self.options.against)
            if other is first:
                raise ReltuckerError(f"{other.name} cannot be compared with itself by relation")
            return other
        others = [fit for fit in self.fits.fits if fit is not first]
        others = [fit for fit in others if fit.model != first.model] or others
        return self._best_learning("nothing", others)

    def _best_learning(self, what: str, fits: Sequence[Fit]) -> Fit:
        """The best fit whose core learns just this, those without reciprocal relations before the
        others; without any, the first fit."""
        own = [fit for fit in fits if fit.learns == what]
        return max(own, key=lambda fit: (not fit.reciprocal, self.merit(fit)), default=fits[0])

    def _best_of_each(self, fits: Sequence[Fit], key: Callable[[Fit], Any]) -> list[Fit]:
        """The fit with the highest merit for each key; of equal ones that with fewer parameters."""
        return [
            max(group, key=lambda fit: (self.merit(fit), -fit.sizes.effective_parameters))
            for group in _groups(fits, key)
        ]


def _groups(fits: Iterable[Fit], key: Callable[[Fit], Any]) -> list[list[Fit]]:
    """Fits of one key together, in the order of first mention."""
    groups: dict[Any, list[Fit]] = {}
    for fit in fits:
        groups.setdefault(key(fit), []).append(fit)
    return list(groups.values())
