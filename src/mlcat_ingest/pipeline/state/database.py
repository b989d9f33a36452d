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
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from mlcat_ingest.core.environment import make_folder
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
from mlcat_ingest.sql.database import (
    Engine,
    SqlConnection,
    SqliteEngine,
    migrate,
    pending,
    sqlite_name,
    write_transaction,
)
from mlcat_ingest.sql.filelock import FileLock, holder_of
from mlcat_ingest.sql.readonly import open_readonly

log = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")

OTHER_DATABASE: Final = "set `state: {url: …}` to another database"

DAMAGED: Final = "the next run sets the file aside and reads everything again; nothing is lost"

_WITH_TIMEOUT: Final = frozenset({"postgresql+psycopg", "postgresql+psycopg2"})

_IN_MEMORY: Final = ("", ":memory:")

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
_HELD: Final = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = ? AND objid::bigint = ?"
)

_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(?)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(?)"
_DELETE_HOLDER: Final = "DELETE FROM state_holder WHERE recipe = ?"


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

    def read(self, work: Callable[[SqlConnection], ValueT], default: ValueT) -> ValueT:
        """Return what `work` reads, `default` where there is no database or it fails."""
        with suppress(StateUnavailableError), self.transaction() as connection:
            return work(connection)
        return default

    def change(self, work: Callable[[SqlConnection], object]) -> None:
        """Do `work` in one transaction; nothing where there is no database or it fails."""
        with suppress(StateUnavailableError), self.transaction(write=True) as connection:
            work(connection)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[SqlConnection]:
        """Give a connection; where the database fails there is none from then on.

        Raises:
            StateUnavailableError: there is none, or it fails.
        """
        engine = self.engine
        if engine is None:
            raise StateUnavailableError("the state database is not open")
        try:
            begin = write_transaction if write else Engine.connect
            with translate_errors(engine.url), begin(engine) as connection:
                yield connection
        except StateUnavailableError as error:
            with self._lock:
                is_first, self.engine = self.engine is engine, None
                self.failure = error
            log.debug("the state database failed", exc_info=True)
            replaced = self.may_be_replaced and isinstance(error, StateDamagedError)
            if is_first and not replaced:
                self.warn(f"{error.message}; the run continues without state")
            raise

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
    require_lasting(url)
    path = file_of(url)
    if path is not None:
        _make_folder(path)
    engine = open_database(url)
    with ExitStack() as unless_open, translate_errors(url):
        unless_open.callback(engine.dispose)
        migrate(engine, tables.COMPONENT, tables.MIGRATIONS)
        unless_open.pop_all()
    return engine


def open_database(url: str, *, connect_timeout_s: int | None = None) -> Engine:
    """Return an engine of the database at `url`; PostgreSQL is waited for that long.

    Raises:
        RecipeError: it is none that can be used.
        MissingExtraError: it is PostgreSQL's, and the driver is not installed.
    """
    path = file_of(url)
    if path is not None:
        # Losing the last commits with the power costs a run time, an fsync a batch costs each run.
        return SqliteEngine(url, str(path))
    from mlcat_ingest.sql.engine import TextEngine, database_url, open_engine

    address = database_url(url)
    takes_timeout = address.drivername in _WITH_TIMEOUT and "connect_timeout" not in address.query
    if connect_timeout_s is not None and takes_timeout:
        address = address.update_query_dict({"connect_timeout": str(connect_timeout_s)})
    return TextEngine(url, open_engine(address.render_as_string(hide_password=False)))


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


def require_lasting(url: str) -> None:
    """Refuse an address that is not of a database that can hold state; nothing is contacted.

    Raises:
        RecipeError: it is of another kind, or is forgotten with the process.
    """
    name = sqlite_name(url)
    if name is None:
        from mlcat_ingest.sql.engine import database_url

        if database_url(url).get_backend_name() != "postgresql":
            raise RecipeError(
                f"state cannot be kept in {printable_url(url)}",
                hint="use an SQLite file (sqlite:///.mlcat/state.db) or a PostgreSQL database",
            )
    elif name in _IN_MEMORY:
        raise RecipeError(
            "state in memory would be lost after the run",
            hint="use a file: sqlite:///.mlcat/state.db",
        )


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite database, None for any other and for one in memory."""
    name = sqlite_name(url)
    return None if name is None or name in _IN_MEMORY else Path(name)


def is_missing(url: str) -> bool:
    """Return whether the state would be in a file that is not there."""
    path = file_of(url)
    return path is not None and not os.path.exists(path)  # noqa: PTH110 - never raises


def printable_url(url: str) -> str:
    """Return the address of a state database without its password."""
    path = file_of(url)
    if path is not None:
        return str(path)
    from mlcat_ingest.sql.engine import database_url

    return database_url(url).render_as_string(hide_password=True)


def _failures(url: str) -> tuple[type[Exception], ...]:
    if file_of(url) is not None:
        return sqlite3.Error, *_UNREADABLE
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, *_UNREADABLE


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Turn the error of a database, or of a value in it, into one of ours.

    Raises:
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    try:
        yield
    except _failures(url) as error:
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
    if not isinstance(error, sqlite3.Error):
        return True
    # The driver itself has no code for text that is not UTF-8.
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return isinstance(error, sqlite3.OperationalError)
    return code & 0xFF not in _OUTSIDE


@contextmanager
def read_only(url: str, *, timeout_s: float) -> Iterator[SqlConnection | None]:
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
        with translate_errors(url), engine.connect() as connection:
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
    require_lasting(url)
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
        if not connection.scalar(_HELD, key >> 32, key % 2**32):
            return None
        statement = "SELECT pid, host, since_ms FROM state_holder WHERE recipe = ?"
        row = connection.first(statement, recipe)
    return None if row is None else Holder(*row)


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

    _connection: SqlConnection
    _url: str
    _recipe: str

    @classmethod
    def take(cls, engine: Engine, url: str, recipe: str) -> "_AdvisoryLock | None":
        with translate_errors(url), ExitStack() as unless_taken:
            # Without a transaction, which would be idle for as long as the run takes.
            connection = engine.autocommit()
            unless_taken.callback(connection.close)
            if not connection.scalar(_TRY_LOCK, _key(recipe)):
                return None
            connection.execute(_DELETE_HOLDER, recipe)
            process = _this_process()
            connection.execute(
                "INSERT INTO state_holder (recipe, pid, host, since_ms) VALUES (?, ?, ?, ?)",
                *(recipe, process["pid"], process["host"], process["since_ms"]),
            )
            unless_taken.pop_all()
        return cls(connection, url, recipe)

    def release(self) -> None:
        # Where the connection is lost, or closed before, the lock is lost with it.
        with closing(self._connection), suppress(*_failures(self._url)):
            self._connection.execute(_DELETE_HOLDER, self._recipe)
            # A closed connection keeps its lock until the server notices that it is closed.
            self._connection.execute(_UNLOCK, _key(self._recipe))


def _key(recipe: str) -> int:
    """Return the number of a recipe's advisory lock, 64 bits with a sign."""
    digest = hashlib.sha256(f"mlcat-ingest {recipe}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
