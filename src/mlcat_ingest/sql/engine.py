"""Databases: opened durably, with one kind of write transaction; driver errors as ours.

Drivers agree on no codes, and PostgreSQL's gives none when connecting fails, so failures are told
apart by the text of their messages. In a language that is not known here, an error counts as one
that may pass later.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sql import database
from mlcat_ingest.sql.database import prepare_sqlite

_STREAMED_ROWS: Final = 500


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

    SQLite connections use WAL and enforce foreign keys, and the files are for their owner alone.
    What was committed survives a kill and the loss of power. A file that cannot be opened is
    noticed at first use.

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

        def prepare(raw: Any, _record: object) -> None:
            prepare_sqlite(url.database or "", raw, durable=True)

        event.listen(engine, "connect", prepare)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


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


class _TextConnection(database.SqlConnection):
    def __init__(self, connection: Connection) -> None:
        url = connection.engine.url
        super().__init__(
            connection.dialect.name,
            url.database or ""
            if connection.dialect.name == "sqlite"
            else url.set(query={}).render_as_string(hide_password=True),
        )
        self._connection = connection
        self._place = "?" if connection.dialect.paramstyle == "qmark" else "%s"

    def run(self, statement: str, values: tuple[Any, ...], *, stream: bool) -> database.Cursor:
        options = {"yield_per": _STREAMED_ROWS} if stream else None
        statement = statement.replace("?", self._place)
        return self._connection.exec_driver_sql(statement, values, execution_options=options)

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._connection.exec_driver_sql(statement.replace("?", self._place), list(rows))

    def close(self) -> None:
        if not self._connection.closed:
            # For good: a pooled connection would keep its locks.
            self._connection.invalidate()
            self._connection.close()


class TextEngine(database.Engine):
    """A database of SQLAlchemy's at `url`, on which SQL text is run."""

    def __init__(self, url: str, engine: Engine) -> None:
        """Use the connections of `engine`."""
        super().__init__(url)
        self._engine = engine

    def autocommit(self) -> database.SqlConnection:
        """Return a connection outside of a transaction, that its caller closes."""
        return _TextConnection(
            self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        )

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[database.SqlConnection]:
        """Give a connection that sees one moment, or holds the write lock."""
        connection = self._engine.connect().execution_options(mlcat_write=write)
        with connection, connection.begin():
            yield _TextConnection(connection)

    def dispose(self) -> None:
        """Close the connections that nobody uses."""
        self._engine.dispose()


_MAX_MESSAGE_CHARS: Final = 300


class DatabaseOwner(NamedTuple):
    """The program that a database belongs to, and its name for the database."""

    program: str
    noun: str


class _FailureKind(NamedTuple):
    """One kind of failure: the pattern of the drivers' messages, and our error with the cure."""

    regex: str
    error: type[MlcatError]
    sentence: str
    cure: str


_KINDS: Final = (
    _FailureKind(
        regex=r"password|role .* does not exist|not permitted to log in|no pg_hba\.conf entry"
        r"|access denied for user (?!.* to database)",
        error=AuthenticationError,
        sentence="rejects the login",
        cure="check the user name and password in the address",
    ),
    _FailureKind(
        regex=r"permission denied|access denied|command denied",
        error=NotAuthorizedError,
        sentence="denies reading",
        cure="grant the user SELECT on {program}'s tables; nothing else is needed",
    ),
    _FailureKind(
        regex=r"unable to open database file",
        error=NotAuthorizedError,
        sentence="cannot be opened",
        cure="make the file readable; beside a server in WAL mode, make its folder writable too",
    ),
    _FailureKind(
        regex=r"database .* does not exist|unknown database",
        error=RecipeError,
        sentence="does not exist",
        cure="check the name of the database in the address",
    ),
    _FailureKind(
        regex=r"not a database|no such (table|column)|does(n't| not) exist|unknown (table|column)",
        error=ProtocolMismatchError,
        sentence="does not hold the tables of {program}",
        cure="check that the address is that of {program}'s own tables",
    ),
    _FailureKind(
        regex=r"is locked|statement timeout|lock wait timeout",
        error=SourceUnavailableError,
        sentence="is locked for too long",
        cure="a migration may be running; try again later, or raise `timeout_s`",
    ),
    _FailureKind(
        regex=r"malformed|corrupt|invalid page|could not decode",
        error=SourceUnavailableError,
        sentence="is damaged",
        cure="restore it; for SQLite, `PRAGMA integrity_check` shows the damage",
    ),
    _FailureKind(
        regex="",
        error=SourceUnavailableError,
        sentence="does not answer",
        cure="check that it is running and the address is correct",
    ),
)


def failure(
    holder: DatabaseOwner, shown: str, error: SQLAlchemyError, password: str | None
) -> MlcatError:
    """Return the error to raise for one of the driver; `shown` names the database publicly."""
    message = _driver_message(error, password)
    kind = next(kind for kind in _KINDS if re.search(kind.regex, message, re.IGNORECASE))
    words = holder._asdict()
    return kind.error(
        f"the {holder.noun} {shown} {kind.sentence.format(**words)}: {message}",
        hint=kind.cure.format(**words),
    )


def _driver_message(error: SQLAlchemyError, password: str | None) -> str:
    """Return the driver's message, without SQL, on one line."""
    cause = getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    # MySQL's drivers give a number before the text.
    texts = [text for text in cause.args if isinstance(text, str)]
    message = " ".join(" ".join(texts).split())
    if not message or (password is not None and password in message):
        return type(cause).__name__
    return redact_urls(message)[:_MAX_MESSAGE_CHARS]
