"""The run folder: all that a trained model is, in files that any tool can read.

recipe.toml              every setting of the run
entities.parquet         names and labels by id; relations.parquet likewise
triples.safetensors      the known triples, by split
best.safetensors         the weights of the best epoch
checkpoint.safetensors   the last state: weights, optimiser, random state, progress
start.safetensors        weights that training began with, where another run gave them
epochs.jsonl             one line for each epoch
result.json              what came out, once training has ended
calibration.json         what makes probabilities of scores, where there are validation triples

What several processes have trained stands in a file for each of them, with an index (`shards`).
"""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from reltucker.atomic import write_json, write_text
from reltucker.errors import RecipeError, RunError
from reltucker.graph import KnowledgeGraph
from reltucker.machine import physical_memory
from reltucker.peers import ALONE, Peers
from reltucker.training import shards
from reltucker.training.joining import join
from reltucker.training.recipe import Recipe

RECIPE = "recipe.toml"
BEST = "best.safetensors"
CHECKPOINT = "checkpoint.safetensors"
START = "start.safetensors"
EPOCHS = "epochs.jsonl"
RESULT = "result.json"

LARGE = 0.25
"""A share of the memory; larger files are not copied into it."""


class RunFolder:
    """Reads and writes the files of one run; a damaged one is named, never half-read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: Path | str, recipe: Recipe, graph: KnowledgeGraph) -> "RunFolder":
        """A new run folder; one that holds a run already is never overwritten."""
        folder = cls(path)
        folder.refuse_taken()
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            graph.save(folder.path)
            folder.save_recipe(recipe)  # last: its presence says that the folder is whole
        except OSError as error:
            raise RunError(f"{folder.path} cannot be written: {error}") from error
        return folder

    @classmethod
    def existing(cls, path: Path | str) -> "RunFolder":
        """The folder of a run that was started before."""
        folder = cls(path)
        if not folder.exists():
            raise RunError(
                f"{folder.path} is not a run folder: it has no {RECIPE}; "
                "`reltucker train` makes one"
            )
        return folder

    @staticmethod
    def free(graph: str, model: str) -> Path:
        """runs/GRAPH-MODEL-1, or the next number that is free."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", graph).strip("._")[:60] or "graph"
        number = 1
        while (path := Path("runs") / f"{stem}-{model}-{number}").exists():
            number += 1
        return path

    def refuse_taken(self) -> None:
        """Refuse a path that holds a run or is a file."""
        if self.exists():
            raise RunError(
                f"{self.path} holds a run already; resume it with `reltucker resume "
                f"{self.path}`, or choose another folder"
            )
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another path")

    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.path / RECIPE).is_file()

    def recipe(self) -> Recipe:
        """The run's recipe."""
        try:
            return Recipe.load(self.path / RECIPE, of_run=True)
        except RecipeError as error:
            raise RunError(f"the run's recipe is damaged: {error}") from error

    def save_recipe(self, recipe: Recipe) -> None:
        """Write recipe.toml."""
        recipe.save(self.path / RECIPE)

    def graph(self) -> KnowledgeGraph:
        """The run's graph, from its own files."""
        return KnowledgeGraph.load(self.path)

    def has(self, name: str) -> bool:
        """Whether tensors of this name are there."""
        return shards.exists(self.path / name)

    def drop(self, name: str) -> None:
        """Remove tensors, if they are there."""
        shards.remove(self.path / name)

    def save_tensors(
        self,
        name: str,
        tensors: dict[str, Tensor],
        state: dict[str, Any],
        peers: Peers = ALONE,
        entities: int = 0,
    ) -> None:
        """Write tensors and a JSON state as one safetensors file, or several processes together as
        one for each of them."""
        shards.save_tensors(self.path / name, tensors, state, peers, entities)

    def load_tensors(
        self, name: str, peers: Peers = ALONE, entities: int = 0
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The inverse of `save_tensors`."""
        return shards.load_tensors(self.path / name, peers, entities)

    def best_tensors(self, peers: Peers = ALONE, entities: int = 0) -> dict[str, Tensor]:
        """The weights of the best epoch, to be read only. A file that would take much of the memory
        is used where it lies."""
        path = self.path / BEST
        is_large = path.is_file() and path.stat().st_size > LARGE * physical_memory()
        return shards.load_tensors(path, peers, entities, in_place=is_large)[0]

    def join_best(self) -> None:
        """Make one file of the weights of the best epoch. Where that cannot be done, for want of
        room, they are read from several."""
        with suppress(OSError):
            join(self.path / BEST)

    def append_epoch(self, record: dict[str, Any]) -> None:
        """Add one line to epochs.jsonl."""
        line = json.dumps(record, allow_nan=False) + "\n"
        with open(self.path / EPOCHS, "a", encoding="utf-8") as file:
            file.write(line)

    def epochs(self) -> list[dict[str, Any]]:
        """The whole lines of epochs.jsonl; a line cut short by a crash is left out."""
        path = self.path / EPOCHS
        if not path.is_file():
            return []
        records = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                break
            if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
                raise RunError(f"{path} is damaged: a line is not the record of an epoch")
            records.append(record)
        return records

    def keep_epochs(self, last: int) -> list[dict[str, Any]]:
        """Cut epochs.jsonl back to the epochs up to `last`, from where a run is resumed."""
        kept = [record for record in self.epochs() if record["epoch"] <= last]
        write_text(self.path / EPOCHS, "".join(json.dumps(record) + "\n" for record in kept))
        return kept

    def save_result(self, result: dict[str, Any]) -> None:
        """Write result.json: training has ended."""
        write_json(self.path / RESULT, result)

    def result(self) -> dict[str, Any] | None:
        """What came out of training, or None while it has not ended."""
        path = self.path / RESULT
        if not path.is_file():
            return None
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is damaged ({error})") from error
        return result
