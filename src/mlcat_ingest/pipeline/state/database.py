"""The database of the state: opened, made where it is missing, copied; its errors translated."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import URL, Connection, Engine, insert, select
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.errors import RecipeError, StateUnavailableError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.sql.engine import database_url, open_engine, write_transaction
from mlcat_ingest.sql.migrations import migrate, pending
from mlcat_ingest.sql.readonly import open_readonly

log = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")

DIALECTS: Final = ("sqlite", "postgresql")

IN_LIST: Final = 500
"""Most values in one IN list."""

_COPY_TIMEOUT_S: Final = 60.0
_COPIED_ROWS: Final = 1_000

# What SQLite says of a file that is there, but is no sound database.
_CORRUPT: Final = ("file is not a database", "malformed", "file is encrypted", "corrupt")


class RunDatabase:
    """The state database as one run uses it, from any thread, for `recipe` and one catalog.

    There is none before `start`, after `stop`, and after its first failure: that costs the rest of
    what would be remembered, with one warning, and not the run.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        """Use none yet; `mask` hides secrets."""
        self.engine: Engine | None = None
        self.recipe = self.sink = ""
        self.lasting = True
        self.run_ms = 0
        self._mask = mask

    def start(
        self, engine: Engine, recipe: str, sink: str, *, lasting: bool = True, run_ms: int = 0
    ) -> None:
        """Use `engine`, for later runs if `lasting`; `run_ms`, by default now, names the run."""
        self.recipe, self.sink = recipe, sink
        self.lasting = lasting
        self.run_ms = run_ms or time.time_ns() // 1_000_000
        self.engine = engine

    def stop(self) -> None:
        """Use none from now on."""
        self.engine = None

    def attempt(self, work: Callable[[Engine], ValueT], default: ValueT) -> ValueT:
        """Return what `work` returns, `default` where there is no database or it fails."""
        engine = self.engine
        if engine is None:
            return default
        try:
            return work(engine)
        except SQLAlchemyError as error:
            self.stop()
            log.warning(
                "the state database failed; the next run reads again what this one read: %s",
                self._mask(driver_message(error)),
            )
            return default

    def connect(self) -> Connection:
        """Return a connection.

        Raises:
            StateUnavailableError: there is no database.
        """
        if self.engine is None:
            raise StateUnavailableError("the state database is not open")
        return self.engine.connect()


def open_state(url: str) -> Engine:
    """Return an engine of the state database at `url`, its tables up to date.

    The folder and the file of an SQLite database are made where they are missing.

    Raises:
        RecipeError: it is not a database that can hold state, it is damaged, or a newer version
            made it.
        MissingExtraError: it is PostgreSQL's, and the driver is not installed.
        StateUnavailableError: it cannot be made, written or reached.
    """
    address = lasting_address(url)
    path = file_of(address)
    if path is not None:
        _make_folder(path.parent)
    engine = open_engine(address.render_as_string(hide_password=False))
    with ExitStack() as unless_open, translate_errors(url):
        unless_open.callback(engine.dispose)
        migrate(engine, tables.COMPONENT, tables.MIGRATIONS)
        unless_open.pop_all()
    return engine


def lasting_address(url: str) -> URL:
    """Return the address of a database that can hold state; nothing is contacted.

    Raises:
        RecipeError: it is of another kind, or is forgotten with the process.
    """
    address = database_url(url)
    if address.get_backend_name() not in DIALECTS:
        raise RecipeError(
            f"state cannot be kept in {shown(url)}",
            hint="name an SQLite file (sqlite:///.mlcat/state.db) or a PostgreSQL database",
        )
    if address.get_backend_name() == "sqlite" and file_of(address) is None:
        raise RecipeError(
            "state in memory would be forgotten with the run",
            hint="name a file: sqlite:///.mlcat/state.db",
        )
    return address


def file_of(url: str | URL) -> Path | None:
    """Return the file of an SQLite database, None for any other and for one in memory."""
    address = _address(url)
    name = address.database or ""
    if address.get_backend_name() != "sqlite" or name in {"", ":memory:"}:
        return None
    return Path(name)


def is_missing(url: str) -> bool:
    """Return whether the state would be in a file that is not there."""
    path = file_of(url)
    return path is not None and not path.exists()


def shown(url: str | URL) -> str:
    """Return the address of a state database without its password."""
    path = file_of(url)
    return _address(url).render_as_string(hide_password=True) if path is None else str(path)


def _address(url: str | URL) -> URL:
    return url if isinstance(url, URL) else database_url(url)


@contextmanager
def translate_errors(url: str | URL) -> Iterator[None]:
    """Turn a database's error into one of ours.

    Raises:
        RecipeError: the database is damaged.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    try:
        yield
    except SQLAlchemyError as error:
        message = driver_message(error)
        if any(word in message for word in _CORRUPT):
            raise RecipeError(
                f"the state database {shown(url)} is damaged: {message}",
                hint="delete it: the next run reads everything again, and nothing is lost",
            ) from error
        raise StateUnavailableError(
            f"the state database {shown(url)} cannot be used: {message}",
            hint="name another one in `state: {url: …}`",
        ) from error


def driver_message(error: SQLAlchemyError) -> str:
    """Return the driver's message on one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def in_lists(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield `values`, each once and in their order, in lists that fit into an IN list."""
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), IN_LIST):
        yield distinct[start : start + IN_LIST]


@contextmanager
def read_only(url: str, *, timeout_s: float) -> Iterator[Connection | None]:
    """Give a connection that sees the state as it is now, None where an older version made it.

    Nothing is changed, and no lock is taken. There has to be a database.

    Raises:
        NotAuthorizedError: the file may not be read.
        RecipeError: the database is damaged, or a newer version made it.
        StateUnavailableError: it cannot be reached.
    """
    engine = open_readonly(url, timeout_s=timeout_s)
    try:
        with translate_errors(url), engine.connect() as connection, connection.begin():
            is_older = bool(pending(connection, tables.COMPONENT, tables.MIGRATIONS))
            yield None if is_older else connection
    finally:
        engine.dispose()


def copy_recipe(url: str, recipe: str, target: Engine) -> None:
    """Copy what the database at `url` keeps of a recipe's records to another, which has nothing.

    A database of an older version is not brought up to date for that: nothing is copied.

    Raises:
        NotAuthorizedError: the file may not be read.
        RecipeError: the database cannot hold state, is damaged, or a newer version made it.
        StateUnavailableError: it cannot be reached, or the copy cannot be made.

    Cost: a statement a table; memory for a thousand rows.
    """
    lasting_address(url)
    if is_missing(url):
        return
    with read_only(url, timeout_s=_COPY_TIMEOUT_S) as source:
        if source is None:
            log.warning("an older version kept %s: planning without it", shown(url))
            return
        ids = select(tables.part.c.id).where(tables.part.c.recipe == recipe)
        with write_transaction(target) as connection:
            for table in (tables.part, tables.identity, tables.record, tables.absent):
                mine = table.c.recipe == recipe if "recipe" in table.c else table.c.part_id.in_(ids)
                rows = source.execution_options(yield_per=_COPIED_ROWS).execute(
                    select(table).where(mine)
                )
                for some in rows.mappings().partitions(_COPIED_ROWS):
                    connection.execute(insert(table), [dict(row) for row in some])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateUnavailableError(
            f"the folder {folder} for the state cannot be made: {error.strerror}",
            hint="name another one in `state: {url: …}`",
        ) from error
