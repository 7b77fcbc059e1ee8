"""Fits are compared: tables, pictures and reports, the same content for screen, paper and page."""

from reltucker.study.charts import (
    chart_svg,
    comparison_bars,
    core_slices,
    mixing_heat_map,
    relation_bars,
    save_chart,
    slice_density,
    training_curves,
)
from reltucker.study.report import Report
from reltucker.study.tables import PERCENT, TEXT, Column, Table

__all__ = [
    "PERCENT",
    "TEXT",
    "Column",
    "Report",
    "Table",
    "chart_svg",
    "comparison_bars",
    "core_slices",
    "mixing_heat_map",
    "relation_bars",
    "save_chart",
    "slice_density",
    "training_curves",
]
