"""The store: entities, aspects with their versions and edges behind one class, and its one writer.

Jobs of concurrent callers share a transaction, and so share its fsync.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from mlcat_ingest.catalog.errors import BusyError, StorageError
from mlcat_ingest.catalog.schema.migrations import MIGRATIONS
from mlcat_ingest.catalog.schema.values import (
    UNKNOWN_ACTOR,
    AspectVersion,
    DeletionResult,
    Direction,
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
from mlcat_ingest.catalog.store.platforms import add_platforms
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.catalog.store.reindex import rebuild
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sql.engine import database_url, open_engine, usable, write_transaction
from mlcat_ingest.sql.migrations import migrate

T = TypeVar("T")

_log = logging.getLogger(__name__)

_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


@dataclass(slots=True)
class _QueuedJob(Generic[T]):
    job: Callable[[Connection], T]
    finished: bool = False
    result: T | None = None
    error: Exception | None = None


class StoreWriter:
    """Runs jobs that write, one at a time, and returns only when their transaction is durable.

    The caller that holds the lock commits everything that queued up meanwhile in one transaction
    (group commit), each job in a savepoint of its own: a refused job takes back only its own
    changes.
    """

    def __init__(self, engine: Engine) -> None:
        """Write to the database behind `engine`."""
        self._engine = engine
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
            raise entry.error
        return cast("T", entry.result)

    def _commit_queued(self) -> None:
        with self._queue_lock:
            group, self._queue = self._queue, []
        committed = False
        try:
            with write_transaction(self._engine) as connection:
                for entry in group:
                    _run_in_savepoint(connection, entry)
            committed = True
        except OperationalError as error:
            raise _client_error(error) from error
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


def _client_error(error: OperationalError) -> Exception:
    """Return the error for the client; one that only a defect of ours explains stays as it is."""
    # The low byte is the kind of error, the others are details.
    kind = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if kind in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BusyError("another process has locked the catalog's database")
    if kind in _NO_ROOM:
        _log.error("a write was not committed: %s", error.orig)
        return StorageError(f"cannot write the catalog's database: {error.orig}")
    return error


class Store:
    """Aspects of entities, their versions and the edges between entities. Safe for threads.

    An entity exists from the first write of any of its aspects, its key aspect included, until it
    is deleted.
    """

    def __init__(self, engine: Engine) -> None:
        """Use the database behind `engine`, whose tables `Store.open` has migrated."""
        self._engine = engine
        self._writer = StoreWriter(engine)

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Return the store in the SQLite file at `where` (a path or a URL), made where missing.

        Raises:
            RecipeError: the file cannot be opened, is no database, or was made by a newer version.
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
            with usable(where):
                migrate(engine, "catalog", MIGRATIONS)
                _index_if_needed(engine)
                store = cls(engine)
                store.change(add_platforms)
            on_failure.pop_all()
        return store

    def close(self) -> None:
        """Release the connections; safe to call twice."""
        self._engine.dispose()

    # --- reading ---------------------------------------------------------------------------------

    def get_many(
        self, urns: Collection[str], aspects: Collection[str] | None = None
    ) -> dict[str, dict[str, AspectVersion]]:
        """Return the named `aspects` (None: all) of each of `urns`, by URN and aspect name.

        An entity that does not exist has no entry; one that exists and has none of the named
        aspects has an empty one. Key aspects are there like stored ones, read off the URN, and so
        are the default aspects.

        Raises:
            BadRequestError: more than a thousand `aspects` are named.

        Cost: one SQL statement for each thousand URNs.
        """
        return self.read(lambda connection: reads.get_many(connection, urns, aspects))

    def get_version(self, urn: str, name: str, version: int) -> AspectVersion | None:
        """Return an aspect as of `version`, 1 being the first; 0 means the latest.

        Versions of an aspect that was deleted stay readable as long as its entity is there.
        """
        return self.read(lambda connection: reads.get_version(connection, urn, name, version))

    def exists(self, urns: Collection[str]) -> set[str]:
        """Return those of `urns` that exist."""
        return self.read(lambda connection: reads.existing(connection, urns))

    def related_entities(
        self,
        urns: Collection[str],
        relationships: Collection[str] | None,
        direction: Direction,
        start: int = 0,
        count: int = 100,
        *,
        include_removed: bool = True,
    ) -> dict[str, RelatedPage]:
        """Return, for each of `urns`, the entities at the other end of its edges, page by page.

        `relationships` names the edges to follow (None: all). Incoming edges come in the order in
        which their entities were made, outgoing ones by relationship and URN. Edges of an entity
        that does not exist, but is referred to, are there too; edges to entities that are marked
        as removed are, unless `include_removed` is False.

        Raises:
            BadRequestError: more than a thousand `relationships` are named.

        Cost: one SQL statement for each thousand URNs.
        """
        return self.read(
            lambda db: reads.related_entities(
                db, urns, relationships, direction, start, count, include_removed=include_removed
            )
        )

    def list_urns(self, entity_type: str, start: int = 0, count: int = 100) -> UrnPage:
        """Return a page of the URNs of one entity type, the oldest entity first."""
        return self.read(lambda connection: reads.list_urns(connection, entity_type, start, count))

    def search(self, request: SearchRequest) -> SearchPage:
        """Return the page of entities that `request` asks for; what was acknowledged is found.

        Raises:
            BadRequestError: the scroll id is not one that this search gave.

        Cost: a dozen SQL statements, however many entities there are.
        """
        return self.read(lambda connection: search(connection, request))

    def read(self, question: Callable[[Connection], T]) -> T:
        """Return what `question` finds; all of its statements see the same state of the data."""
        with self._engine.connect() as connection, connection.begin():
            return question(connection)

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

    def change(self, job: Callable[[Connection], T]) -> T:
        """Run `job` in the one writer's transaction and return its result once it is durable.

        Raises:
            MlcatError: whatever `job` raised; nothing of it was written.
        """
        return self._writer.run(job)


def _index_if_needed(engine: Engine) -> None:
    """Index a database that a version made which indexed otherwise, or not at all."""
    with engine.connect() as connection, connection.begin():
        if is_current(connection):
            return
    with write_transaction(engine) as connection:
        entities = rebuild(connection)
    if entities:
        _log.info("rebuilt the search index of %s", plural(entities, "entity", "entities"))
