"""`reltucker verify`: are the files of a run as they were written?"""

from reltucker.cli import options, output


def command(run: options.RunFolder, json: options.Json = False) -> None:
    """Compare every file of a run with its checksum.

    Other commands compare what they read; this one reads all of it. It ends with exit code 2 where
    a file is damaged.

    Example: reltucker verify runs/mine
    """
    from reltucker.errors import RunError
    from reltucker.report import Column, Table
    from reltucker.training import RunFolder

    rows = RunFolder.existing(run).verify()
    damaged = [row for row in rows if row["problem"] is not None]
    for row in rows:
        plain = "whole" if row["checksum"] else "readable; written without a checksum"
        row["state"] = plain if row["problem"] is None else "damaged"
    columns = [Column("file", "file"), Column("bytes", "bytes", ",d"), Column("state", "state")]
    output.show(json, {"run": str(run), "files": rows}, Table("", columns, rows))
    if damaged:
        raise RunError("; ".join(row["problem"] for row in damaged))
