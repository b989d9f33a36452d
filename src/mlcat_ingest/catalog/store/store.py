"""The store: entities, aspects with their versions and edges behind one class, and its one writer.

Jobs of concurrent callers share a transaction, and so share its fsync.

Every catalog has from its first start the data platforms that this package and DataHub's clients
write about, as a DataHub 1.x server knows them.
"""

import csv
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast

from sqlalchemy import insert, select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from mlcat_ingest.catalog.errors import BusyError, DamagedError, StorageError
from mlcat_ingest.catalog.schema.tables import MIGRATIONS, setting
from mlcat_ingest.catalog.schema.values import (
    SYSTEM_ACTOR,
    UNKNOWN_ACTOR,
    AspectVersion,
    DeletionResult,
    EdgeQuery,
    RelatedPage,
    UrnPage,
    Write,
    WriteResult,
)
from mlcat_ingest.catalog.search.index import is_current
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest
from mlcat_ingest.catalog.search.search import search
from mlcat_ingest.catalog.store import reads
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.catalog.store.reindex import rebuild
from mlcat_ingest.core.resources import Pace
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.aspects import DATA_PLATFORM_INFO
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sql.database import migrate
from mlcat_ingest.sql.engine import TextEngine, database_url, open_engine, write_transaction

_SETTING: Final = "data_platforms"
"""Set once they were written: one that is deleted or changed later stays so."""


def known_platforms() -> list[Write]:
    """Return the writes that make the known platforms: a row has the fields of one's aspect."""
    text = Path(__file__).with_name("data_platforms.csv").read_text("utf-8")
    return [
        Write(f"urn:li:dataPlatform:{row['name']}", DATA_PLATFORM_INFO, row)
        for row in csv.DictReader(text.splitlines())
    ]


def _add_platforms(connection: Connection) -> None:
    """Write the known platforms into a catalog that never had them."""
    if connection.scalar(select(setting.c.value).where(setting.c.name == _SETTING)) is not None:
        return
    items = [prepare(write) for write in known_platforms()]
    Batch(connection, SYSTEM_ACTOR).apply(items)
    connection.execute(insert(setting).values(name=_SETTING, value="1"))


P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NO_TEXT: Final = "Could not decode to UTF-8"
_RESTORE: Final = "restore a backup of the file; the documentation has a page on it"

_LINE_S: Final = 60.0
_CHECK_S: Final = 0.5
"""Longest time for which a database is checked at the start; 300 MB are read in it, if cached."""
_CHECK_EVERY: Final = 10_000


class _DatabaseFailures:
    """Turns errors of the database into errors for clients."""

    def __init__(self) -> None:
        self._pace = Pace(_LINE_S)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the error for a client; one that only a defect of ours explains stays as it is.

        Raises:
            BusyError: another process holds the database, or there is no free file descriptor.
            StorageError: the disk is full, or fails.
            DamagedError: the file is damaged; the log says so once a minute.
        """
        try:
            yield
        except (DBAPIError, UnicodeDecodeError) as error:
            if (damage := _damage_of(error)) is not None:
                damaged = DamagedError(f"the catalog's database is damaged: {damage}; {_RESTORE}")
                if self._pace.allows():
                    _log.error("%s", damaged)
                raise damaged from error
            kind = _kind_of(error)
            if kind in _BUSY:
                message = "another process has locked the catalog's database"
                raise BusyError(message) from error
            if kind == sqlite3.SQLITE_CANTOPEN:
                # It was open before: there is no free file descriptor.
                raise BusyError("the catalog has too many open files; try again") from error
            if kind in _NO_ROOM:
                message = f"cannot write the catalog's database: {_words_of(error)}"
                _log.error("%s", message)
                raise StorageError(message) from error
            raise


def _damage_of(error: DBAPIError | UnicodeDecodeError) -> str | None:
    """Return the damage that an error shows, None for none: all that is written is UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    is_damage = _kind_of(error) in _DAMAGED or _NO_TEXT in _words_of(error)
    return _words_of(error) if is_damage else None


def _kind_of(error: DBAPIError | UnicodeDecodeError) -> int:
    # The low byte is the kind of error, the others are details.
    return int(getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)) & 0xFF


def _words_of(error: DBAPIError | UnicodeDecodeError) -> str:
    return str(getattr(error, "orig", error))


@dataclass(slots=True)
class _QueuedJob(Generic[T]):
    job: Callable[[Connection], T]
    finished: bool = False
    result: T | None = None
    error: Exception | None = None


