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
Each file has its checksum inside (`checksums`), those of Parquet files in the triples'.
"""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from reltucker.atomic import parse_json, read_json, write_json, write_text
from reltucker.checksums import CHECKSUM, PREFIX, signed, signed_text, unsigned, verify_text
from reltucker.errors import RecipeError, ReltuckerError, RunError
from reltucker.evaluation import CALIBRATION, Calibration
from reltucker.folders import LOCK, is_free, sole_writer
from reltucker.graph import GRAPH_FILES, KnowledgeGraph, has_checksums
from reltucker.machine import physical_memory
from reltucker.peers import ALONE, Peers
from reltucker.training import shards
from reltucker.training.joining import join
from reltucker.training.recipe import Recipe
from reltucker.training.records import EpochRecord, ResultRecord

RECIPE = "recipe.toml"
BEST = "best.safetensors"
CHECKPOINT = "checkpoint.safetensors"
START = "start.safetensors"
EPOCHS = "epochs.jsonl"
RESULT = "result.json"

BEFORE_RECIPE = {*GRAPH_FILES, BEST, START, RESULT}
"""What may stand in a folder before it is a run; recipe.toml, which says that it is, comes last."""

LARGE = 0.25
"""A share of the memory; larger files are not copied into it."""


class RunFolder:
    """Reads and writes the files of one run; a damaged one is named, never half-read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls,
        path: Path | str,
        recipe: Recipe,
        graph: KnowledgeGraph,
        contents: Callable[["RunFolder"], None] | None = None,
    ) -> "RunFolder":
        """A new run folder, with contents of its own if it has any from the beginning; one that
        holds anything else than a run that was begun and killed is never written to."""
        folder = cls(path)
        folder.refuse_taken()
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            for name in BEFORE_RECIPE:
                (folder.path / name).unlink(missing_ok=True)
            graph.save(folder.path)
            if contents is not None:
                contents(folder)
            folder.save_recipe(recipe)  # last: its presence says that the folder is whole
        except OSError as error:
            raise RunError(f"{folder.path} cannot be written: {error}") from error
        return folder

    def writing(self, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold the folder as its only writer; of several processes, the first one does."""
        return sole_writer(self.path, wait)

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
        """runs/GRAPH-MODEL-1, or the next number that is free, as an empty folder."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", graph).strip("._")[:60] or "graph"
        number = 1
        while True:
            path = Path("runs") / f"{stem}-{model}-{number}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return path

    def refuse_taken(self) -> None:
        """Refuse a path that holds anything, unless it is a run that was never whole."""
        if self.exists():
            raise RunError(
                f"{self.path} holds a run already; resume it with `reltucker resume "
                f"{self.path}`, or choose another folder"
            )
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another path")
        if not is_free(self.path) and not self._is_unfinished():
            raise RunError(
                f"{self.path} is not empty, and what it holds is no run; choose a new or an empty "
                "folder"
            )

    def _is_unfinished(self) -> bool:
        """Whether a process was killed here before the run was whole."""
        found = {path.name for path in self.path.iterdir()}
        return LOCK in found and found <= {LOCK, *BEFORE_RECIPE}

    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.path / RECIPE).is_file()

    def recipe(self) -> Recipe:
        """The run's recipe."""
        path = self.path / RECIPE
        try:
            verify_text(path.read_text(encoding="utf-8"))
            return Recipe.load(path, of_run=True)
        except RecipeError as error:
            raise RunError(f"the run's recipe is damaged: {error}") from error
        except (OSError, ValueError) as error:
            raise RunError(
                f"{path} is damaged ({error}); if you have changed it yourself, remove its "
                "first line, the checksum"
            ) from None

    def save_recipe(self, recipe: Recipe) -> None:
        """Write recipe.toml."""
        write_text(self.path / RECIPE, signed_text(recipe.to_toml()))

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
        path = self.path / EPOCHS
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(_line(record))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error

    def epochs(self) -> list[dict[str, Any]]:
        """The whole lines of epochs.jsonl; a line cut short by a crash is left out."""
        path = self.path / EPOCHS
        if not path.is_file():
            return []
        records = []
        lines = path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                records.append(EpochRecord.checked(unsigned(parse_json(line))))
            except ValueError as error:
                raise RunError(f"{path} is damaged: line {number} ({error})") from None
        return records

    def keep_epochs(self, last: int) -> list[dict[str, Any]]:
        """Cut epochs.jsonl back to the epochs up to `last`, from where a run is resumed."""
        kept = [record for record in self.epochs() if record["epoch"] <= last]
        write_text(self.path / EPOCHS, "".join(map(_line, kept)))
        return kept

    def save_result(self, result: dict[str, Any]) -> None:
        """Write result.json: training has ended."""
        write_json(self.path / RESULT, signed(result))

    def result(self) -> dict[str, Any] | None:
        """What came out of training, or None while it has not ended."""
        path = self.path / RESULT
        if not path.is_file():
            return None
        try:
            return ResultRecord.checked(unsigned(read_json(path)))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is damaged ({error})") from error

    # -- all of it --------------------------------------------------------------------------------

    def verify(self) -> list[dict[str, Any]]:
        """Read every file of the run: a row for each, with its bytes, whether it has a checksum to
        be compared with, and what is wrong, if anything is."""
        rows = [self._verified([RECIPE], self._verify_recipe)]
        rows.append(self._verified(list(GRAPH_FILES), self._verify_graph))
        for name in (BEST, CHECKPOINT, START):
            if self.has(name):
                files = [path.name for path in shards.files(self.path / name)]
                check = partial(shards.verify_tensors, self.path / name)
                rows.append(self._verified(files, check))
        for name, read in (
            (EPOCHS, self._all_epochs),
            (RESULT, self.result),
            (CALIBRATION, lambda: Calibration.load(self.path)),
        ):
            if (self.path / name).is_file():
                rows.append(self._verified([name], partial(self._verify_json, name, read)))
        return rows

    def _verified(self, files: list[str], check: Callable[[], bool]) -> dict[str, Any]:
        problem, compared = None, False
        try:
            compared = check()
        except (ReltuckerError, OSError) as error:
            problem = str(error)
        paths = [self.path / name for name in files]
        return {
            "file": ", ".join(files),
            "bytes": sum(path.stat().st_size for path in paths if path.is_file()),
            "checksum": compared,
            "problem": problem,
        }

    def _all_epochs(self) -> None:
        """Read epochs.jsonl, which in a run that has ended is not cut short."""
        found, result = len(self.epochs()), None
        with suppress(ReltuckerError):  # which is told of result.json
            result = self.result()
        if result is not None and found < result["epochs"]:
            raise RunError(
                f"{self.path / EPOCHS} is damaged: it has {found} of {result['epochs']} epochs"
            )

    def _verify_recipe(self) -> bool:
        self.recipe()
        return PREFIX in (self.path / RECIPE).read_text(encoding="utf-8")

    def _verify_graph(self) -> bool:
        self.graph()
        return has_checksums(self.path)

    def _verify_json(self, name: str, read: Callable[[], Any]) -> bool:
        read()
        return f'"{CHECKSUM}": "{PREFIX}'.encode() in (self.path / name).read_bytes()


def _line(record: dict[str, Any]) -> str:
    """A line of epochs.jsonl."""
    return json.dumps(signed(record), allow_nan=False) + "\n"
