"""The state database and its files: opened, migrated, set aside; its errors translated."""

import glob
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from mlcat_ingest.core.environment import make_folder
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import (
    InvalidUrnError,
    ProtocolMismatchError,
    RecipeError,
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
)
from mlcat_ingest.sql.filelock import holder_of
from mlcat_ingest.sql.readonly import open_readonly

OTHER_DATABASE: Final = "set `state: {url: …}` to another database"

_DAMAGED: Final = "the next run sets the file aside and reads everything again; nothing is lost"

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
        make_folder_of(path)
    engine = open_database(url)
    with ExitStack() as unless_open, translate_errors(engine):
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


def make_folder_of(path: Path) -> None:
    """Make the folder of an SQLite file where it is missing.

    Raises:
        StateUnavailableError: it cannot be made, or the path is of something else than a file.
    """
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


@contextmanager
def translate_errors(engine: Engine) -> Iterator[None]:
    """Turn the error of a database, or of a value in it, into one of ours.

    Raises:
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    failures: tuple[type[Exception], ...] = (*engine.errors, *_UNREADABLE)
    try:
        yield
    except failures as error:
        message = printable(" ".join(str(getattr(error, "orig", None) or error).split()))
        shown = printable_url(engine.url)
        if file_of(engine.url) is not None and _is_damage(error):
            raise StateDamagedError(
                f"the state database {shown} is damaged: {message}", hint=_DAMAGED
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
        with translate_errors(engine), engine.transaction() as connection:
            is_older = bool(pending(connection, tables.COMPONENT, tables.MIGRATIONS))
            yield None if is_older else connection
    finally:
        engine.dispose()


def lock_file(url: str, recipe: str) -> Path | None:
    """Return the lock file of a recipe, None where the database has locks of its own.

    One database serves many recipes, so each has a file, under a name that its file system takes.
    """
    path = file_of(url)
    return path and path.with_name(f"{path.name}.{file_stem(recipe)}.lock")
