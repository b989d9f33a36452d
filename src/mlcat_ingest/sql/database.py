"""Databases as SQL text is run on them: SQLite's by the standard library alone.

SQLAlchemy, which has the other databases in `sql.engine`, takes as long to import as all else that
a run of no changes needs.

Migrations are an ordered list of named steps, each recorded in the database that it changed.
"""

import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.environment import restrict
from mlcat_ingest.errors import NotAuthorizedError, ProtocolMismatchError, RecipeError

_BUSY_TIMEOUT_MS: Final = 5000

# In this order: the journal mode is asked for before anything else touches the file.
_SQLITE_PRAGMAS: Final = (
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA foreign_keys=ON",
)

_SQLITE_URL: Final = re.compile(r"sqlite(?:\+pysqlite)?://(?:/([^?]*))?(?:\?.*)?")


class Cursor(Protocol):
    """The rows of one statement, of which each is a tuple."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows."""


class SqlConnection(ABC):
    """A connection to a database, named publicly: `dialect` is that of its SQL.

    Each value of a statement is a `?`. That of a list is `IN ?`, which no row meets if it is empty.
    """

    dialect: str
    name: str

    @abstractmethod
    def run(self, statement: str, values: tuple[Any, ...], *, stream: bool) -> Cursor:
        """Execute `statement`; those that `stream` are held by the server until they are read."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute `statement` once for the values of each of `rows`."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection for good."""

    def execute(self, statement: str, *values: Any, stream: bool = False) -> Cursor:
        """Execute `statement`; with `stream`, memory is needed for some of its rows only."""
        flat: list[Any] = []
        for value in values:
            if isinstance(value, list):
                places = ", ".join("?" * len(value)) or "NULL"
                statement = statement.replace("IN ?", f"IN ({places})", 1)
                flat += value
            else:
                flat.append(value)
        return self.run(statement, tuple(flat), stream=stream)

    def first(self, statement: str, *values: Any) -> Any:
        """Return the first row, None where there is none."""
        return next(iter(self.execute(statement, *values)), None)

    def scalar(self, statement: str, *values: Any) -> Any:
        """Return the first value of the first row, None where there is no row."""
        return next(self.scalars(statement, *values), None)

    def scalars(self, statement: str, *values: Any, stream: bool = False) -> Iterator[Any]:
        """Return the first value of each row."""
        return (row[0] for row in self.execute(statement, *values, stream=stream))


class Engine(ABC):
    """A database at `url` that gives connections to any thread."""

    errors: tuple[type[Exception], ...]
    """What its connections raise."""

    url: str

    @abstractmethod
    def autocommit(self) -> SqlConnection:
        """Return a connection outside of a transaction, that its caller closes."""

    @abstractmethod
    def transaction(self, *, write: bool = False) -> AbstractContextManager[SqlConnection]:
        """Give a connection that sees one moment, or holds the write lock."""

    @abstractmethod
    def dispose(self) -> None:
        """Close the connections that nobody uses."""


def sqlite_name(where: str) -> str | None:
    """Return the path of an SQLite file from its path or URL, None for another database.

    It is empty, or `:memory:`, for a database in memory.
    """
    if "://" not in where:
        return where
    match = _SQLITE_URL.fullmatch(where)
    return None if match is None else match[1] or ""


def prepare_sqlite(name: str, raw: Any, *, durable: bool) -> None:
    """Prepare a connection of the driver to the file `name`: for its owner alone, WAL, strict.

    What was committed survives a kill, and where it is `durable` the loss of power too
    (`synchronous=FULL`, one fsync a commit).
    """
    # SQLite gives the files beside a database its mode. A file that cannot be opened, or is in
    # memory, has none.
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            restrict(f"{name}{suffix}")
    # The driver's own implicit BEGIN would take the write lock too late; we begin ourselves.
    raw.isolation_level = None
    for pragma in (*_SQLITE_PRAGMAS, f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}"):
        raw.execute(pragma).close()


def readable_file(name: str) -> Path:
    """Return the path of an SQLite file, also of one in SQLite's own form, `file:...`.

    Raises:
        RecipeError: there is no such file.
        NotAuthorizedError: it may not be read.
    """
    path = Path(unquote(urlsplit(name).path) if name.startswith("file:") else name)
    if not path.is_file():
        raise RecipeError(
            f"the database {path} does not exist",
            hint="a relative path starts at the recipe's folder",
        )
    if not os.access(path, os.R_OK):
        raise NotAuthorizedError(
            f"no permission to read the database {path}",
            hint="read permission on the file is enough",
        )
    return path


