"""Databases of SQLAlchemy, to be written or read only; drivers and addresses of each kind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sqlalchemy import __version__, create_engine, event
from sqlalchemy.engine import URL, Connection, CursorResult, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from mlcat_ingest.errors import MissingExtraError, RecipeError
from mlcat_ingest.sql import database
from mlcat_ingest.sql.database import connect_readonly, prepare_sqlite, readable_file

# Few enough that rows are gone before the garbage collector looks at them.
_STREAMED_ROWS: Final = 500

# psycopg 3 came to SQLAlchemy with 2.0, and Airflow 3.0 holds it at 1.4.
POSTGRESQL_DRIVER: Final = "psycopg2" if __version__.startswith("1.") else "psycopg"

_CONNECT_TIMEOUT_S: Final = 10

# Drivers and their modules, the preferred one first.
_POSTGRESQL: Final = {POSTGRESQL_DRIVER: POSTGRESQL_DRIVER, "psycopg2": "psycopg2"}
_MYSQL: Final = {"pymysql": "pymysql", "mysqldb": "MySQLdb"}

# Where the address says nothing else: a peer that is gone is noticed, and a name for its log.
_LIBPQ: Final = {
    "connect_timeout": str(_CONNECT_TIMEOUT_S),
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "fallback_application_name": "mlcat-ingest",
}

_BEGIN: Final = {
    "sqlite": ("BEGIN",),
    "postgresql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL statement_timeout = {timeout_ms}",
    ),
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}


def database_url(where: str | Path) -> URL:
    """Return the address of the database at `where`: a URL, or the path of an SQLite file.

    PostgreSQL without a driver in its address is opened through psycopg, the extra `postgres`, and
    beside SQLAlchemy 1.4 through psycopg2.

    Raises:
        RecipeError: `where` looks like a URL and is none.
    """
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise RecipeError("the database address is not a URL") from error
    # What libpq takes too; SQLAlchemy's own choice would be a driver that no extra installs.
    if url.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        return url.set(drivername=f"postgresql+{POSTGRESQL_DRIVER}")
    return url


def open_engine(where: str | Path) -> Engine:
    """Return an engine for the database at `where`; SQLite files are made where they are missing.

    SQLite connections use WAL and enforce foreign keys, and the files are for their owner alone.
    What was committed survives a kill and the loss of power. A file that cannot be opened is
    noticed at first use.

    Raises:
        RecipeError: `where` is not an address of a database that can be used.
        MissingExtraError: it is one of PostgreSQL, and its driver is not installed.
    """
    url = database_url(where)
    if url.drivername == f"postgresql+{POSTGRESQL_DRIVER}" and find_spec(POSTGRESQL_DRIVER) is None:
        raise _missing_driver()
    # SQLAlchemy 2 does so by itself for a file of SQLite.
    options = {"check_same_thread": False} if url.get_backend_name() == "sqlite" else {}
    try:
        engine = create_engine(
            url,
            poolclass=QueuePool,
            pool_size=8,
            max_overflow=40,
            connect_args=options,
            future=True,
        )
    except (ArgumentError, ImportError, TypeError) as error:
        shown = url.render_as_string(hide_password=True)
        raise RecipeError(f"cannot use the database {shown}: {error}") from error
    if engine.dialect.name == "sqlite":

        def prepare(raw: Any, _record: object) -> None:
            prepare_sqlite(url.database or "", raw, durable=True)

        def begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("mlcat_write", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", begin)
    return engine


def _missing_driver() -> RecipeError:
    """Return the error of a PostgreSQL database for which no driver is installed."""
    if POSTGRESQL_DRIVER == "psycopg":
        return MissingExtraError("a PostgreSQL database", "postgres")
    return RecipeError(
        f"a PostgreSQL database needs psycopg2 beside SQLAlchemy {__version__}",
        hint="pip install psycopg2-binary",
    )


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Give a connection inside one transaction that holds the write lock from its first moment.

    Commits at the end, rolls back where an error leaves the block.
    """
    with engine.connect().execution_options(mlcat_write=True) as connection, connection.begin():
        yield connection


class _DriverRows:
    """The driver's own rows of a statement: SQLAlchemy's would take a fifth more of the time."""

    def __init__(self, result: "CursorResult[Any]", error: type[Exception]) -> None:
        self.rowcount = result.rowcount
        self._rows = self._fetch(result, error)

    def __iter__(self) -> Iterator[Any]:
        return self._rows  # who iterates again goes on, as with the cursor of a driver

    @staticmethod
    def _fetch(result: "CursorResult[Any]", failed: type[Exception]) -> Iterator[Any]:
        try:
            while rows := result.cursor.fetchmany(_STREAMED_ROWS):
                yield from rows
        except failed as error:
            raise DBAPIError(None, None, error) from error
        result.close()


