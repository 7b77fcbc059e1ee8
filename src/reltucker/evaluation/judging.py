"""How a model does on one split, all figures together."""

import time
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from reltucker.errors import GraphError
from reltucker.evaluation.breakdown import Breakdown, break_down
from reltucker.evaluation.calibration import Calibration
from reltucker.evaluation.classification import Classification, classify_triples
from reltucker.evaluation.metrics import Metrics
from reltucker.evaluation.protocols import PROTOCOLS, Protocol
from reltucker.evaluation.ranking import fully_filtered, rank_split, sampled
from reltucker.graph import SPLITS, KnowledgeGraph, SplitName
from reltucker.model import RelationalTucker, Sizes, sizes_of
from reltucker.progress import track
from reltucker.report import Column, Table
from reltucker.report.notebook import card
from reltucker.report.tables import Value

SHOWN = 20
"""Groups of a break-down that a notebook shows."""


@dataclass(frozen=True)
class Evaluation:
    """How a model does on one split, under every protocol."""

    split: SplitName
    model: str
    entity_dim: int
    relation_dim: int
    sizes: Sizes
    seconds: float
    metrics: dict[Protocol, Metrics]
    breakdown: tuple[Breakdown, list[dict[str, Any]]] | None = None
    classification: Classification | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Of validation triples, FULL_FILTER with their figures."""

    def __repr__(self) -> str:
        seen = self.metrics["seen"]
        figures = f"MRR {seen.mrr:.4f}, HITS@10 {seen.hits[10]:.4f}, {seen.queries:,} queries"
        return f"Evaluation({self.model} on {self.split}, protocol seen: {figures})"

    def _repr_html_(self) -> str:
        sizes: dict[str, Value] = {
            "d_e, d_r": f"{self.entity_dim:,}, {self.relation_dim:,}",
            "effective parameters": self.sizes.effective_parameters,
            "seconds": f"{self.seconds:.1f}",
        }
        if self.classification is not None:
            sizes |= self.classification.to_dict()
        formats = {"mrr": ".4f", "hits@1": ".4f", "hits@3": ".4f", "hits@10": ".4f"}
        formats |= {"mean_rank": ",.1f", "queries": ",d"}
        columns = [Column(name, name, spec) for name, spec in formats.items()]
        rows = [{"protocol": p, **self.metrics[p].to_dict()} for p in PROTOCOLS]
        tables = [Table("", [Column("protocol", "protocol"), *columns], rows)]
        if self.breakdown is not None:
            by, groups = self.breakdown
            title = f"protocol seen, {min(SHOWN, len(groups))} of {len(groups)}; frame() has all"
            rows = [{by: group.get("label", group[by]), **group["seen"]} for group in groups]
            tables.append(Table(title, [Column(by, by), *columns], rows[:SHOWN]))
        return card(f"Evaluation of {self.model} on {self.split}", sizes, tables=tables)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as `reltucker evaluate --json` prints it."""
        more: dict[str, Any] = {}
        if self.breakdown is not None:
            more[f"by_{self.breakdown[0]}"] = self.breakdown[1]
        if self.classification is not None:
            more["classification"] = self.classification.to_dict()
        return {
            "split": self.split,
            "model": self.model,
            "entity_dim": self.entity_dim,
            "relation_dim": self.relation_dim,
            "effective_relation_size": self.sizes.effective_relation_size,
            "effective_parameters": self.sizes.effective_parameters,
            "seconds": self.seconds,
            "core_density": self.sizes.core_density,
            **{protocol: self.metrics[protocol].to_dict() for protocol in PROTOCOLS},
            **self.more,
            **more,
        }

    def frame(self) -> pl.DataFrame:
        """A row for each protocol; with a break-down, for each of its groups and protocols."""
        whole = {protocol: self.metrics[protocol].to_dict() for protocol in PROTOCOLS}
        rows = [
            {
                **{key: value for key, value in group.items() if key not in PROTOCOLS},
                "protocol": protocol,
                **group[protocol],
            }
            for group in (self.breakdown[1] if self.breakdown else [whole])
            for protocol in PROTOCOLS
        ]
        return pl.DataFrame(rows)


def evaluate(
    name: str,
    model: RelationalTucker,
    graph: KnowledgeGraph,
    split: SplitName,
    by: Breakdown | None = None,
    *,
    sample: int | None = None,
    calibration: Calibration | None = None,
    progress: bool = True,
) -> Evaluation:
    """Rank the triples of a split, or a sample of them, in both directions; with `calibration`
    they are also told from corrupted ones. `name` is the model's."""
    began = time.monotonic()
    triples = graph.split(split)
    if not len(triples):
        others = [other for other in SPLITS if len(graph.split(other))]
        raise GraphError(
            f"{graph.name} has no {split} triples to judge by, only those of {' and '.join(others)}"
            "; choose another split, or train on a folder with train, valid and test"
        )
    if sample is not None:
        triples = sampled(triples, sample)
    with track(f"ranking {split}", 2 * len(triples), "queries", progress) as advance:
        ranking = rank_split(model, graph, split, triples=triples, advance=advance)
    classified = None
    if calibration is not None:
        classified = classify_triples(model, graph, calibration, split, sample=sample)
    return Evaluation(
        split=split,
        model=name,
        entity_dim=model.core.entity_dim,
        relation_dim=model.core.relation_dim,
        sizes=sizes_of(model),
        seconds=time.monotonic() - began,
        metrics=ranking.metrics(),
        breakdown=None if by is None else (by, break_down(ranking, graph, by)),
        classification=classified,
        more=fully_filtered(model, graph, triples) if split == "valid" else {},
    )
