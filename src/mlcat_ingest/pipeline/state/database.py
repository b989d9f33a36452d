"""The database of the state: opened, made where it is missing, its faults told with their cure."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.errors import RecipeError, StateUnavailableError
from mlcat_ingest.pipeline.state.tables import COMPONENT, MIGRATIONS
from mlcat_ingest.sql.engine import database_url, open_engine
from mlcat_ingest.sql.migrations import migrate

DIALECTS: Final = ("sqlite", "postgresql")

# What SQLite says of a file that is there, but is no sound database.
_CORRUPT: Final = ("file is not a database", "malformed", "file is encrypted", "corrupt")


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
    with ExitStack() as unless_open, told(url):
        unless_open.callback(engine.dispose)
        migrate(engine, COMPONENT, MIGRATIONS)
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


def shown(url: str | URL) -> str:
    """Return the address of a state database without its password."""
    path = file_of(url)
    return _address(url).render_as_string(hide_password=True) if path is None else str(path)


def _address(url: str | URL) -> URL:
    return url if isinstance(url, URL) else database_url(url)


@contextmanager
def told(url: str | URL) -> Iterator[None]:
    """Turn a database's error into one of ours.

    Raises:
        RecipeError: the database is damaged.
        StateUnavailableError: it cannot be opened, written or reached.
    """
    try:
        yield
    except SQLAlchemyError as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        if any(word in said for word in _CORRUPT):
            raise RecipeError(
                f"the state database {shown(url)} is damaged: {said}",
                hint="delete it: the next run reads everything again, and nothing is lost",
            ) from error
        raise StateUnavailableError(
            f"the state database {shown(url)} cannot be used: {said}",
            hint="name another one in `state: {url: …}`",
        ) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateUnavailableError(
            f"the folder {folder} for the state cannot be made: {error.strerror}",
            hint="name another one in `state: {url: …}`",
        ) from error
