"""Databases that belong to another program: opened to be read, and nothing else; their failures.

A transaction here sees the database as it was at one moment, and takes no lock that a writer would
wait for, but for SQLite files outside WAL mode, where any reader keeps writers waiting. It cannot
write: SQLite files are opened read-only, transactions of PostgreSQL and MySQL are read-only ones.

Drivers agree on no codes, and PostgreSQL's gives none when connecting fails, so failures are told
apart by the text of their messages. In a language that is not known here, an error counts as one
that may pass later.
"""

import re
import sqlite3
from functools import partial
from typing import Final, NamedTuple

from mlcat_ingest.core.redaction import redact_url, redact_urls
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sql.database import (
    Engine,
    SqlConnection,
    SqliteEngine,
    connect_readonly,
    readable_file,
    sqlite_name,
)

_SCHEMA_OF: Final = (
    "SELECT coalesce((SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace ="
    " pg_namespace.oid WHERE pg_class.oid = to_regclass(?)), current_schema())"
)
_DEFAULT_SCHEMA: Final = "public"


def open_readonly(where: str, *, timeout_s: float) -> Engine:
    """Return an engine for the database at `where`; nothing is contacted yet.

    A statement, or SQLite's wait for a writer, takes at most `timeout_s`.

    Raises:
        RecipeError: `where` is no address of a database that can be used, or there is no such file.
        MissingExtraError: it is one of PostgreSQL, and its driver is not installed.
        NotAuthorizedError: the file may not be read.
    """
    name = sqlite_name(where)
    if name is not None:
        path = readable_file(name or ":memory:")
        return SqliteEngine(where, str(path), partial(connect_readonly, path, timeout_s))
    from mlcat_ingest.sql.engine import TextEngine, readonly_engine

    return TextEngine(where, readonly_engine(where, timeout_s=timeout_s))


def schema_of(connection: SqlConnection, table: str) -> str | None:
    """Return the schema in which `connection` finds a table, or would create it.

    Role, database and address can each set a search path. None where a database has no schemas.
    """
    if connection.dialect != "postgresql":
        return None
    found: str | None = connection.scalar(_SCHEMA_OF, table)
    return found


def with_schema(database: str, schema: str | None) -> str:
    """Return the identity of a schema of a database: that of `database` for the default schema."""
    return database if schema in {None, _DEFAULT_SCHEMA} else f"{database}/{schema}"


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


def failure(holder: DatabaseOwner, where: str, error: Exception) -> MlcatError:
    """Return the error to raise for one of the engine's, of the database at `where`."""
    message = _driver_message(error, where)
    kind = next(kind for kind in _KINDS if re.search(kind.regex, message, re.IGNORECASE))
    words = holder._asdict()
    return kind.error(
        f"the {holder.noun} {redact_url(where)} {kind.sentence.format(**words)}: {message}",
        hint=kind.cure.format(**words),
    )


def _driver_message(error: Exception, where: str) -> str:
    """Return the driver's message, without SQL and the password in `where`, on one line."""
    cause = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    # MySQL's drivers give a number before the text.
    texts = [text for text in cause.args if isinstance(text, str)]
    message = " ".join(" ".join(texts).split())
    password = _password(where)
    if not message or (password is not None and password in message):
        return type(cause).__name__
    return redact_urls(message)[:_MAX_MESSAGE_CHARS]


def _password(where: str) -> str | None:
    if sqlite_name(where) is not None:
        return None
    from mlcat_ingest.sql.engine import database_url

    return database_url(where).password
