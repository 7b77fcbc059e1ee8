"""Embeddings for other tools: Parquet, and word2vec's text format."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import torch
from safetensors.torch import save_file
from torch import Tensor

from reltucker.atomic import write_with
from reltucker.choices import ExportFormat as ExportFormat
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import RelationalTucker, without_normalisation

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


def export_embeddings(
    model: RelationalTucker,
    graph: KnowledgeGraph,
    folder: Path,
    formats: Sequence[ExportFormat] = FORMATS,
) -> list[Path]:
    """Write entities and relations in each format, and the core as core.safetensors: `G`
    (d_e, d_e, d_r), or where the core is sparse its entries `i`, `j`, `l` (0-based) and `value`.

    Parquet has the columns name, label and embedding (an array of d_e or d_r floats); the row
    number is the id. Batch normalisation is written into the factors, which then have one more
    coordinate each. Returns the files written.
    """
    model = without_normalisation(model)
    written: list[Path] = []
    parts = [
        ("entities", graph.entities, model.E),
        ("relations", graph.relations, model.R[: model.relations]),
    ]
    if model.reciprocal:
        parts.append(("inverse_relations", graph.relations, model.R[model.relations :]))
    for stem, vocabulary, matrix in parts:
        if "parquet" in formats:
            path = folder / f"{stem}.parquet"
            write_with(path, _frame(vocabulary, matrix).write_parquet)
            written.append(path)
        if "word2vec" in formats:
            path = folder / f"{stem}.word2vec.txt"
            write_with(path, partial(_write_word2vec, vocabulary, matrix))
            written.append(path)
    path = folder / "core.safetensors"
    core = {
        name: part.cpu().clone(memory_format=torch.contiguous_format)
        for name, part in model.core.explicit().items()
    }
    write_with(path, lambda temporary: save_file(core, temporary))
    return [*written, path]


def _frame(vocabulary: Vocabulary, matrix: Tensor) -> pl.DataFrame:
    values = matrix.detach().cpu().numpy()
    return pl.DataFrame(
        {
            "name": vocabulary.names,
            "label": vocabulary.shown,
            "embedding": pl.Series(values, dtype=pl.Array(pl.Float32, values.shape[1])),
        }
    )


def _write_word2vec(vocabulary: Vocabulary, matrix: Tensor, path: Path) -> None:
    """A header line `count dimension`, then `name v1 v2 ...` for each row.

    The format separates by white space, so white space in a name becomes `_`; where two names
    would then be the same, later ones get `_2`, `_3`, ... Rows stand in the order of the ids.
    """
    values = matrix.detach().cpu().numpy()
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
