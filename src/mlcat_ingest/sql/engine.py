"""Databases, opened the same way everywhere: durable, with one kind of transaction for writers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import RecipeError

_BUSY_TIMEOUT_MS = 5000

# In this order: the journal mode is asked for before anything else touches the file.
_SQLITE_PRAGMAS = (
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
)


def database_url(where: str | Path) -> URL:
    """Return the address of the database at `where`: a URL, or the path of an SQLite file.

    PostgreSQL without a driver in its address is opened through psycopg, the extra `postgres`.

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
    if url.drivername in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    return url


def open_engine(where: str | Path) -> Engine:
    """Return an engine for the database at `where`; SQLite files are made where they are missing.

    SQLite connections use WAL and `synchronous=FULL`, so what was committed survives the loss of
    power, and enforce foreign keys. A file that cannot be opened is noticed at first use.

    Raises:
        RecipeError: `where` is not an address of a database that can be used.
        MissingExtraError: it is one of PostgreSQL, and its driver is not installed.
    """
    url = database_url(where)
    if url.drivername == "postgresql+psycopg":
        require_extra("postgres", "a PostgreSQL database")
    try:
        engine = create_engine(url, pool_size=8, max_overflow=40)
    except (ArgumentError, ImportError, TypeError) as error:
        shown = url.render_as_string(hide_password=True)
        raise RecipeError(f"cannot use the database {shown}: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(dbapi_connection: Any, _record: object) -> None:
    # The driver's own implicit BEGIN would take the write lock too late; we begin ourselves.
    dbapi_connection.isolation_level = None
    for pragma in _SQLITE_PRAGMAS:
        dbapi_connection.execute(pragma).close()


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("mlcat_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Give a connection inside one transaction that holds the write lock from its first moment.

    Commits at the end, rolls back where an error leaves the block.
    """
    with engine.connect().execution_options(mlcat_write=True) as connection, connection.begin():
        yield connection


def write_rows(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Execute `statement`, each of whose values is a `?`, once for each of `rows`.

    They go straight to the driver: SQLAlchemy's own handling of rows costs twice what the driver's
    does.
    """
    if connection.dialect.paramstyle != "qmark":
        statement = statement.replace("?", "%s")
    connection.exec_driver_sql(statement, list(rows))


@contextmanager
def usable(where: str | Path) -> Iterator[None]:
    """Turn a driver's error at the first use of a database into a sentence for the user.

    Raises:
        RecipeError: the file cannot be opened, is locked, or is not a database.
    """
    try:
        yield
    except DBAPIError as error:
        shown = database_url(where).render_as_string(hide_password=True)
        raise RecipeError(f"cannot open the database {shown}: {error.orig}") from error
