"""Answers to a file."""

from pathlib import Path

import polars as pl

from reltucker.atomic import write_with
from reltucker.errors import ReltuckerError


def check_answer_file(path: Path) -> None:
    """Refuse a file name whose ending stands for no known format, before any work is done."""
    if path.suffix.lower() not in (".tsv", ".csv", ".parquet"):
        raise ReltuckerError(f"--out {path}: the name must end with .tsv, .csv or .parquet")


def write_answers(answers: pl.DataFrame, path: Path, what: str) -> str:
    """Write a frame of answers; the ending of the name decides the format. Returns a line that says
    so; `what` the rows are is in the plural."""
    check_answer_file(path)
    match path.suffix.lower():
        case ".parquet":
            write_with(path, answers.write_parquet)
        case ".csv":
            write_with(path, answers.write_csv)
        case _:
            texts = answers.select(pl.col(pl.String)).unpivot()["value"]
            if texts.str.contains("[\t\r\n]").any():
                raise ReltuckerError(
                    f"--out {path}: there are names with tabs or line ends, which TSV cannot hold; "
                    "choose a .csv or .parquet file"
                )
            # The reader of this format knows no quotes, so neither does its writer.
            write_with(path, lambda p: answers.write_csv(p, separator="\t", quote_style="never"))
    return f"wrote {len(answers):,} {what} to {path}"
