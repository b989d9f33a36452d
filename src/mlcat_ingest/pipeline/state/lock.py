"""The lock of a recipe: its runs take turns, also those of other processes and hosts.

On SQLite it is a file lock beside the state database, on PostgreSQL an advisory lock; both are gone
with the process that held them, so a dead holder's lock is simply free. Shards take none.
"""

import hashlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy import Connection, Delete, Engine, delete, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.errors import RecipeLockedError, StateUnavailableError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.pipeline.state.database import file_of, open_state, translate_errors
from mlcat_ingest.recipe.paths import file_stem
from mlcat_ingest.sql.filelock import FileLock, holder_of

# Looking must not take the lock, not even for a moment: a run that begins would find it taken.
_HELD: Final = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = :high AND objid::bigint = :low"
)

_TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:key)")
_UNLOCK: Final = text("SELECT pg_advisory_unlock(:key)")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who runs a recipe just now: process, host, and when it began, in epoch milliseconds."""

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
            f"another run of {recipe!r} is at work{f': {other}' if other else ''}",
            hint="wait for it; to run both at once, give one of them another `name`",
        )
    return lock


@contextmanager
def held_state(url: str, recipe: str) -> Iterator[Engine]:
    """Give the state database at `url` opened, with the lock of `recipe` held.

    Raises: as `open_state` and `acquire`.
    """
    engine = open_state(url)
    try:
        lock = acquire(engine, url, recipe)
        try:
            yield engine
        finally:
            lock.release()
    finally:
        engine.dispose()


def holder(engine: Engine, url: str, recipe: str) -> Holder | None:
    """Return who runs `recipe` just now, None where nobody does or does not say."""
    path = lock_file(url, recipe)
    if path is not None:
        return _holder(holder_of(path))
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
    if path is None:
        return None
    return path.with_name(f"{path.name}.{file_stem(recipe)}.lock")


def _take_file(path: Path) -> Lock | None:
    try:
        return FileLock.take(path, asdict(_me()))
    except OSError as error:
        raise StateUnavailableError(
            f"the lock file {path} cannot be made: {error.strerror}",
            hint="name another database in `state: {url: …}`",
        ) from error


def _me() -> Holder:
    return Holder(os.getpid(), socket.gethostname(), time.time_ns() // 1_000_000)


def _holder(said: Mapping[str, object] | None) -> Holder | None:
    match said:
        case {"pid": int(pid), "host": str(host), "since_ms": int(since_ms)}:
            return Holder(pid, host, since_ms)
        case _:
            return None


class _AdvisoryLock:
    """A lock of PostgreSQL, held by a connection that does nothing else."""

    def __init__(self, connection: Connection, recipe: str) -> None:
        self._connection = connection
        self._recipe = recipe

    @classmethod
    def take(cls, engine: Engine, url: str, recipe: str) -> "_AdvisoryLock | None":
        with translate_errors(url), ExitStack() as unless_taken:
            # Without a transaction, which would be idle for as long as the run takes.
            connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            unless_taken.callback(_close, connection)
            if not connection.scalar(_TRY_LOCK, {"key": _key(recipe)}):
                return None
            connection.execute(_forget(recipe))
            connection.execute(insert(tables.holder).values(recipe=recipe, **asdict(_me())))
            unless_taken.pop_all()
        return cls(connection, recipe)

    def release(self) -> None:
        if self._connection.closed:
            return
        try:
            self._connection.execute(_forget(self._recipe))
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


def _forget(recipe: str) -> Delete:
    return delete(tables.holder).where(tables.holder.c.recipe == recipe)


def _key(recipe: str) -> int:
    """Return the number of a recipe's advisory lock, 64 bits with a sign."""
    digest = hashlib.sha256(f"mlcat-ingest {recipe}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
