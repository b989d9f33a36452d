"""Tasks: started by a request, run in the background, their status kept for good."""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sqlalchemy import func, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from mlcat_ingest.catalog.schema.tables import setting, task
from mlcat_ingest.catalog.store.reads import Span, count_events, truncate_batch
from mlcat_ingest.catalog.store.reindex import (
    BatchProgress,
    ReindexScope,
    count_aspects,
    reindex_batch,
)
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.metadata.codec import dumps, loads

_EVENTS_AT_ONCE: Final = 1_000
_NODE_ID: Final = select(setting.c.value).where(setting.c.name == "node_id")


REINDEX: Final = "reindex"
"""The kind of a task that makes the edges of entities, and the search index, from their aspects."""

TRUNCATE: Final = "truncate"
"""The kind of a task that deletes events of a timeseries aspect, of all entities of one type."""


_Step = Callable[[Connection, int], BatchProgress | None]
"""Does the next batch of a task, which begins at a place, in a transaction; None: nothing left."""

_log = logging.getLogger(__name__)

_STOPPED = "the catalog stopped before the task finished"


@dataclass(slots=True)
class _IndexTaskStatus:
    """The counters of a task so far, in the words of a search index.

    Reindexing looks at `total` aspects; `noops` had nothing to mend, `updated` had; `created` and
    `deleted` count edges. Truncating is to delete `total` events, and `deleted` counts them.
    `batches` are transactions.
    """

    total: int = 0
    updated: int = 0
    created: int = 0
    deleted: int = 0
    batches: int = 0
    version_conflicts: int = 0
    noops: int = 0
    retries: dict[str, int] = field(default_factory=lambda: {"bulk": 0, "search": 0})
    throttled_millis: int = 0
    requests_per_second: float = -1.0
    throttled_until_millis: int = 0

    def add(self, done: BatchProgress) -> None:
        """Count one batch."""
        self.updated += done.updated
        self.created += done.created
        self.deleted += done.deleted
        self.noops += done.noops
        self.batches += 1


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task; `phase` is `running` or `waiting` until it is completed.

    `run_time_ms` is 0 where it is not known, as of a task that the catalog's end cut short.
    """

    task_id: str
    kind: str
    completed: bool
    phase: str
    started_ms: int
    run_time_ms: int
    status: _IndexTaskStatus
    failure: str | None

    @property
    def done(self) -> int:
        """How much of `status.total` is done."""
        counted = self.status.deleted
        if self.kind == REINDEX:
            counted = self.status.updated + self.status.noops
        return min(counted, self.status.total)


def list_tasks(connection: Connection, start: int, count: int) -> tuple[int, list[TaskRow]]:
    """Return how many tasks there are, and a page of them, the newest first.

    Cost: a handful of SQL statements.
    """
    total = connection.scalar(select(func.count()).select_from(task)) or 0
    node_id = connection.scalar(_NODE_ID)
    running = connection.scalar(select(func.min(task.c.id)).where(task.c.completed == 0))
    query = select(task).order_by(task.c.id.desc()).offset(start).limit(count)
    return total, [
        TaskRow(
            task_id=f"{node_id}:{row.id}",
            kind=row.kind,
            completed=bool(row.completed),
            phase="running" if row.id == running else "waiting",
            started_ms=row.started_ms,
            run_time_ms=row.run_time_nanos // 1_000_000
            if row.completed
            else now_ms() - row.started_ms,
            status=_IndexTaskStatus(**loads(row.status)),
            failure=row.failure,
        )
        for row in connection.execute(query)
    ]


class Tasks:
    """The tasks of one catalog: at most one runs at a time, the others wait their turn."""

    def __init__(self, store: Store) -> None:
        """Run tasks on `store`; tasks that an earlier process left unfinished are closed."""
        self._store = store
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalog-task")
        self.node_id = store.change(_node_id)
        store.change(_close_unfinished)

    def close(self) -> None:
        """Stop after the batch in hand and wait for it; safe to call twice."""
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._store.change(_close_unfinished)

    def reindex(self, scope: ReindexScope) -> str:
        """Start making edges and index of `scope` anew; return the task's id, `<node>:<number>`."""
        return self._start(
            REINDEX,
            lambda connection: count_aspects(connection, scope),
            lambda connection, place: reindex_batch(connection, scope, place),
        )

    def truncate(self, entity_type: str, span: Span) -> str:
        """Start deleting events of the entities of one type and return the task's id."""

        def step(connection: Connection, place: int) -> BatchProgress | None:
            gone = truncate_batch(connection, entity_type, span, _EVENTS_AT_ONCE)
            following = place + 1 if gone == _EVENTS_AT_ONCE else None
            return BatchProgress(following, deleted=gone) if gone else None

        return self._start(
            TRUNCATE, lambda connection: count_events(connection, entity_type, span), step
        )

    def _start(self, kind: str, total: Callable[[Connection], int], step: _Step) -> str:
        def register(connection: Connection) -> int:
            status = _IndexTaskStatus(total=total(connection))
            new = insert(task).values(
                kind=kind,
                completed=0,
                started_ms=now_ms(),
                run_time_nanos=0,
                status=_text(status),
            )
            return int(connection.execute(new).lastrowid)

        task_id = self._store.change(register)
        self._threads.submit(self._run, task_id, total, step).add_done_callback(_log_failure)
        return f"{self.node_id}:{task_id}"

    def status(self, node_id: str, task_id: int) -> dict[str, Any] | None:
        """Return the status of a task, None if this node has no such task."""
        if node_id != self.node_id:
            return None
        query = select(task).where(task.c.id == task_id)
        row = self._store.read(lambda connection: connection.execute(query).first())
        if row is None:
            return None
        running_nanos = row.run_time_nanos or (now_ms() - row.started_ms) * 1_000_000
        failure = {} if row.failure is None else {"failure": row.failure}
        return {
            "completed": bool(row.completed),
            "taskId": f"{node_id}:{task_id}",
            "runTimeNanos": running_nanos,
            "status": loads(row.status),
            **failure,
        }

    def _run(self, task_id: int, total: Callable[[Connection], int], step: _Step) -> None:
        started = time.monotonic_ns()
        status = _IndexTaskStatus(total=self._store.read(total))
        failure: str | None = None
        try:
            self._work(step, status, lambda c: _save(c, task_id, status))
        except (MlcatError, SQLAlchemyError) as error:
            failure = str(error)
        if self._stopping.is_set():
            failure = failure or _STOPPED
        run_time_nanos = max(1, time.monotonic_ns() - started)
        final = {"completed": 1, "run_time_nanos": run_time_nanos, "failure": failure}
        self._store.change(lambda connection: _save(connection, task_id, status, **final))

    def _work(
        self, step: _Step, status: _IndexTaskStatus, save: Callable[[Connection], None]
    ) -> None:
        def batch(connection: Connection) -> int | None:
            done = step(connection, place)
            if done is None:
                return None
            status.add(done)
            save(connection)
            return done.place

        place = 0
        while not self._stopping.is_set() and (after := self._store.change(batch)) is not None:
            place = after


def _text(status: _IndexTaskStatus) -> str:
    return dumps(asdict(status)).decode()


def _save(connection: Connection, task_id: int, status: _IndexTaskStatus, **values: object) -> None:
    changed = update(task).where(task.c.id == task_id)
    connection.execute(changed.values(status=_text(status), **values))


def _node_id(connection: Connection) -> str:
    known = connection.scalar(_NODE_ID)
    if known is not None:
        return str(known)
    node_id = secrets.token_hex(11)
    connection.execute(insert(setting).values(name="node_id", value=node_id))
    return node_id


def _close_unfinished(connection: Connection) -> None:
    unfinished = update(task).where(task.c.completed == 0)
    connection.execute(unfinished.values(completed=1, failure=_STOPPED, run_time_nanos=1))


def _log_failure(future: "Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("a task ended without a result", exc_info=error)