class _StoreWriter:
    """Runs jobs that write, one at a time, and returns only when their transaction is durable.

    The caller that holds the lock commits everything that queued up meanwhile in one transaction
    (group commit), each job in a savepoint of its own: a refused job takes back only its own
    changes.
    """

    def __init__(self, engine: Engine, failures: _DatabaseFailures) -> None:
        self._engine = engine
        self._failures = failures
        self._queue: list[_QueuedJob[Any]] = []
        self._queue_lock = threading.Lock()
        self._turn = threading.Lock()

    def run(self, job: Callable[[Connection], T]) -> T:
        """Run `job` inside a transaction and return its result once that is on the disk.

        Raises:
            MlcatError: whatever the job raised; nothing of the job was written.
            BusyError: another process holds the database, or the transaction broke; nothing was
                written and the same call may pass.
            StorageError: the disk is full, or fails; nothing was written.
        """
        entry = _QueuedJob(job)
        with self._queue_lock:
            self._queue.append(entry)
        with self._turn:
            if not entry.finished:
                self._commit_queued()
        if entry.error is not None:
            with self._failures.translated():
                raise entry.error
        return cast("T", entry.result)

    def _commit_queued(self) -> None:
        with self._queue_lock:
            group, self._queue = self._queue, []
        committed = False
        try:
            with self._failures.translated(), write_transaction(self._engine) as connection:
                for entry in group:
                    _run_in_savepoint(connection, entry)
            committed = True
        finally:
            for entry in group:
                entry.finished = True
                if not committed:
                    entry.error = entry.error or BusyError("the write was not committed; try again")


def _run_in_savepoint(connection: Connection, entry: _QueuedJob[Any]) -> None:
    try:
        with connection.begin_nested():
            entry.result = entry.job(connection)
    except OperationalError:
        raise  # the database's own trouble is that of the whole transaction
    except Exception as error:  # noqa: BLE001 - raised where the job's result is asked for
        entry.error = error


