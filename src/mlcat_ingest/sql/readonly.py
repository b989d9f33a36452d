"""Databases that belong to another program: opened to be read, and nothing else.

A transaction here sees the database as it was at one moment, and takes no lock that a writer would
wait for, but for SQLite files outside WAL mode, where any reader keeps writers waiting. It cannot
write: SQLite files are opened read-only, transactions of PostgreSQL and MySQL are read-only ones.
"""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError

from mlcat_ingest.errors import MissingExtraError, RecipeError
from mlcat_ingest.sql.database import connect_readonly, readable_file

_CONNECT_TIMEOUT_S: Final = 10

# Drivers and their modules, the preferred one first.
_POSTGRESQL: Final = {"psycopg": "psycopg", "psycopg2": "psycopg2"}
_MYSQL: Final = {"pymysql": "pymysql", "mysqldb": "MySQLdb"}

# Where the address says nothing else: a peer that is gone is noticed, and a name for its log.
_LIBPQ: Final = {
    "connect_timeout": str(_CONNECT_TIMEOUT_S),
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "fallback_application_name": "mlcat-ingest",
}

_SCHEMA_OF: Final = text(
    "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid"
    " WHERE pg_class.oid = to_regclass(:name)"
)
_DEFAULT_SCHEMA: Final = "public"

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


def open_readonly(where: str, *, timeout_s: float) -> Engine:
    """Return an engine for the database at `where`; nothing is contacted yet.

    A connection that is closed is closed for good. A statement, or SQLite's wait for a writer,
    takes at most `timeout_s`.

    Raises:
        RecipeError: `where` is no address of a database that can be used, or there is no such file.
        MissingExtraError: it is one of PostgreSQL, and its driver is not installed.
        NotAuthorizedError: the file may not be read.
    """
    try:
        engine = _engine(_with_driver(make_url(where)), timeout_s)
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


def sqlite_file(url: URL) -> Path:
    """Return the file of an SQLite address, also of one in SQLite's own form, `file:...`.

    Raises: as `readable_file`.
    """
    return readable_file(url.database or ":memory:")


def schema_of(connection: Connection, table: str) -> str | None:
    """Return the schema in which `connection` finds a table, or would create it.

    Role, database and address can each set a search path. None where a database has no schemas.
    """
    if connection.dialect.name != "postgresql":
        return None
    found: str | None = connection.execute(_SCHEMA_OF, {"name": table}).scalar()
    return found or inspect(connection).default_schema_name


def with_schema(database: str, schema: str | None) -> str:
    """Return the identity of a schema of a database: that of `database` for the default schema."""
    return database if schema in {None, _DEFAULT_SCHEMA} else f"{database}/{schema}"


def _engine(url: URL, timeout_s: float) -> Engine:
    if url.get_backend_name() == "sqlite":
        connect = partial(connect_readonly, sqlite_file(url), timeout_s)
        return create_engine("sqlite://", creator=connect, poolclass=NullPool)
    options: dict[str, Any] = {}
    driver = url.get_driver_name()
    if driver in _POSTGRESQL:
        url = url.update_query_dict({**_LIBPQ, **url.query})
        if driver == "psycopg":
            # Statements prepared on their own outlive a transaction, which poolers do not bear.
            options["prepare_threshold"] = None
    elif driver in _MYSQL:
        options = {"connect_timeout": _CONNECT_TIMEOUT_S, "read_timeout": max(1, int(timeout_s))}
    return create_engine(url, connect_args=options, poolclass=NullPool)


def _with_driver(url: URL) -> URL:
    """Return `url` with a driver that is installed, the one it names before any other."""
    backend, _, named = url.drivername.partition("+")
    backend = "postgresql" if backend == "postgres" else backend
    known = {"postgresql": _POSTGRESQL, "mysql": _MYSQL}.get(backend, {})
    if not known or (named and named not in known):
        return url
    for driver in sorted(known, key=lambda driver: driver != named):
        if find_spec(known[driver]) is not None:
            return url.set(drivername=f"{backend}+{driver}")
    if backend == "postgresql":
        raise MissingExtraError("a PostgreSQL database", "postgres")
    raise RecipeError("a MySQL database needs a driver", hint=f"pip install {named or 'pymysql'}")
