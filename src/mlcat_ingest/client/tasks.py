"""Tasks of the service's search index: their status, and waiting for their end.

Source: ``POST /operations?action=getEsTaskStatus``. The status is a JSON text in the reply's
`value`, and on DataHub a part of it is JSON text once more.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.client.connection import Connection
from mlcat_ingest.client.responses import NO_SUCH_CALL, wrong_address
from mlcat_ingest.errors import CatalogUnavailableError, CodecError, ProtocolMismatchError
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.net.http import Reply


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What the service says about a task; `error` is set where it cannot be found or read.

    `task` is ``<node id>:<task id>``; `run_time_ns` counts nanoseconds; `status` holds the
    counters (total, updated, created, deleted, …) as the service gives them.
    """

    task: str
    completed: bool = False
    run_time_ns: int | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


def task_status(
    connection: Connection, task: str | None = None, *, node_id: str = "", task_id: int = 0
) -> TaskStatus:
    """Return the status of `task`, or of the task `task_id` of the node `node_id`.

    Raises:
        CatalogRequestError: the service does not take the task's name.
        CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
        ProtocolMismatchError: as their names say.

    Cost: one request.
    """
    body = {"task": task} if task is not None else {"nodeId": node_id, "taskId": task_id}
    reply = connection.post("/operations?action=getEsTaskStatus", dumps(body))
    if reply.status in NO_SUCH_CALL:
        raise wrong_address(reply, connection.message(reply))
    if not reply.ok:
        raise connection.refusal(reply, what="the status of a task")
    return _read(reply, task if task is not None else f"{node_id}:{task_id}")


def wait_for_task(
    read: Callable[[], TaskStatus],
    *,
    timeout_s: float = 300.0,
    poll_s: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> TaskStatus:
    """Return the status that `read` gives once the task is complete or cannot be read.

    `poll_s` lies between two requests; at least one is made, whatever `timeout_s` is.

    Raises:
        CatalogUnavailableError: the task was still at work after `timeout_s`.
    """
    end = clock() + timeout_s
    while True:
        status = read()
        if status.completed or status.error is not None:
            return status
        left_s = end - clock()
        if left_s <= 0:
            raise CatalogUnavailableError(
                f"task {status.task} is still at work after {timeout_s:g} s",
                hint="ask again later, or wait longer",
            )
        sleep(min(poll_s, left_s))


def _read(reply: Reply, task: str) -> TaskStatus:
    body = reply.json()
    told = _decoded(body["value"] if isinstance(body, dict) and "value" in body else body)
    if not isinstance(told, dict):
        raise ProtocolMismatchError(
            f"{reply.peer} at {reply.url} answered a task's status in an unknown shape",
            hint="is it a DataHub-compatible service?",
        )
    if "error" in told:
        return TaskStatus(task, error=str(told["error"]))
    nanos = told.get("runTimeNanos")
    status = _decoded(told.get("status"))
    return TaskStatus(
        str(told.get("taskId", task)),
        completed=told.get("completed") is True,
        run_time_ns=nanos if isinstance(nanos, int) else None,
        status=status if isinstance(status, dict) else {"status": status},
    )


def _decoded(value: Any) -> Any:
    """Return what a JSON text says; what is not JSON text stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except CodecError:
        return value
