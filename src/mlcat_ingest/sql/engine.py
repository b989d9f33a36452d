"""Databases: opened durably, with one kind of write transaction; driver errors as ours.

Drivers agree on no codes, and PostgreSQL's gives none when connecting fails, so failures are told
apart by the text of their messages. In a language that is not known here, an error counts as one
that may pass later.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.core.private_files import restrict
from mlcat_ingest.core.redaction import redact_urls
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)

_BUSY_TIMEOUT_MS = 5000

# In this order: the journal mode is asked for before anything else touches the file.
_SQLITE_PRAGMAS = (
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode=WAL",
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


def open_engine(where: str | Path, *, durable: bool = True) -> Engine:
    """Return an engine for the database at `where`; SQLite files are made where they are missing.

    SQLite connections use WAL and enforce foreign keys, and the files are for their owner alone.
    What was committed survives a kill, and where it is `durable` the loss of power too
    (`synchronous=FULL`, one fsync a commit). A file that cannot be opened is noticed at first use.

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
        pragmas = (*_SQLITE_PRAGMAS, f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        event.listen(engine, "connect", partial(_prepare_sqlite, url.database or "", pragmas))
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(
    name: str, pragmas: Sequence[str], dbapi_connection: Any, _record: object
) -> None:
    # SQLite gives the files beside a database its mode. A file that cannot be opened, or is in
    # memory, has none.
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            restrict(f"{name}{suffix}")
    # The driver's own implicit BEGIN would take the write lock too late; we begin ourselves.
    dbapi_connection.isolation_level = None
    for pragma in pragmas:
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