class Store:
    """Aspects of entities, their versions and the edges between entities. Safe for threads.

    An entity exists from the first write of any of its aspects, its key aspect included, until it
    is deleted.
    """

    def __init__(self, engine: Engine) -> None:
        """Use the database behind `engine`, whose tables `Store.open` has migrated."""
        self._engine = engine
        self._failures = _DatabaseFailures()
        self._writer = _StoreWriter(engine, self._failures)

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Return the store in the SQLite file at `where` (a path or a URL), made where missing.

        Raises:
            RecipeError: the file cannot be opened, is damaged or no database, or was made by a
                newer version.
        """
        url = database_url(where)
        if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
            raise RecipeError(
                "the catalog stores its data in an SQLite file only",
                hint="set a path, such as catalog.db",
            )
        engine = open_engine(where)
        with ExitStack() as on_failure:
            on_failure.callback(engine.dispose)
            store = cls(engine)
            try:
                _check(engine)
                migrate(TextEngine(str(where), engine), "catalog", MIGRATIONS)
                _index_if_needed(engine)
                store.change(_add_platforms)
            except (DamagedError, DBAPIError, UnicodeDecodeError) as error:
                raise _unusable(url, error) from error
            on_failure.pop_all()
        return store

    def close(self) -> None:
        """Release the connections; safe to call twice."""
        self._engine.dispose()

    # --- reading ---------------------------------------------------------------------------------

    def get_many(
        self,
        urns: Collection[str],
        aspects: Collection[str] | None = None,
        *,
        values: bool = True,
    ) -> dict[str, dict[str, AspectVersion]]:
        """Return the named `aspects` (None: all) of each of `urns`, by URN and aspect name.

        Of named ones the `values` may be left out: they are empty objects then.

        An entity that does not exist has no entry; one that exists and has none of the named
        aspects has an empty one. Key aspects are there like stored ones, read off the URN, and so
        are the default aspects.

        Raises:
            BadRequestError: more than a thousand `aspects` are named.

        Cost: one SQL statement for each thousand URNs.
        """
        return self.read(reads.get_many, urns, aspects, values=values)

    def get_version(self, urn: str, name: str, version: int) -> AspectVersion | None:
        """Return an aspect as of `version`, 1 being the first; 0 means the latest.

        Versions of an aspect that was deleted stay readable as long as its entity is there.
        """
        return self.read(reads.get_version, urn, name, version)

    def exists(self, urns: Collection[str]) -> set[str]:
        """Return those of `urns` that exist."""
        return self.read(reads.existing, urns)

    def related_entities(self, urns: Collection[str], query: EdgeQuery) -> dict[str, RelatedPage]:
        """Return, for each of `urns`, a page of the entities at the other end of its edges.

        Edges of an entity that does not exist, but is referred to, are there too.

        Raises:
            BadRequestError: more than a thousand relationships are named.

        Cost: one SQL statement for each thousand URNs.
        """
        return self.read(reads.related_entities, urns, query)

    def list_urns(self, entity_type: str, start: int = 0, count: int = 100) -> UrnPage:
        """Return a page of the URNs of one entity type, the oldest entity first."""
        return self.read(reads.list_urns, entity_type, start, count)

    def search(self, request: SearchRequest) -> SearchPage:
        """Return the page of entities that `request` asks for; what was acknowledged is found.

        Raises:
            BadRequestError: the scroll id is not one that this search gave.

        Cost: a dozen SQL statements, however many entities there are.
        """
        return self.read(search, request)

    def read(
        self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Return what `question` finds; all of its statements see the same state of the data."""
        with (
            self._failures.translated(),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            return question(connection, *args, **options)

    # --- writing ---------------------------------------------------------------------------------

    def write(self, items: Sequence[Write], actor: str = UNKNOWN_ACTOR) -> list[WriteResult]:
        """Write all of `items`, in their order, or none; durable when this returns.

        An item that changes nothing makes no new version. A deleted aspect can still be read by
        its versions, and a later write counts on from the last of them; deleting the key aspect
        deletes the entity with everything it has, and later writes make a new one.

        Raises:
            InvalidProposalError: an item is refused; nothing was written.
            VersionConflictError: an item found another state than it asked for; nothing was
                written.

        Cost: a handful of SQL statements for each thousand items; concurrent calls share a commit.
        """
        prepared = [prepare(item) for item in items]
        return self.change(lambda connection: Batch(connection, actor).apply(prepared))

    def delete(self, urn: str) -> DeletionResult:
        """Delete an entity with all versions of its aspects, its events, and the edges that leave.

        Returns how much it had; nothing where there was no such entity.

        Raises:
            InvalidProposalError: `urn` is no URN of an entity that could be here.
        """
        key = key_aspect_name(entity_type_of(urn))
        deletion = prepare(Write(urn, key, change="DELETE"))

        def remove(connection: Connection) -> DeletionResult:
            rows = reads.count_entity_rows(connection, urn)
            Batch(connection, UNKNOWN_ACTOR).apply([deletion])
            return rows

        return self.change(remove)

    def change(
        self, job: Callable[Concatenate[Connection, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Run `job` in the one writer's transaction and return its result once it is durable.

        Raises:
            MlcatError: whatever `job` raised; nothing of it was written.
        """
        return self._writer.run(lambda connection: job(connection, *args, **options))


def _unusable(url: URL, error: DamagedError | DBAPIError | UnicodeDecodeError) -> RecipeError:
    """Return the sentence for the user about an error of a database at its opening."""
    if isinstance(error, DamagedError):
        return RecipeError(f"cannot open the database {url}: {error.message}")
    damage = _damage_of(error)
    why = damage or _words_of(error)
    return RecipeError(f"cannot open the database {url}: {why}", hint=damage and _RESTORE)


def _check(engine: Engine) -> None:
    """Look for damage, in a large database in a part of it.

    Raises:
        DamagedError: there is some.
    """
    end_s = time.monotonic() + _CHECK_S
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        driver.set_progress_handler(lambda: time.monotonic() > end_s, _CHECK_EVERY)
        try:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        except OperationalError as error:
            if _kind_of(error) != sqlite3.SQLITE_INTERRUPT:
                raise
            found = "ok"
        finally:
            driver.set_progress_handler(None, 0)
    if found != "ok":
        raise DamagedError(f"it is damaged: {' '.join(found.split())}; {_RESTORE}")


def _index_if_needed(engine: Engine) -> None:
    """Index a database that a version made which indexed otherwise, or not at all."""
    with engine.connect() as connection, connection.begin():
        if is_current(connection):
            return
    with write_transaction(engine) as connection:
        entities = rebuild(connection)
    if entities:
        _log.info("rebuilt the search index of %s", plural(entities, "entity", "entities"))
