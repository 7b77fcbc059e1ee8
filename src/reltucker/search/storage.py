"""Where studies are kept: Optuna's tables in SQLite or PostgreSQL, and a lock for all machines."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from filelock import FileLock
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from reltucker.errors import StudyError

HEARTBEAT_SECONDS = 15
GRACE = 6
"""After so many missed heartbeats a trial counts as interrupted."""

LOCK = 0x72656C7475636B
"""The number of the lock in PostgreSQL."""


def storage_url(text: str | None, out: Path) -> str:
    """The URL of a storage, by default an SQLite file in `out`, with the driver that is used."""
    try:
        url = sqlalchemy.make_url(text or f"sqlite:///{out / 'study.db'}")
    except ArgumentError:
        raise StudyError(
            "--storage: not a URL; write sqlite:///FILE.db or "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise StudyError(f"--storage {kind}: studies are kept in sqlite or postgresql")
    if kind == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise StudyError("--storage: an SQLite study needs a file, sqlite:///FILE.db")
        url = url.set(database=str(Path(str(url.database)).absolute()))
    return url.render_as_string(hide_password=False)


def shown_url(url: str) -> str:
    """The URL for a person, without its password."""
    return sqlalchemy.make_url(url).render_as_string(hide_password=True)


def open_storage(url: str) -> RDBStorage:
    """Open (or make) the tables of Optuna; what cannot be reached is named, without password."""
    shown = shown_url(url)
    # A connection that a server dropped is opened again; a busy SQLite file is waited for.
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):
        options = {"poolclass": NullPool, "connect_args": {"timeout": 120}}
    try:
        # Two processes must not make the tables of a new storage at the same time.
        with study_lock(url), warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=GRACE * HEARTBEAT_SECONDS,
            )
    except ImportError:
        raise StudyError(
            f"{shown}: the driver psycopg is missing; run: pip install 'reltucker[postgresql]'"
        ) from None
    except (SQLAlchemyError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StudyError(f"{shown}: the storage cannot be opened ({reason})") from None


@contextmanager
def study_lock(url: str) -> Iterator[None]:
    """Let one process in at a time, on whatever machine.

    A lock file beside the SQLite file, or an advisory lock of PostgreSQL; both end with their
    holder, however that ends.
    """
    parsed = sqlalchemy.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        database = Path(str(parsed.database))
        if not database.parent.is_dir():  # which the lock would make
            raise FileNotFoundError(f"there is no folder {database.parent}")
        with FileLock(f"{database}.lock"):
            yield
        return
    with sqlalchemy.create_engine(url, poolclass=NullPool).connect() as connection:
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": LOCK})
        yield
