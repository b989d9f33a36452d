"""Databases that belong to another program: opened to be read, and nothing else; their failures.

A transaction here sees the database as it was at one moment, and takes no lock that a writer would
wait for, but for SQLite files outside WAL mode, where any reader keeps writers waiting. It cannot
write: SQLite files are opened read-only, transactions of PostgreSQL and MySQL are read-only ones.

Drivers agree on no codes, and PostgreSQL's gives none when connecting fails, so failures are told
apart by the text of their messages. In a language that is not known here, an error counts as one
that may pass later.
"""

import csv
import re
import sqlite3
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mlcat_ingest import errors
from mlcat_ingest.core.redaction import redact_url, redact_urls
from mlcat_ingest.errors import MlcatError
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


_FAILURES: Final = [
    *csv.DictReader(Path(__file__).with_name("failures.csv").read_text("utf-8").splitlines())
]
"""The kinds of failures: the pattern of the drivers' messages, our error, its sentence, the cure.

The first match counts."""


def failure(holder: DatabaseOwner, where: str, error: Exception) -> MlcatError:
    """Return the error to raise for one of the engine's, of the database at `where`."""
    message = _driver_message(error, where)
    kind = next(row for row in _FAILURES if re.search(row["regex"], message, re.IGNORECASE))
    words = holder._asdict()
    error_class: type[MlcatError] = getattr(errors, kind["error"])
    return error_class(
        f"the {holder.noun} {redact_url(where)} {kind['sentence'].format(**words)}: {message}",
        hint=kind["cure"].format(**words),
    )


def _driver_message(error: Exception, where: str) -> str:
    """Return the driver's message, without SQL and the password in `where`, on one line."""
    cause = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    # MySQL's drivers give a number before the text.
    texts = [text for text in cause.args if isinstance(text, str)]
    message = " ".join(" ".join(texts).split())
    password = None
    if sqlite_name(where) is None:
        from mlcat_ingest.sql.engine import database_url

        password = database_url(where).password
    if not message or (password is not None and password in message):
        return type(cause).__name__
    return redact_urls(message)[:_MAX_MESSAGE_CHARS]
