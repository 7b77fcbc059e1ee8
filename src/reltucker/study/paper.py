"""The paper's study as data: what `reltucker study` does unless it is told otherwise."""

MODELS = ("complex", "drt", "srt")
SIZES = (50, 100, 200)
TRIALS = 12
"""Of each search: 8 random points of the grid, then 4 guided ones."""

MATCHED, BUDGET = "drt", "complex"
"""With matched parameters the one is also fitted with the budgets of the other."""
MATCHED_STEP = 4
"""Its sizes are multiples of this then, as the paper's 32, 52 and 84 are."""
