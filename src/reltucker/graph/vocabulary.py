"""The names of entities or relations: dense ids, exact names, optional display labels."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz import process

from reltucker.errors import NameNotFoundError


class Vocabulary:
    """Names by id (0, 1, 2, ...), held in one Arrow string column so that millions stay small."""

    def __init__(
        self,
        names: pl.Series | Sequence[str],
        labels: pl.Series | Sequence[str | None] | None = None,
        kind: str = "entity",
    ) -> None:
        self.names = pl.Series("name", names, dtype=pl.String)
        self.labels = None if labels is None else pl.Series("label", labels, dtype=pl.String)
        self.kind = kind

    def __repr__(self) -> str:
        some = ", ".join(repr(name[:40]) for name in self.names[:3])
        return f"Vocabulary({len(self):,} of kind {self.kind}: {some}{', ...' * (len(self) > 3)})"

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The exact name of one id."""
        return str(self.names[int(index)])

    def label(self, index: int) -> str:
        """What to show to a person: the label where there is one, the name otherwise."""
        return str(self.shown[int(index)])

    @cached_property
    def shown(self) -> pl.Series:
        """What to show to a person, for every id."""
        if self.labels is None:
            return self.names.alias("label")
        return pl.select(pl.coalesce(self.labels, self.names).alias("label")).to_series()

    def find(self, text: str) -> int:
        """The id whose name, or else whose label, is `text`.

        Raises NameNotFoundError with the nearest names, or with the names that share the label.
        """
        by_name = (self.names == text).arg_true()
        if len(by_name):
            return int(by_name[0])
        by_label = (self.shown == text).arg_true()
        if len(by_label) == 1:
            return int(by_label[0])
        if len(by_label) > 1:
            some = ", ".join(repr(self.name(i)) for i in by_label[:5])
            many = "entities" if self.kind == "entity" else f"{self.kind}s"
            raise NameNotFoundError(
                f"the label {text!r} belongs to {len(by_label)} {many}; use a name instead: {some}"
            )
        nearest = self.nearest(text)
        hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        shown = text if len(text) <= 120 else f"{text[:120]}…"
        raise NameNotFoundError(f"no {self.kind} is called {shown!r}{hint}")

    def nearest(self, text: str, count: int = 3) -> list[str]:
        """The names or labels most like `text`, best first."""
        text = text[:200]
        found: list[str] = []
        for column in [self.names] if self.labels is None else [self.labels, self.names]:
            matches = process.extract(text, column.drop_nulls().to_list(), limit=count)
            found.extend(match for match, score, _ in matches if score >= 60 and match not in found)
        return found[:count]

    def ids(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """Ids of many exact names; -1 where a name is not in the vocabulary."""
        texts = names if isinstance(names, pl.Series) else list(names)
        wanted = pl.DataFrame({"name": pl.Series(texts, dtype=pl.String)})
        table = self.names.to_frame().with_row_index("id")
        found = wanted.join(table, on="name", how="left", maintain_order="left")["id"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy()

    def locate(self, texts: pl.Series) -> npt.NDArray[np.int64]:
        """As `find` for many at once; -1 where it would raise."""
        ids = self.ids(texts)
        if self.labels is not None and (ids < 0).any():
            table = self.shown.to_frame().with_row_index("id").filter(pl.col("label").is_unique())
            wanted = pl.DataFrame({"label": texts})
            by_label = wanted.join(table, on="label", how="left", maintain_order="left")["id"]
            ids = np.where(ids < 0, by_label.cast(pl.Int64).fill_null(-1).to_numpy(), ids)
        return ids

    def labelled(self, labels: pl.DataFrame) -> "Vocabulary":
        """The same names with labels of a frame (id, name); a name that has none there keeps its
        own. Without a label for any name there is no column of them."""
        ids = self.names.alias("id").to_frame()
        found = ids.join(labels, on="id", how="left", maintain_order="left")["name"]
        if found.null_count() == len(found):
            return self
        if self.labels is not None:
            found = pl.select(pl.coalesce(found, self.labels)).to_series()
        return Vocabulary(self.names, found, self.kind)

    def to_frame(self) -> pl.DataFrame:
        """Columns `name` and, where there are any, `label`; the row number is the id."""
        frame = self.names.alias("name").to_frame()
        return frame if self.labels is None else frame.with_columns(self.labels.alias("label"))

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, kind: str) -> "Vocabulary":
        """The inverse of `to_frame`; ValueError when the names are not all strings."""
        if frame["name"].dtype != pl.String or frame["name"].null_count():
            raise ValueError(f"the {kind} names are not all strings")
        return cls(frame["name"], frame["label"] if "label" in frame.columns else None, kind)
