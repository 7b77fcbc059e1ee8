"""Where studies are kept: Optuna's tables in SQLite or PostgreSQL, with heartbeats and retries."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from filelock import FileLock
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from reltucker.errors import StudyError

HEARTBEAT_SECONDS = 15
GRACE = 6
"""After so many missed heartbeats a trial counts as interrupted."""
MAX_RETRIES = 5
"""How often an interrupted trial is taken up again; one that kills its worker each time, for want
of memory, must not go on for ever."""

LOCK = 0x72656C7475636B
"""The number of the lock in PostgreSQL."""

PASSWORD_HINT = "postgresql://USER:PASSWORD@HOST/DATABASE"


def retry() -> RetryHeartbeatStaleTrialCallback:
    """What happens to an interrupted trial: the same settings wait again, with their run folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return RetryHeartbeatStaleTrialCallback(MAX_RETRIES, inherit_intermediate_values=True)


def storage_url(text: str | None, out: Path) -> str:
    """The URL of a storage, by default an SQLite file in `out`, with the driver that is used."""
    if text is None:
        database = str((out / "study.db").absolute())
        return sqlalchemy.URL.create("sqlite", database=database).render_as_string()
    try:
        url = sqlalchemy.make_url(text)
    except ArgumentError:
        raise StudyError(
            f"--storage: not a URL; write sqlite:///FILE.db or {PASSWORD_HINT}"
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StudyError(
            f"--storage {url.get_backend_name()}: studies are kept in sqlite or postgresql"
        )
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise StudyError("--storage: an SQLite study needs a file, sqlite:///FILE.db")
    if url.get_backend_name() == "sqlite":
        url = url.set(database=str(Path(url.database or "").absolute()))
    return url.render_as_string(hide_password=False)


def open_storage(url: str, heartbeat: int = HEARTBEAT_SECONDS) -> RDBStorage:
    """Open (or make) the tables of Optuna; what cannot be reached is named, without password."""
    shown = sqlalchemy.make_url(url).render_as_string(hide_password=True)
    is_file = url.startswith("sqlite")
    # A busy SQLite file is waited for; a connection that a server dropped is opened again.
    options = {"connect_args": {"timeout": 120}} if is_file else {"pool_pre_ping": True}
    try:
        # Two processes must not make the tables of a new storage at the same time.
        with _alone(sqlalchemy.create_engine(url, poolclass=NullPool)), warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=heartbeat,
                grace_period=GRACE * heartbeat,
                heartbeat_stale_trial_callback=retry(),
            )
    except ImportError:
        raise StudyError(
            f"{shown}: the driver psycopg is missing; run: pip install 'reltucker[postgresql]'"
        ) from None
    except (SQLAlchemyError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StudyError(f"{shown}: the storage cannot be opened ({reason})") from None


@contextmanager
def study_lock(storage: RDBStorage) -> Iterator[None]:
    """Only one process at a time, on whatever machine."""
    with _alone(storage.engine):
        yield


@contextmanager
def _alone(engine: sqlalchemy.Engine) -> Iterator[None]:
    """A lock file beside the SQLite file, or an advisory lock of PostgreSQL, which ends with the
    connection of its holder."""
    if engine.url.get_backend_name() == "sqlite":
        database = Path(str(engine.url.database))
        if not database.parent.is_dir():  # which the lock would make
            raise FileNotFoundError(f"there is no folder {database.parent}")
        with FileLock(f"{database}.lock"):
            yield
        return
    with engine.connect() as connection:
        key = {"key": LOCK}
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), key)
        try:
            yield
        finally:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_unlock(:key)"), key)
