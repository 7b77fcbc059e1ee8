"""Settings are chosen and tuned: presets, spaces, samplers, resumable trials, searches in a
database."""

from reltucker.search.budget import bounds_of, parse_count
from reltucker.search.folder import run_of
from reltucker.search.outcome import Outcome
from reltucker.search.plan import Plan, digest, make_plan
from reltucker.search.presets import DEFAULT_PRESET, filled, graph_and_recipe
from reltucker.search.samplers import PaperSampler
from reltucker.search.search import SearchResult, outcome_so_far, run_search, study_name
from reltucker.search.space import Space, recipe_and_space

__all__ = [
    "DEFAULT_PRESET",
    "Outcome",
    "PaperSampler",
    "Plan",
    "SearchResult",
    "Space",
    "bounds_of",
    "digest",
    "filled",
    "graph_and_recipe",
    "make_plan",
    "outcome_so_far",
    "parse_count",
    "recipe_and_space",
    "run_of",
    "run_search",
    "study_name",
]
