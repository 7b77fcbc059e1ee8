"""A knowledge graph: vocabularies, three splits of integer triples, and their answer index."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from reltucker.arguments import check_choice
from reltucker.atomic import write_bytes, write_with
from reltucker.checksums import DIFFERS, checksum, signed, unsigned
from reltucker.choices import SplitName as SplitName
from reltucker.errors import GraphError
from reltucker.graph.answers import COLUMNS, AnswerIndex, Direction, Keys
from reltucker.graph.panics import quiet_panics
from reltucker.graph.tables import POLARS_FAILURES
from reltucker.graph.vocabulary import Vocabulary
from reltucker.report.notebook import bars, card

SPLITS: tuple[SplitName, ...] = get_args(SplitName)

Triples = npt.NDArray[np.int32]

COUNTED = 2_000_000
"""Up to so many triples a notebook counts those of each relation."""

_DAMAGE: tuple[type[BaseException], ...] = (*POLARS_FAILURES, SafetensorError, KeyError)

NAMES = ("entities.parquet", "relations.parquet")
TRIPLES = "triples.safetensors"
GRAPH_FILES = (*NAMES, TRIPLES)
"""What `KnowledgeGraph.save` writes."""
_OF = "checksum of "
"""The metadata of the triples have the checksums of all three files under this and what they are
of."""


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Triples (subject, relation, object) as ids, in three splits of shape (n, 3).

    Entities that occur in train have the ids 0 .. seen_entities - 1, so "seen in train" is a
    comparison and the seen candidates are a prefix. Triples of valid and test with other entities
    or relations are kept; the evaluation protocol decides about them.
    `counts` holds what was met while reading (duplicates dropped, literals skipped, ...).
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Triples
    valid: Triples
    test: Triples
    seen_entities: int
    seen_relations: int
    counts: Mapping[str, int] = field(default_factory=dict)
    _indexes: dict[Direction, AnswerIndex] = field(default_factory=dict, init=False, repr=False)
    _pairs: dict[Direction, Keys] = field(default_factory=dict, init=False, repr=False)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self._sizes().items())
        return f"KnowledgeGraph({self.name!r}, {sizes})"

    def _repr_html_(self) -> str:
        counts, caption = {}, "training triples of the most frequent relations"
        if len(self.train) <= COUNTED:
            times = np.bincount(self.train[:, 1], minlength=self.seen_relations)
            most = np.argsort(-times, kind="stable")[:6].tolist()
            counts = {self.relations.label(k): int(times[k]) for k in most if times[k]}
        return card(f"Graph {self.name}", self._sizes(), bars(counts), caption)

    def _sizes(self) -> dict[str, int]:
        """What is shown of a graph, without a look at its triples."""
        sizes = {"entities": len(self.entities), "relations": len(self.relations)}
        return sizes | {split: len(self.split(split)) for split in SPLITS}

    def split(self, name: SplitName) -> Triples:
        """The triples of one split."""
        check_choice("split", name, SPLITS)
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    def answers(self, direction: Direction) -> AnswerIndex:
        """The answer index over all splits for one direction, built once."""
        if direction not in self._indexes:
            splits = [self.train, self.valid, self.test]
            sizes = len(self.entities), len(self.relations)
            self._indexes[direction] = AnswerIndex.build(direction, splits, *sizes)
        return self._indexes[direction]

    def with_answers(self, *indexes: AnswerIndex) -> "KnowledgeGraph":
        """The same graph, which has these answer indexes and need not build them."""
        self._indexes.update({index.direction: index for index in indexes})
        return self

    def occurring(self, relation: int, direction: Direction) -> Keys:
        """The entities that are objects (or subjects) of a relation in train, ascending."""
        size = len(self.entities)
        if direction not in self._pairs:
            column = COLUMNS[direction][2]
            pairs = self.train[:, 1].astype(np.int64) * size + self.train[:, column]
            self._pairs[direction] = np.unique(pairs)
        pairs = self._pairs[direction]
        begin, end = np.searchsorted(pairs, [relation * size, (relation + 1) * size])
        return pairs[begin:end] - relation * size

    def is_seen(self, triples: Triples) -> npt.NDArray[np.bool_]:
        """Which triples have both entities and the relation in train."""
        subjects, relations, objects = triples.T
        seen = (subjects < self.seen_entities) & (objects < self.seen_entities)
        return np.asarray(seen & (relations < self.seen_relations))

    def named(self, triples: npt.NDArray[np.integer[Any]]) -> pl.DataFrame:
        """Triples (n, 3) as a frame of names: subject, relation, object."""
        subjects, relations, objects = triples.T
        return pl.DataFrame(
            {
                "subject": self.entities.names.gather(subjects),
                "relation": self.relations.names.gather(relations),
                "object": self.entities.names.gather(objects),
            }
        )

    def labelled(self, labels: pl.DataFrame) -> "KnowledgeGraph":
        """The graph with labels of a frame (id, name), which go before its own."""
        entities, relations = self.entities.labelled(labels), self.relations.labelled(labels)
        return replace(self, entities=entities, relations=relations)

    def shown(self, named: pl.DataFrame) -> pl.DataFrame:
        """A frame of names with what to show to a person in their place."""
        places = {"subject": self.entities, "relation": self.relations, "object": self.entities}
        shown = {p: v.shown.gather(v.ids(named[p])) for p, v in places.items()}
        return named.with_columns(**shown)

    def save(self, folder: Path) -> None:
        """Write the graph as entities.parquet, relations.parquet and triples.safetensors."""
        sums = {}
        for name, vocabulary in zip(NAMES, (self.entities, self.relations), strict=True):
            content = io.BytesIO()
            vocabulary.to_frame().write_parquet(content)
            write_bytes(folder / name, content.getvalue())
            sums[name] = checksum(content.getvalue())
        tensors = {name: np.ascontiguousarray(self.split(name)) for name in SPLITS}
        sums |= {name: checksum(triples) for name, triples in tensors.items()}
        metadata = {
            "name": self.name,
            "seen_entities": str(self.seen_entities),
            "seen_relations": str(self.seen_relations),
            **{f"count.{key}": str(value) for key, value in self.counts.items()},
            **{_OF + name: value for name, value in sums.items()},
        }
        write_with(folder / TRIPLES, lambda path: save_file(tensors, path, signed(metadata)))

    @classmethod
    def load(cls, folder: Path) -> "KnowledgeGraph":
        """The inverse of `save`; a missing or damaged file is named."""
        try:
            path = folder / TRIPLES
            with safe_open(path, framework="numpy") as file:
                metadata = unsigned(file.metadata() or {})
            sums = {k.removeprefix(_OF): v for k, v in metadata.items() if k.startswith(_OF)}
            path = folder / NAMES[0]
            entities = Vocabulary.from_frame(_read_names(path, sums), "entity")
            path = folder / NAMES[1]
            relations = Vocabulary.from_frame(_read_names(path, sums), "relation")
            path = folder / TRIPLES
            tensors = load_file(path)
            if any(name in sums and checksum(tensors[name]) != sums[name] for name in SPLITS):
                raise ValueError(DIFFERS)
            train, valid, test = (tensors[name] for name in SPLITS)
            name = metadata["name"]
            seen_entities = int(metadata["seen_entities"])
            seen_relations = int(metadata["seen_relations"])
            counts = {k[6:]: int(v) for k, v in metadata.items() if k.startswith("count.")}
        except _DAMAGE as cause:
            reason = (str(cause).splitlines() or [type(cause).__name__])[0]
            raise GraphError(f"{path} is missing or damaged ({reason})") from cause
        sizes = np.array([len(entities), len(relations), len(entities)])
        for split, triples in zip(SPLITS, (train, valid, test), strict=True):
            if triples.dtype != np.int32 or triples.ndim != 2 or triples.shape[1] != 3:
                raise GraphError(f"{path} is damaged: split {split} does not hold 32-bit triples")
            if np.any((triples < 0) | (triples >= sizes)):
                raise GraphError(f"{path} is damaged: split {split} has ids without a name")
        # An empty train has no largest id.
        subject, relation, object_ = train.max(axis=0, initial=-1)
        fits = max(subject, object_) < seen_entities <= len(entities)
        if not (fits and relation < seen_relations <= len(relations)):
            raise GraphError(f"{path} is damaged: split train does not fit its seen names")
        seen = seen_entities, seen_relations
        return cls(name, entities, relations, train, valid, test, *seen, counts)


def has_checksums(folder: Path) -> bool:
    """Whether the files of a graph that was saved there are compared when they are read."""
    with safe_open(folder / TRIPLES, framework="numpy") as file:
        return any(name.startswith(_OF) for name in file.metadata() or {})


def _read_names(path: Path, sums: Mapping[str, str]) -> pl.DataFrame:
    content = path.read_bytes()
    if path.name in sums and checksum(content) != sums[path.name]:
        raise ValueError(DIFFERS)
    with quiet_panics():
        return pl.read_parquet(io.BytesIO(content))
