"""The lock beside a catalog's database: one server a file, and where that server is.

The lock file is `<database>.lock`. While a server lives, the file's text is one JSON object: `pid`
(of the server), `url` (its address, null until it listens), `needs_token` (whether requests need
one) and `dies_with_parent` (whether it is a child that ends with the process that started it, and
so is nobody else's to use).
"""

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sql.database import sqlite_name
from mlcat_ingest.sql.filelock import FileLock, holder_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is alive on a database; `url` is None while it is still starting."""

    pid: int
    url: str | None = None
    needs_token: bool = False
    dies_with_parent: bool = False


class ServerLock(FileLock, Closing):
    """Held by the one server of a database file, from before it opens the file."""

    @classmethod
    def acquire(cls, database: str | Path) -> Self:
        """Return the lock of a database (a path, or an SQLite URL).

        Raises:
            RecipeError: another server has it, or the lock file cannot be made.
        """
        path = _lock_path(database)
        try:
            taken = cls.take(path, asdict(Running(os.getpid())))
        except OSError as error:
            raise RecipeError(
                f"cannot create the lock file {path}: {error.strerror}",
                hint="use a database path in an existing, writable folder",
            ) from error
        if taken is None:
            raise RecipeError(
                f"another catalog process serves {_database_path(database)}"
                f"{_description(read_lock(database))}",
                hint="use or stop that catalog, or set another database",
            )
        return taken

    def announce(self, running: Running) -> None:
        """Write the address of the server for others to read."""
        self.write(asdict(running))

    def close(self) -> None:
        """Let others have the database; safe to call twice."""
        self.release()


def read_lock(database: str | Path) -> Running | None:
    """Return the server that is alive on a database (a path, or an SQLite URL), if there is one."""
    holder = holder_of(_lock_path(database))
    if holder is None:
        return None
    try:
        return Running(**holder)
    except TypeError:
        return Running(0)


def log_new_file(database: str | Path) -> None:
    """Log where a new catalog will be made of a database (a path, or an SQLite URL)."""
    path = _database_path(database)
    if not path.exists():
        _log.info("a new catalog is created in %s", database)
    elif not path.stat().st_size:
        _log.warning(
            "%s is an empty file; a new, empty catalog is created in it (if it should not be "
            "empty, restore a backup)",
            database,
        )


def _description(other: Running | None) -> str:
    if other is None or not other.pid:
        return ""
    return f": {other.url} (process {other.pid})" if other.url else f": process {other.pid}"


def _database_path(database: str | Path) -> Path:
    name = sqlite_name(str(database))
    if name is None:
        raise RecipeError(
            "the catalog stores its data in an SQLite file only",
            hint="set a path, such as catalog.db",
        )
    return Path(name).resolve()


def _lock_path(database: str | Path) -> Path:
    path = _database_path(database)
    return path.with_name(f"{path.name}.lock")
