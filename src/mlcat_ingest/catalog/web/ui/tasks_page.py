"""The page of index tasks: their status, progress and times."""

from typing import Final

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import REINDEX, TRUNCATE, TaskRow, list_tasks
from mlcat_ingest.catalog.web.ui.lists import PAGE_ROWS, ListColumn, Listing, pager
from mlcat_ingest.catalog.web.ui.text import duration, moment
from mlcat_ingest.core.text import plural

PATH: Final = "/tasks"

_KINDS: Final = {
    REINDEX: "Rebuild of edges and search index",
    TRUNCATE: "Deletion of events",
}


def tasks_page(store: Store, start: int) -> Listing:
    """Return a page of the index tasks, the newest first."""
    total, rows = store.read(list_tasks, start, PAGE_ROWS)
    part = pager(total, start, len(rows), lambda at: f"{PATH}?start={at}")
    return Listing(rows, _COLUMNS, part, "No index tasks.", "Index tasks", title="Index tasks")


def _state(task: TaskRow) -> tuple[str, str]:
    """Return the look of a badge, and its text."""
    if task.failure:
        return "bad", "failed"
    return ("good", "completed") if task.completed else ("quiet", task.phase)


def _result(task: TaskRow) -> str:
    status = task.status
    if task.failure:
        return task.failure
    if task.kind == TRUNCATE:
        return f"{plural(status.deleted, 'event')} deleted"
    return (
        f"{plural(status.updated, 'aspect')} mended, "
        f"{plural(status.created, 'edge')} added, {plural(status.deleted, 'edge')} deleted"
    )


_COLUMNS: Final = (
    ListColumn("Task", lambda row: (_KINDS.get(row.kind, row.kind), row.task_id), "task"),
    ListColumn("Status", _state, "badge"),
    ListColumn("Progress", lambda row: row, "progress", "nowrap"),
    ListColumn("Result", _result, "task_result"),
    ListColumn("Started", lambda row: moment(row.started_ms), css="nowrap dim"),
    ListColumn(
        "Duration",
        lambda row: duration(str(row.run_time_ms)) if row.run_time_ms else "",
        css="number dim",
    ),
)
