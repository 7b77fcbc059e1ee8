"""Settings are tuned: spaces, samplers, trials as resumable runs, studies in a database."""

from reltucker.search.budget import parse_count
from reltucker.search.outcome import Outcome
from reltucker.search.paper_sampler import PaperSampler
from reltucker.search.plan import Plan
from reltucker.search.search import SearchResult, run_search
from reltucker.search.space import Space

__all__ = [
    "Outcome",
    "PaperSampler",
    "Plan",
    "SearchResult",
    "Space",
    "parse_count",
    "run_search",
]
