"""A model is fitted: recipe, objective, negatives, loop, stopping, the run folder."""

from reltucker.training.folding import add_to_run, fold_in, solve
from reltucker.training.loop import Enough, Training, Watcher
from reltucker.training.merging import merge_runs
from reltucker.training.objectives.rows import RowObjective
from reltucker.training.recipe import Recipe
from reltucker.training.recipe_files import names_recipe, recipe_file, recipe_names
from reltucker.training.run_folder import BEST, CHECKPOINT, RESULT, START, RunFolder
from reltucker.training.settings import GraphSettings, ModelSettings, TrainSettings
from reltucker.training.setup import build_model, check, choose_device, settled, trained_model
from reltucker.training.starting import save_start, starting_recipe
from reltucker.training.trackers import Callback, check_installed
from reltucker.training.weighting import score_spread
from reltucker.training.work import epoch_seconds, ranking_seconds

__all__ = [
    "BEST",
    "CHECKPOINT",
    "RESULT",
    "START",
    "Callback",
    "Enough",
    "GraphSettings",
    "ModelSettings",
    "Recipe",
    "RowObjective",
    "RunFolder",
    "TrainSettings",
    "Training",
    "Watcher",
    "add_to_run",
    "build_model",
    "check",
    "check_installed",
    "choose_device",
    "epoch_seconds",
    "fold_in",
    "merge_runs",
    "names_recipe",
    "ranking_seconds",
    "recipe_file",
    "recipe_names",
    "save_start",
    "score_spread",
    "settled",
    "solve",
    "starting_recipe",
    "trained_model",
]
