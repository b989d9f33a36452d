"""The lock of a recipe, and the run that holds it.

The runs of a recipe take turns, also those of other processes and hosts. On SQLite the lock is a
file lock beside the database, on PostgreSQL an advisory lock. Both are gone with the process that
held them, so a dead holder's lock is simply free. Shards take none.
"""

import hashlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Final, Self

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.text import utc_second
from mlcat_ingest.errors import RecipeLockedError, StateDamagedError, StateUnavailableError
from mlcat_ingest.pipeline.state.opening import (
    OTHER_DATABASE,
    file_of,
    is_missing,
    lock_file,
    make_folder_of,
    open_state,
    replace_damaged,
    require_lasting,
    translate_errors,
)
from mlcat_ingest.sql.database import Engine, SqlConnection
from mlcat_ingest.sql.filelock import FileLock, holder_of

log = logging.getLogger(__name__)

# Looking must not take the lock, not even for a moment: a run that begins would find it taken.
_HELD: Final = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = ? AND objid::bigint = ?"
)

_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(?)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(?)"
_DELETE_HOLDER: Final = "DELETE FROM state_holder WHERE recipe = ?"


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a recipe's lock: process, host, and its start in epoch milliseconds."""

    pid: int
    host: str
    since_ms: int

    @classmethod
    def here(cls) -> Self:
        """Return this process as a holder from now on."""
        return cls(os.getpid(), socket.gethostname(), now_ms())

    def __str__(self) -> str:
        """Return the holder as words for the user."""
        return f"process {self.pid} on {self.host}, since {utc_second(self.since_ms)}"


def acquire(engine: Engine, url: str, recipe: str) -> "FileLock | _AdvisoryLock":
    """Return the lock of `recipe` in the state database at `url`, that `engine` has open.

    Raises:
        RecipeLockedError: another run has it.
        StateUnavailableError: there can be no lock there.
    """
    path = lock_file(url, recipe)
    if path is not None:
        return _take_file(path, recipe)
    lock = _AdvisoryLock.take(engine, recipe)
    if lock is None:
        raise _locked(recipe, holder(engine, url, recipe))
    return lock


def _locked(recipe: str, other: Holder | None) -> RecipeLockedError:
    return RecipeLockedError(
        f"another run of {recipe!r} is in progress{f': {other}' if other else ''}",
        hint="wait for it; to run both at once, change the `name` of one",
    )


@contextmanager
def held_state(
    url: str, recipe: str, warn: Callable[[str], object] = log.warning
) -> Iterator[Engine]:
    """Give the state database at `url` opened, with the lock of `recipe` held.

    A damaged file is set aside, and `warn` is called with a sentence about it.

    Raises: as `open_state` and `acquire`.
    """
    require_lasting(url)
    path, lock = file_of(url), lock_file(url, recipe)
    with ExitStack() as resources:
        if path is None or lock is None:
            engine = open_state(url)
            resources.callback(engine.dispose)
            resources.callback(acquire(engine, url, recipe).release)
        else:
            make_folder_of(path)
            resources.callback(_take_file(lock, recipe).release)
            if not is_missing(url) and not path.stat().st_size:
                warn(f"the state database {path} is empty: everything is read again")
            try:
                engine = open_state(url)
            except StateDamagedError as error:
                engine = replace_damaged(url, recipe, error, warn)
            resources.callback(engine.dispose)
        yield engine


def holder(engine: Engine, url: str, recipe: str) -> Holder | None:
    """Return the run of `recipe` in progress, None if there is none, or it is not known."""
    path = lock_file(url, recipe)
    if path is not None:
        return _holder_in(path)
    key = _key(recipe) % 2**64
    with translate_errors(engine), engine.transaction() as connection:
        if not connection.scalar(_HELD, key >> 32, key % 2**32):
            return None
        statement = "SELECT pid, host, since_ms FROM state_holder WHERE recipe = ?"
        row = connection.first(statement, recipe)
    return None if row is None else Holder(*row)


def _holder_in(path: Path) -> Holder | None:
    match holder_of(path):
        case {"pid": int(pid), "host": str(host), "since_ms": int(since_ms)}:
            return Holder(pid, host, since_ms)
        case _:
            return None


def _take_file(path: Path, recipe: str) -> FileLock:
    try:
        lock = FileLock.take(path, asdict(Holder.here()))
    except OSError as error:
        raise StateUnavailableError(
            f"the lock file {path} cannot be created: {error.strerror}",
            hint=OTHER_DATABASE,
        ) from error
    if lock is None:
        raise _locked(recipe, _holder_in(path))
    return lock


@dataclass(frozen=True, slots=True)
class _AdvisoryLock:
    """A lock of PostgreSQL, held by a connection that does nothing else."""

    _connection: SqlConnection
    _engine: Engine
    _recipe: str

    @classmethod
    def take(cls, engine: Engine, recipe: str) -> "_AdvisoryLock | None":
        with translate_errors(engine), ExitStack() as unless_taken:
            # Without a transaction, which would be idle for as long as the run takes.
            connection = engine.autocommit()
            unless_taken.callback(connection.close)
            if not connection.scalar(_TRY_LOCK, _key(recipe)):
                return None
            connection.execute(_DELETE_HOLDER, recipe)
            insert = "INSERT INTO state_holder (recipe, pid, host, since_ms) VALUES (?, ?, ?, ?)"
            connection.execute(insert, recipe, *astuple(Holder.here()))
            unless_taken.pop_all()
        return cls(connection, engine, recipe)

    def release(self) -> None:
        # Where the connection is lost, or closed before, the lock is lost with it.
        with (
            closing(self._connection),
            suppress(StateUnavailableError),
            translate_errors(self._engine),
        ):
            self._connection.execute(_DELETE_HOLDER, self._recipe)
            # A closed connection keeps its lock until the server notices that it is closed.
            self._connection.execute(_UNLOCK, _key(self._recipe))


def _key(recipe: str) -> int:
    """Return the number of a recipe's advisory lock, 64 bits with a sign."""
    digest = hashlib.sha256(f"mlcat-ingest {recipe}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
