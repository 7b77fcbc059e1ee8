"""A model is fitted: recipe, objective, negatives, loop, stopping, the run folder."""

from reltucker.training.loop import Training, Watcher
from reltucker.training.merging import merge_runs
from reltucker.training.recipe import GraphSettings, ModelSettings, Recipe, TrainSettings
from reltucker.training.run_folder import BEST, CHECKPOINT, RunFolder
from reltucker.training.setup import build_model, check, choose_device, settled, trained_model

__all__ = [
    "BEST",
    "CHECKPOINT",
    "GraphSettings",
    "ModelSettings",
    "Recipe",
    "RunFolder",
    "TrainSettings",
    "Training",
    "Watcher",
    "build_model",
    "check",
    "choose_device",
    "merge_runs",
    "settled",
    "trained_model",
]
