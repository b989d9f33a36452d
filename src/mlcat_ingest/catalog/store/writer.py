"""The one writer: jobs of concurrent callers share a transaction, and so share its fsync."""

import logging
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from mlcat_ingest.catalog.errors import BusyError, StorageError
from mlcat_ingest.sql.engine import write_transaction

_log = logging.getLogger(__name__)

_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}

T = TypeVar("T")


@dataclass(slots=True)
class _QueuedJob(Generic[T]):
    job: Callable[[Connection], T]
    finished: bool = False
    result: T | None = None
    error: Exception | None = None


class StoreWriter:
    """Runs jobs that write, one at a time, and returns only when their transaction is durable.

    Whoever holds the turn commits everything that queued up meanwhile in one transaction, each
    job in a savepoint of its own: a job that is refused takes only its own changes back.
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
            raise _explained(error) from error
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


def _explained(error: OperationalError) -> Exception:
    """Return what a client is told; what only a defect of ours explains stays as it is."""
    # The low byte is the kind of error, the others say more of it.
    kind = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if kind in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BusyError("another process holds the catalog's database")
    if kind in _NO_ROOM:
        _log.error("a write was not committed: %s", error.orig)
        return StorageError(f"the catalog's database cannot be written: {error.orig}")
    return error
