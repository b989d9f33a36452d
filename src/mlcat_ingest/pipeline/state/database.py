"""The state database: opened, migrated, copied; its errors translated, and the lock of a recipe.

The runs of a recipe take turns, also those of other processes and hosts. On SQLite the lock is a
file lock beside the database, on PostgreSQL an advisory lock. Both are gone with the process that
held them, so a dead holder's lock is simply free. Shards take none.
"""

import glob
import hashlib
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import URL, Connection, Delete, Engine, delete, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.core.private_files import make_folder
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import (
    InvalidUrnError,
    ProtocolMismatchError,
    RecipeError,
    RecipeLockedError,
    StateDamagedError,
    StateUnavailableError,
)
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

DAMAGED: Final = "the next run sets the file aside and reads everything again; nothing is lost"

_SET_ASIDE: Final = 9
"""Damaged files that are kept beside a state database; a further one replaces the last."""

# Causes outside the content of an SQLite file. Any other failure means that the content is not
# what this version wrote.
_OUTSIDE: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_ABORT,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_AUTH,
    }
)

# Raised by our own code for a value of a damaged row: another type, no JSON, no UTF-8, no URN.
_UNREADABLE: Final = (
    AttributeError,
    InvalidUrnError,
    OverflowError,
    ProtocolMismatchError,
    TypeError,
    ValueError,
)

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
    what would be remembered, with one warning, and not the run. `failure` is the last failure;
    there is no warning of damage while the database `may_be_replaced`. `on_problem` is called with
    the sentence of each warning.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        """Use none yet; `mask` hides secrets."""
        self.engine: Engine | None = None
        self.failure: StateUnavailableError | None = None
        self.may_be_replaced = False
        self.on_problem: Callable[[str], object] = str
        self._lock = threading.Lock()
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
        self.failure = None
        self.engine = engine

    def stop(self) -> None:
        """Use none from now on."""
        self.engine = None

    def attempt(self, work: Callable[[Engine], ValueT], default: ValueT) -> ValueT:
        """Return what `work` returns, `default` where there is no database or it fails."""
        with suppress(StateUnavailableError), self.use() as engine:
            return work(engine)
        return default

    def read(self, work: Callable[[Connection], ValueT], default: ValueT) -> ValueT:
        """Return what `work` reads, `default` where there is no database or it fails."""
        with suppress(StateUnavailableError), self.connect() as connection:
            return work(connection)
        return default

    @contextmanager
    def use(self) -> Iterator[Engine]:
        """Give the database; where it fails there is none from then on.

        Raises:
            StateUnavailableError: there is none, or it fails.
        """
        engine = self.engine
        if engine is None:
            raise StateUnavailableError("the state database is not open")
        try:
            with translate_errors(engine.url):
                yield engine
        except StateUnavailableError as error:
            with self._lock:
                is_first, self.engine = self.engine is engine, None
                self.failure = error
            log.debug("the state database failed", exc_info=True)
            replaced = self.may_be_replaced and isinstance(error, StateDamagedError)
            if is_first and not replaced:
                self.warn(f"{error.message}; the run continues without state")
            raise

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Give a connection; `use` says what is raised."""
        with self.use() as engine, engine.connect() as connection:
            yield connection

    def warn(self, problem: str) -> None:
        """Log a problem of the state, and pass it to `on_problem`."""
        problem = self._mask(problem)
        log.warning("%s", problem)
        self.on_problem(problem)


def open_state(url: str) -> Engine:
    """Return an engine of the state database at `url`, its tables up to date.

    The folder and the file of an SQLite database are made where they are missing.

    Raises:
        RecipeError: it is not a database that can hold state, or a newer version made it.
        MissingExtraError: it is PostgreSQL's, and the driver is not installed.
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be made, written or reached.
    """
    address = lasting_address(url)
    path = file_of(address)
    if path is not None:
        _make_folder(path)
    # Losing the last commits with the power costs a run time, and an fsync a batch costs each run.
    engine = open_engine(address.render_as_string(hide_password=False), durable=False)
    with ExitStack() as unless_open, translate_errors(url):
        unless_open.callback(engine.dispose)
        migrate(engine, tables.COMPONENT, tables.MIGRATIONS)
        unless_open.pop_all()
    return engine


def _make_folder(path: Path) -> None:
    try:
        make_folder(path.parent)
    except OSError as error:
        raise StateUnavailableError(
            f"the folder {path.parent} for the state cannot be created: {error.strerror}",
            hint=OTHER_DATABASE,
        ) from error
    _require_file(path)


def _require_file(path: Path) -> None:
    # A pipe would keep SQLite waiting.
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 - never raises
        raise StateUnavailableError(f"the state database {path} is not a file", hint=OTHER_DATABASE)


def replace_damaged(
    url: str, recipe: str, error: StateDamagedError, warn: Callable[[str], object]
) -> Engine:
    """Set the damaged file at `url` aside, and return an engine of a fresh one.

    The caller holds the lock of `recipe` and has closed the file.

    Raises:
        StateUnavailableError: the file cannot be set aside, or another recipe uses it now.
    """
    aside = set_aside(url, recipe, error)
    engine = open_state(url)
    warn(f"{error.message}; it is kept as {aside}, and everything is read again")
    return engine


def set_aside(url: str, recipe: str, error: StateDamagedError) -> Path:
    """Rename the damaged file at `url`, with the log beside it, and return its new path.

    Raises:
        StateUnavailableError: it cannot be renamed, or another recipe uses it now.
    """
    path = file_of(url)
    if path is None:
        raise error
    own = lock_file(url, recipe)
    locks = path.parent.glob(f"{glob.escape(path.name)}.*.lock")
    if any(lock != own and holder_of(lock) is not None for lock in locks):
        raise StateUnavailableError(f"{error.message}; another recipe uses it now") from error
    path = path.resolve()
    names = [f"{path}.damaged", *(f"{path}.damaged-{n}" for n in range(2, _SET_ASIDE + 1))]
    target = next((name for name in names if not Path(name).exists()), names[-1])
    try:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").replace(f"{target}{suffix}")
    except OSError as failure:
        raise StateUnavailableError(
            f"{error.message}; it cannot be renamed: {failure.strerror}", hint="delete it"
        ) from failure
    return Path(target)


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
    return path is not None and not os.path.exists(path)  # noqa: PTH110 - never raises


def printable_url(url: str | URL) -> str:
    """Return the address of a state database without its password."""
    path = file_of(url)
    return _address(url).render_as_string(hide_password=True) if path is None else str(path)


def _address(url: str | URL) -> URL:
    return url if isinstance(url, URL) else database_url(url)


@contextmanager
def translate_errors(url: str | URL) -> Iterator[None]:
    """Turn the error of a database, or of a value in it, into one of ours.

    Raises:
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    try:
        yield
    except (SQLAlchemyError, *_UNREADABLE) as error:
        message = printable(" ".join(str(getattr(error, "orig", None) or error).split()))
        shown = printable_url(url)
        if file_of(url) is not None and _is_damage(error):
            raise StateDamagedError(
                f"the state database {shown} is damaged: {message}", hint=DAMAGED
            ) from error
        raise StateUnavailableError(
            f"the state database {shown} cannot be used: {message}", hint=OTHER_DATABASE
        ) from error


