"""The state database: opened, migrated, copied; its errors translated, and the lock of a recipe.

The runs of a recipe take turns, also those of other processes and hosts. On SQLite the lock is a
file lock beside the database, on PostgreSQL an advisory lock. Both are gone with the process that
held them, so a dead holder's lock is simply free. Shards take none.
"""

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import URL, Connection, Delete, Engine, delete, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.errors import RecipeError, RecipeLockedError, StateUnavailableError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.recipe.values import file_stem
from mlcat_ingest.sql.engine import database_url, open_engine
from mlcat_ingest.sql.filelock import FileLock, holder_of
from mlcat_ingest.sql.migrations import migrate, pending
from mlcat_ingest.sql.readonly import open_readonly

log = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")

DIALECTS: Final = ("sqlite", "postgresql")

OTHER_DATABASE: Final = "set `state: {url: …}` to another database"

# Messages of SQLite about a file that is not a sound database.
_CORRUPT: Final = ("file is not a database", "malformed", "file is encrypted", "corrupt")


# Looking must not take the lock, not even for a moment: a run that begins would find it taken.
_HELD: Final = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = :high AND objid::bigint = :low"
)

_TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:key)")
_UNLOCK: Final = text("SELECT pg_advisory_unlock(:key)")


class RunDatabase:
    """The state database as one run uses it, from any thread, for `recipe` and one catalog.

    There is none before `start`, after `stop`, and after its first failure: that costs the rest of
    what would be remembered, with one warning, and not the run.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        """Use none yet; `mask` hides secrets."""
        self.engine: Engine | None = None
        self.recipe = self.sink = ""
        self.lasting = True
        self.run_ms = 0
        self._mask = mask

    def start(
        self, engine: Engine, recipe: str, sink: str, *, lasting: bool = True, run_ms: int = 0
    ) -> None:
        """Use `engine`, for later runs if `lasting`; `run_ms`, by default now, names the run."""
        self.recipe, self.sink = recipe, sink
        self.lasting = lasting
        self.run_ms = run_ms or time.time_ns() // 1_000_000
        self.engine = engine

    def stop(self) -> None:
        """Use none from now on."""
        self.engine = None

    def attempt(self, work: Callable[[Engine], ValueT], default: ValueT) -> ValueT:
        """Return what `work` returns, `default` where there is no database or it fails."""
        engine = self.engine
        if engine is None:
            return default
        try:
            return work(engine)
        except SQLAlchemyError as error:
            self.stop()
            log.warning(
                "the state database failed; the next run reads again what this one read: %s",
                self._mask(driver_message(error)),
            )
            return default

    def connect(self) -> Connection:
        """Return a connection.

        Raises:
            StateUnavailableError: there is no database.
        """
        if self.engine is None:
            raise StateUnavailableError("the state database is not open")
        return self.engine.connect()


def open_state(url: str) -> Engine:
    """Return an engine of the state database at `url`, its tables up to date.

    The folder and the file of an SQLite database are made where they are missing.

    Raises:
        RecipeError: it is not a database that can hold state, it is damaged, or a newer version
            made it.
        MissingExtraError: it is PostgreSQL's, and the driver is not installed.
        StateUnavailableError: it cannot be made, written or reached.
    """
    address = lasting_address(url)
    path = file_of(address)
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateUnavailableError(
                f"the folder {path.parent} for the state cannot be created: {error.strerror}",
                hint=OTHER_DATABASE,
            ) from error
    # Losing the last commits with the power costs a run time, and an fsync a batch costs each run.
    engine = open_engine(address.render_as_string(hide_password=False), durable=False)
    with ExitStack() as unless_open, translate_errors(url):
        unless_open.callback(engine.dispose)
        migrate(engine, tables.COMPONENT, tables.MIGRATIONS)
        unless_open.pop_all()
    return engine


def lasting_address(url: str) -> URL:
    """Return the address of a database that can hold state; nothing is contacted.

    Raises:
        RecipeError: it is of another kind, or is forgotten with the process.
    """
    address = database_url(url)
    if address.get_backend_name() not in DIALECTS:
        raise RecipeError(
            f"state cannot be kept in {printable_url(url)}",
            hint="use an SQLite file (sqlite:///.mlcat/state.db) or a PostgreSQL database",
        )
    if address.get_backend_name() == "sqlite" and file_of(address) is None:
        raise RecipeError(
            "state in memory would be lost after the run",
            hint="use a file: sqlite:///.mlcat/state.db",
        )
    return address


def file_of(url: str | URL) -> Path | None:
    """Return the file of an SQLite database, None for any other and for one in memory."""
    address = _address(url)
    name = address.database or ""
    if address.get_backend_name() != "sqlite" or name in {"", ":memory:"}:
        return None
    return Path(name)


def is_missing(url: str) -> bool:
    """Return whether the state would be in a file that is not there."""
    path = file_of(url)
    return path is not None and not path.exists()


def printable_url(url: str | URL) -> str:
    """Return the address of a state database without its password."""
    path = file_of(url)
    return _address(url).render_as_string(hide_password=True) if path is None else str(path)


def _address(url: str | URL) -> URL:
    return url if isinstance(url, URL) else database_url(url)


@contextmanager
def translate_errors(url: str | URL) -> Iterator[None]:
    """Turn a database's error into one of ours.

    Raises:
        RecipeError: the database is damaged.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    try:
        yield
    except SQLAlchemyError as error:
        message = driver_message(error)
        if any(word in message for word in _CORRUPT):
            raise RecipeError(
                f"the state database {printable_url(url)} is damaged: {message}",
                hint="delete it: the next run reads everything again, and nothing is lost",
            ) from error
        raise StateUnavailableError(
            f"the state database {printable_url(url)} cannot be used: {message}",
            hint=OTHER_DATABASE,
        ) from error