class TextConnection(database.SqlConnection):
    """A connection of SQLAlchemy's, on which SQL text is run."""

    def __init__(self, connection: Connection) -> None:
        """Leave transactions to the caller."""
        url = connection.engine.url
        self.dialect = connection.dialect.name
        self.name = url.set(query={}).render_as_string(hide_password=True)
        if self.dialect == "sqlite":
            self.name = url.database or ""
        self._connection = connection
        self._place = "?" if connection.dialect.paramstyle == "qmark" else "%s"

    def run(self, statement: str, values: tuple[Any, ...], *, stream: bool) -> database.Cursor:
        """Execute `statement` by the driver."""
        options = {"yield_per": _STREAMED_ROWS} if stream else None
        statement = statement.replace("?", self._place)
        result = self._connection.exec_driver_sql(statement, values, execution_options=options)
        # Of a stream SQLAlchemy has fetched the first row already.
        if stream or not result.returns_rows:
            return result
        driver: Any = self._connection.dialect.dbapi
        return _DriverRows(result, driver.Error)

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute `statement` once for the values of each of `rows`."""
        if values := list(rows):
            self._connection.exec_driver_sql(statement.replace("?", self._place), values)

    def close(self) -> None:
        """Close the connection for good."""
        if not self._connection.closed:
            # For good: a pooled connection would keep its locks.
            self._connection.invalidate()
            self._connection.close()


class TextEngine(database.Engine):
    """A database of SQLAlchemy's at `url`, on which SQL text is run."""

    errors = (SQLAlchemyError,)

    def __init__(self, url: str, engine: Engine) -> None:
        self.url = url
        self._engine = engine

    def autocommit(self) -> database.SqlConnection:
        """Return a connection outside of a transaction, that its caller closes."""
        return TextConnection(
            self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        )

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[database.SqlConnection]:
        """Give a connection that sees one moment, or holds the write lock."""
        connection = self._engine.connect().execution_options(mlcat_write=write)
        with connection, connection.begin():
            yield TextConnection(connection)

    def dispose(self) -> None:
        """Close the connections that nobody uses."""
        self._engine.dispose()


def readonly_engine(where: str, *, timeout_s: float) -> Engine:
    """Return an engine for the database at `where`; nothing is contacted yet.

    A connection that is closed is closed for good. A statement, or SQLite's wait for a writer,
    takes at most `timeout_s`.

    Raises:
        RecipeError: `where` is no address of a database that can be used, or there is no such file.
        MissingExtraError: it is one of PostgreSQL, and its driver is not installed.
        NotAuthorizedError: the file may not be read.
    """
    try:
        engine = _readonly(_with_driver(make_url(where)), timeout_s)
    except (ArgumentError, ImportError, TypeError, ValueError) as error:
        # The driver's own words about an address repeat it with its password.
        missing = f": {error}" if isinstance(error, ImportError) else ""
        raise RecipeError(f"the address of the database is invalid{missing}") from None
    statements = [
        statement.format(timeout_ms=max(1, int(timeout_s * 1000)))
        for statement in _BEGIN.get(engine.name, ())
    ]

    def begin(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    event.listen(engine, "begin", begin)
    return engine


def _readonly(url: URL, timeout_s: float) -> Engine:
    if url.get_backend_name() == "sqlite":
        connect = partial(connect_readonly, readable_file(url.database or ":memory:"), timeout_s)
        return create_engine("sqlite://", creator=connect, poolclass=NullPool, future=True)
    options: dict[str, Any] = {}
    driver = url.get_driver_name()
    if driver in _POSTGRESQL:
        url = url.update_query_dict({**_LIBPQ, **url.query})
        if driver == "psycopg":
            # Statements prepared on their own outlive a transaction, which poolers do not bear.
            options["prepare_threshold"] = None
    elif driver in _MYSQL:
        options = {"connect_timeout": _CONNECT_TIMEOUT_S, "read_timeout": max(1, int(timeout_s))}
    return create_engine(url, connect_args=options, poolclass=NullPool, future=True)


def _with_driver(url: URL) -> URL:
    """Return `url` with a driver that is installed, the one it names before any other."""
    backend, _, named = url.drivername.partition("+")
    backend = "postgresql" if backend == "postgres" else backend
    known = {"postgresql": _POSTGRESQL, "mysql": _MYSQL}.get(backend, {})
    if not known or (named and named not in {"psycopg", *known}):
        return url
    for driver in sorted(known, key=lambda driver: driver != named):
        if find_spec(known[driver]) is not None:
            return url.set(drivername=f"{backend}+{driver}")
    if backend == "postgresql":
        raise _missing_driver()
    raise RecipeError("a MySQL database needs a driver", hint=f"pip install {named or 'pymysql'}")
