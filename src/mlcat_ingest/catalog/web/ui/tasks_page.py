"""The page of index tasks: their status, progress and times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Reindexing, TaskRow, Truncation, list_tasks
from mlcat_ingest.catalog.web.ui.lists import PAGE_ROWS, pager
from mlcat_ingest.catalog.web.ui.text import duration, moment
from mlcat_ingest.core.text import plural

PATH: Final = "/tasks"

_KINDS: Final = {
    Reindexing.kind: "Rebuild of edges and search index",
    Truncation.kind: "Deletion of events",
}


@dataclass(frozen=True, slots=True)
class ShownTask:
    """An index task in words; `mark` is `good`, `bad` or `quiet`."""

    name: str
    id: str
    state: str
    mark: str
    done: int
    total: int
    result: str
    started: str
    duration: str


def tasks_page(store: Store, start: int) -> Mapping[str, object]:
    """Return a page of the index tasks, the newest first."""
    total, rows = store.read(lambda connection: list_tasks(connection, start, PAGE_ROWS))
    part = pager(total, start, len(rows), lambda at: f"{PATH}?start={at}")
    return {"tasks": [_shown(row) for row in rows], "pager": part}


def _shown(row: TaskRow) -> ShownTask:
    status = row.status
    mark = "bad" if row.failure else "good" if row.completed else "quiet"
    if row.kind == Truncation.kind:
        result = f"{plural(status.deleted, 'event')} deleted"
    else:
        result = (
            f"{plural(status.updated, 'aspect')} mended, "
            f"{plural(status.created, 'edge')} added, {plural(status.deleted, 'edge')} deleted"
        )
    return ShownTask(
        name=_KINDS.get(row.kind, row.kind),
        id=row.task_id,
        state="failed" if row.failure else "completed" if row.completed else row.phase,
        mark=mark,
        done=row.done,
        total=status.total,
        result=row.failure or result,
        started=moment(row.started_ms),
        duration=duration(str(row.run_time_ms)) if row.run_time_ms else "",
    )
