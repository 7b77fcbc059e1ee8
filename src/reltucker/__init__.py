"""Relational Tucker decomposition of knowledge graphs: ranked, named link predictions.

from reltucker import load_graph, open_run, train

run = train(load_graph("triples.tsv"))
run.evaluate().frame()
run.predict("Alma Bauer", "mother")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reltucker.errors import ReltuckerError
    from reltucker.evaluation import Evaluation
    from reltucker.graph import KnowledgeGraph, load_graph, prepare_graph
    from reltucker.run import Run, merge, open_run, train
    from reltucker.training import Callback, Recipe

__version__ = "0.2.0"

__all__ = [
    "Callback",
    "Evaluation",
    "KnowledgeGraph",
    "Recipe",
    "ReltuckerError",
    "Run",
    "load_graph",
    "merge",
    "open_run",
    "prepare_graph",
    "train",
]

_HOMES = {
    "Callback": ("reltucker.training", "Callback"),
    "Evaluation": ("reltucker.evaluation", "Evaluation"),
    "KnowledgeGraph": ("reltucker.graph", "KnowledgeGraph"),
    "Recipe": ("reltucker.training", "Recipe"),
    "ReltuckerError": ("reltucker.errors", "ReltuckerError"),
    "Run": ("reltucker.run", "Run"),
    "load_graph": ("reltucker.graph", "load_graph"),
    "merge": ("reltucker.run", "merge"),
    "open_run": ("reltucker.run", "open_run"),
    "prepare_graph": ("reltucker.graph", "prepare_graph"),
    "train": ("reltucker.run", "train"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `reltucker --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reltucker' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names, for completion in a notebook."""
    return sorted([*__all__, "__version__"])