def _is_damage(error: Exception) -> bool:
    """Return whether an error at an SQLite file comes from its content."""
    if not isinstance(error, SQLAlchemyError):
        return True
    cause = getattr(error, "orig", None)
    # The driver itself has no code for text that is not UTF-8.
    code = getattr(cause, "sqlite_errorcode", None)
    if code is None:
        return isinstance(cause, sqlite3.OperationalError)
    return code & 0xFF not in _OUTSIDE


@contextmanager
def read_only(url: str, *, timeout_s: float) -> Iterator[Connection | None]:
    """Give a connection that sees the state as it is now, None where an older version made it.

    Nothing is changed, and no lock is taken. There has to be a database.

    Raises:
        NotAuthorizedError: the file may not be read.
        RecipeError: a newer version made it.
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be reached.
    """
    path = file_of(url)
    if path is not None:
        _require_file(path)
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
    if path is not None:
        return _take_file(path, recipe)
    lock = _AdvisoryLock.take(engine, url, recipe)
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
    lasting_address(url)
    path, lock = file_of(url), lock_file(url, recipe)
    with ExitStack() as resources:
        if path is None or lock is None:
            engine = open_state(url)
            resources.callback(engine.dispose)
            resources.callback(acquire(engine, url, recipe).release)
        else:
            _make_folder(path)
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


def _holder_in(path: Path) -> Holder | None:
    match holder_of(path):
        case {"pid": int(pid), "host": str(host), "since_ms": int(since_ms)}:
            return Holder(pid, host, since_ms)
        case _:
            return None


def _take_file(path: Path, recipe: str) -> Lock:
    try:
        lock = FileLock.take(path, _this_process())
    except OSError as error:
        raise StateUnavailableError(
            f"the lock file {path} cannot be created: {error.strerror}",
            hint=OTHER_DATABASE,
        ) from error
    if lock is None:
        raise _locked(recipe, _holder_in(path))
    return lock


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
