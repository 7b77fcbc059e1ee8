"""Settings are tuned: spaces, samplers, trials as resumable runs, searches in a database."""

from reltucker.search.budget import bounds_of, parse_count
from reltucker.search.folder import run_of
from reltucker.search.outcome import Outcome
from reltucker.search.plan import Plan, digest, make_plan
from reltucker.search.samplers import PaperSampler
from reltucker.search.search import SearchResult, outcome_so_far, run_search, study_name
from reltucker.search.space import Space, recipe_and_space

__all__ = [
    "Outcome",
    "PaperSampler",
    "Plan",
    "SearchResult",
    "Space",
    "bounds_of",
    "digest",
    "make_plan",
    "outcome_so_far",
    "parse_count",
    "recipe_and_space",
    "run_of",
    "run_search",
    "study_name",
]