def driver_message(error: SQLAlchemyError) -> str:
    """Return the driver's message on one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


@contextmanager
def read_only(url: str, *, timeout_s: float) -> Iterator[Connection | None]:
    """Give a connection that sees the state as it is now, None where an older version made it.

    Nothing is changed, and no lock is taken. There has to be a database.

    Raises:
        NotAuthorizedError: the file may not be read.
        RecipeError: the database is damaged, or a newer version made it.
        StateUnavailableError: it cannot be reached.
    """
    engine = open_readonly(url, timeout_s=timeout_s)
    try:
        with translate_errors(url), engine.connect() as connection, connection.begin():
            is_older = bool(pending(connection, tables.COMPONENT, tables.MIGRATIONS))
            yield None if is_older else connection
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a recipe's lock: process, host, and its start in epoch milliseconds."""

    pid: int
    host: str
    since_ms: int

    def __str__(self) -> str:
        """Return the holder as words for the user."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


class Lock(Protocol):
    """A recipe's lock that is held."""

    def release(self) -> None:
        """Let the next run begin; safe to call twice."""
        ...


def acquire(engine: Engine, url: str, recipe: str) -> Lock:
    """Return the lock of `recipe` in the state database at `url`, that `engine` has open.

    Raises:
        RecipeLockedError: another run has it.
        StateUnavailableError: there can be no lock there.
    """
    path = lock_file(url, recipe)
    lock = _AdvisoryLock.take(engine, url, recipe) if path is None else _take_file(path)
    if lock is None:
        other = holder(engine, url, recipe)
        raise RecipeLockedError(
            f"another run of {recipe!r} is in progress{f': {other}' if other else ''}",
            hint="wait for it; to run both at once, change the `name` of one",
        )
    return lock


@contextmanager
def held_state(url: str, recipe: str) -> Iterator[Engine]:
    """Give the state database at `url` opened, with the lock of `recipe` held.

    Raises: as `open_state` and `acquire`.
    """
    with ExitStack() as resources:
        engine = open_state(url)
        resources.callback(engine.dispose)
        resources.callback(acquire(engine, url, recipe).release)
        yield engine


def holder(engine: Engine, url: str, recipe: str) -> Holder | None:
    """Return the run of `recipe` in progress, None if there is none, or it is not known."""
    path = lock_file(url, recipe)
    if path is not None:
        match holder_of(path):
            case {"pid": int(pid), "host": str(host), "since_ms": int(since_ms)}:
                return Holder(pid, host, since_ms)
            case _:
                return None
    key = _key(recipe) % 2**64
    with translate_errors(url), engine.connect() as connection:
        if not connection.scalar(_HELD, {"high": key >> 32, "low": key % 2**32}):
            return None
        row = connection.execute(
            select(tables.holder).where(tables.holder.c.recipe == recipe)
        ).first()
    return None if row is None else Holder(row.pid, row.host, row.since_ms)


def lock_file(url: str, recipe: str) -> Path | None:
    """Return the lock file of a recipe, None where the database has locks of its own.

    One database serves many recipes, so each has a file, under a name that its file system takes.
    """
    path = file_of(url)
    return path and path.with_name(f"{path.name}.{file_stem(recipe)}.lock")


def _take_file(path: Path) -> Lock | None:
    try:
        return FileLock.take(path, _this_process())
    except OSError as error:
        raise StateUnavailableError(
            f"the lock file {path} cannot be created: {error.strerror}",
            hint=OTHER_DATABASE,
        ) from error


def _this_process() -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    return {"pid": os.getpid(), "host": socket.gethostname(), "since_ms": now_ms}


@dataclass(frozen=True, slots=True)
class _AdvisoryLock:
    """A lock of PostgreSQL, held by a connection that does nothing else."""

    _connection: Connection
    _recipe: str

    @classmethod
    def take(cls, engine: Engine, url: str, recipe: str) -> "_AdvisoryLock | None":
        with translate_errors(url), ExitStack() as unless_taken:
            # Without a transaction, which would be idle for as long as the run takes.
            connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            unless_taken.callback(_close, connection)
            if not connection.scalar(_TRY_LOCK, {"key": _key(recipe)}):
                return None
            connection.execute(_delete_holder(recipe))
            connection.execute(insert(tables.holder).values(recipe=recipe, **_this_process()))
            unless_taken.pop_all()
        return cls(connection, recipe)

    def release(self) -> None:
        if self._connection.closed:
            return
        try:
            self._connection.execute(_delete_holder(self._recipe))
            # A closed connection keeps its lock until the server notices that it is closed.
            self._connection.execute(_UNLOCK, {"key": _key(self._recipe)})
        except SQLAlchemyError:
            pass  # the connection is lost, and the lock with it
        finally:
            _close(self._connection)


def _close(connection: Connection) -> None:
    # For good: a pooled connection would keep the lock.
    connection.invalidate()
    connection.close()


def _delete_holder(recipe: str) -> Delete:
    return delete(tables.holder).where(tables.holder.c.recipe == recipe)


def _key(recipe: str) -> int:
    """Return the number of a recipe's advisory lock, 64 bits with a sign."""
    digest = hashlib.sha256(f"mlcat-ingest {recipe}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
