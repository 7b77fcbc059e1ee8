"""Embeddings for other tools: Parquet, and word2vec's text format."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors.numpy import save_file
from torch import Tensor

from reltucker.arguments import check_choice
from reltucker.atomic import write_with
from reltucker.choices import ExportFormat as ExportFormat
from reltucker.choices import Factor
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import RelationalTucker, without_normalisation

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

Matrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Embeddings:
    """E, R and the core as numpy arrays, which cannot be written: they may be the model's own.

    entities (N, d_e), relations (K, d_r), and with reciprocal relations inverse_relations (K, d_r);
    row n belongs to the name n of `names`. core: `G` (d_e, d_e, d_r), or where it is sparse its
    entries `i`, `j`, `l` (0-based) and `value`. Batch normalisation is written into the factors,
    which then have one more coordinate each: the score is e_i^T (G x_3 r_k) e_j in any case.
    """

    entities: Matrix
    relations: Matrix
    inverse_relations: Matrix | None
    core: dict[str, npt.NDArray[Any]]
    names: dict[Factor, Vocabulary]

    @classmethod
    def of(cls, model: RelationalTucker, graph: KnowledgeGraph) -> "Embeddings":
        """Those of a model."""
        model = without_normalisation(model)
        K = model.relations
        names: dict[Factor, Vocabulary] = {"entities": graph.entities, "relations": graph.relations}
        if model.reciprocal:
            names["inverse_relations"] = graph.relations
        return cls(
            entities=_array(model.E),
            relations=_array(model.R[:K]),
            inverse_relations=_array(model.R[K:]) if model.reciprocal else None,
            core={name: _array(part) for name, part in model.core.explicit().items()},
            names=names,
        )

    def frame(self, of: Factor = "entities") -> pl.DataFrame:
        """A row for each name: name, label, embedding (an array of d_e or d_r numbers)."""
        check_choice("of", of, list(self.names))
        values = getattr(self, of)
        kind = pl.Float64 if values.dtype == np.float64 else pl.Float32
        return pl.DataFrame(
            {
                "name": self.names[of].names,
                "label": self.names[of].shown,
                "embedding": pl.Series(values, dtype=pl.Array(kind, values.shape[1])),
            }
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {getattr(self, name).shape}" for name in self.names)
        core = ", ".join(f"{name} {part.shape}" for name, part in self.core.items())
        return f"Embeddings({sizes}, core: {core})"


def export_embeddings(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    folder: Path,
    formats: Sequence[ExportFormat] = FORMATS,
) -> list[Path]:
    """Write the `Embeddings`: entities and relations in each format, the core as core.safetensors.

    Parquet has the columns of their frames; the row number is the id. Returns the files written.
    """
    embeddings = Embeddings.of(model, graph)
    written: list[Path] = []
    for stem, vocabulary in embeddings.names.items():
        if "parquet" in formats:
            path = folder / f"{stem}.parquet"
            write_with(path, embeddings.frame(stem).write_parquet)
            written.append(path)
        if "word2vec" in formats:
            path = folder / f"{stem}.word2vec.txt"
            write_with(path, partial(_write_word2vec, vocabulary, getattr(embeddings, stem)))
            written.append(path)
    path = folder / "core.safetensors"
    core = {name: np.ascontiguousarray(part) for name, part in embeddings.core.items()}
    write_with(path, lambda temporary: save_file(core, temporary))
    return [*written, path]


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.detach().cpu().numpy().view()
    array.flags.writeable = False
    return array


def _write_word2vec(vocabulary: Vocabulary, values: Matrix, path: Path) -> None:
    """A header line `count dimension`, then `name v1 v2 ...` for each row.

    The format separates by white space, so white space in a name becomes `_`; where two names
    would then be the same, later ones get `_2`, `_3`, ... Rows stand in the order of the ids.
    """
    taken: set[str] = set()
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"{values.shape[0]} {values.shape[1]}\n")
        for name, row in zip(vocabulary.names, values, strict=True):
            word = token = "_".join(str(name).split()) or "_"
            number = 1
            while token in taken:
                number += 1
                token = f"{word}_{number}"
            taken.add(token)
            file.write(f"{token} {' '.join(np.char.mod('%.7g', row))}\n")