def connect_readonly(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Return a connection of the driver that only reads, and waits so long for a writer."""
    address = f"file:{quote(str(path))}?mode=ro"
    return sqlite3.connect(
        address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )


class _SqliteConnection(SqlConnection):
    dialect = "sqlite"

    def __init__(self, raw: sqlite3.Connection, name: str) -> None:
        self._raw, self.name = raw, name

    def run(self, statement: str, values: tuple[Any, ...], *, stream: bool) -> Cursor:  # noqa: ARG002 - all of SQLite's do
        return self._raw.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._raw.executemany(statement, rows)

    def close(self) -> None:
        self._raw.close()


class SqliteEngine(Engine):
    """An SQLite file, made where it is missing; one that cannot be opened is noticed at first use.

    The loss of power may take the last commits.
    """

    errors = (sqlite3.Error,)

    def __init__(
        self, url: str, name: str, connect: Callable[[], sqlite3.Connection] | None = None
    ) -> None:
        """Open the file `name`, in another way if `connect` returns its connections."""
        self.url = url
        self._name = name
        self._connect = connect or self._open
        self._idle: deque[sqlite3.Connection] = deque()
        self._disposed = False

    def _open(self) -> sqlite3.Connection:
        raw = sqlite3.connect(self._name, check_same_thread=False)
        with ExitStack() as unless_prepared:
            unless_prepared.callback(raw.close)
            prepare_sqlite(self._name, raw, durable=False)
            unless_prepared.pop_all()
        return raw

    def autocommit(self) -> SqlConnection:
        """Return a connection outside of a transaction, that its caller closes."""
        return _SqliteConnection(self._connect(), self._name)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[SqlConnection]:
        """Give a connection that sees one moment, or holds the write lock."""
        try:
            raw = self._idle.pop()
        except IndexError:
            raw = self._connect()
        try:
            raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield _SqliteConnection(raw, self._name)
            raw.commit()
        finally:
            with suppress(sqlite3.Error):
                raw.rollback()
            self._idle.append(raw)
            if self._disposed:
                self.dispose()

    def dispose(self) -> None:
        """Close the connections that nobody uses; those in use are closed after that."""
        self._disposed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


_LOCK_KEY: Final = 0x6D6C636174
"""The key of the advisory lock under which PostgreSQL's tables are migrated: "mlcat"."""

_APPLIED: Final = """CREATE TABLE IF NOT EXISTS mlcat_migration (
    component TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    applied_at_ms BIGINT NOT NULL,
    PRIMARY KEY (component, position)
)"""

_HAS_TABLE: Final = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE name = 'mlcat_migration'",
    "postgresql": "SELECT count(to_regclass('mlcat_migration'))",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its name, which never changes once released, and its SQL statements."""

    name: str
    sql: Sequence[str]


def sql_in(package: str, file: str) -> list[str]:
    """Return the SQL statements in a file of a package."""
    text = (files(package) / file).read_text(encoding="utf-8")
    return text.removesuffix(";\n").split(";\n")


def migrate(engine: Engine, component: str, migrations: Sequence[Migration]) -> list[str]:
    """Bring the tables of `component` up to date and return the names of the steps taken.

    All steps happen in one transaction: after an error the database is as it was before.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    with engine.transaction(write=True) as connection:
        if connection.dialect == "postgresql":
            # SQLite's write lock is held already; here two that begin at once would both make them.
            connection.execute("SELECT pg_advisory_xact_lock(?)", _LOCK_KEY)
        connection.execute(_APPLIED)
        left = pending(connection, component, migrations)
        for position, migration in enumerate(left, len(migrations) - len(left)):
            for statement in migration.sql:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO mlcat_migration (component, position, name, applied_at_ms)"
                " VALUES (?, ?, ?, ?)",
                *(component, position, migration.name, now_ms()),
            )
    return [migration.name for migration in left]


def pending(
    connection: SqlConnection, component: str, migrations: Sequence[Migration]
) -> Sequence[Migration]:
    """Return the steps that `component` has not taken yet; nothing is changed.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    if not connection.scalar(_HAS_TABLE[connection.dialect]):
        return migrations
    known = [migration.name for migration in migrations]
    applied = "SELECT name FROM mlcat_migration WHERE component = ? ORDER BY position"
    done = list(connection.scalars(applied, component))
    if done[: len(known)] != known[: len(done)]:
        raise ProtocolMismatchError(
            f"the steps that the {component} database lists are those of no version",
            hint="restore a backup, or use another database",
        )
    if len(done) > len(known):
        steps = ", ".join(map(repr, done[len(known) :]))
        raise RecipeError(
            f"the {component} database {connection.name} was made by a newer version of "
            f"mlcat-ingest: it has {steps}, which this version does not know",
            hint="upgrade mlcat-ingest, or use another database",
        )
    return migrations[len(done) :]
