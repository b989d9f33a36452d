"""`/operations`: tasks and their status.

Source: DataHub's Rest.li resource `/operations`; the task status of Elasticsearch.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import is_series
from mlcat_ingest.catalog.store.prepare import check_aspect_name, check_urn
from mlcat_ingest.catalog.store.reindex import ReindexScope
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.timeseries import Span, count_events
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.http import (
    RequestContext,
    flag,
    json_object,
    json_type,
    optional,
    required_text,
    urn_pattern,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    INTERFACE,
    TEXT,
    URN,
    WHOLE,
    Resource,
    action,
    record,
)
from mlcat_ingest.catalog.web.rest.openapi_entities import entity_type_named
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.registry import ASPECTS

_TASK: Final = re.compile(r"[a-zA-Z0-9_-]+:[0-9]+")
_MAX_TASK_ID: Final = 2**63 - 1
_FORCES: Final = ("forceReindex", "forceDeleteByQuery")
_REINDEXING: Final = "Reindexing the aspect without the deleted records. "
_DELETING: Final = "Issuing a delete by query request. "
_DRY_RUN: Final = "This was a dry run. Run with dryRun = false to execute."


_OF_ELASTICSEARCH: Final = ("batchSize", "timeoutSeconds")
"""Parameters that only an Elasticsearch has a use for."""


class Operations(Resource):
    """The endpoints of `/operations`."""

    def __init__(self, store: Store, tasks: Tasks, limits: Limits) -> None:
        super().__init__(store, limits)
        self._tasks = tasks

    @action(
        "/operations",
        "getEsTaskStatus",
        client=INTERFACE,
        reads=True,
        body=record(task=TEXT, nodeId=TEXT, taskId=WHOLE),
        returns=TEXT,
    )
    def get_es_task_status(self, request: RequestContext) -> str:
        """Read the status of a task: JSON text in `value`, an `error` in it for an unknown one."""
        node_id, task_id = _task_of(json_object(request.json()))
        status: Mapping[str, Any] | None = self._tasks.status(node_id, task_id)
        if status is None:
            status = {"error": f"Could not get task status for {node_id}:{task_id}"}
        return dumps(status).decode()

    @action(
        "/operations",
        "restoreIndices",
        client="CLI check restore-indices",
        body=record(urn=URN, urnLike=TEXT),
        returns=TEXT,
    )
    def restore_indices(self, request: RequestContext) -> str:
        """Start making edges and index anew of one URN, of those like a pattern, or of all."""
        params = json_object(request.json()) if request.body else {}
        urn = optional(params, "urn")
        if urn is not None:
            check_urn(urn)
        return self._tasks.reindex(ReindexScope(urn, urn_pattern(params, "urnLike")))

    @action(
        "/operations",
        "truncateTimeseriesAspect",
        client="SDK DataHubGcSource.truncate_timeseries_util",
        body=record(
            *("entityType", "aspect", "endTimeMillis"),
            entityType=TEXT,
            aspect=TEXT,
            endTimeMillis=WHOLE,
            dryRun=FLAG,
            forceDeleteByQuery=FLAG,
            forceReindex=FLAG,
            **dict.fromkeys(_OF_ELASTICSEARCH, WHOLE),
        ),
        returns=TEXT,
    )
    def truncate_timeseries_aspect(self, request: RequestContext) -> str:
        """Start deleting the events up to a moment, or only count them, which is the default."""
        params = json_object(request.json())
        named = (required_text(params, name) for name in ("entityType", "aspect"))
        entity_type, aspect = _series(*named)
        if params.get("endTimeMillis") is None:
            raise BadRequestError("endTimeMillis: the parameter is missing")
        span = Span(aspect, end_ms=whole(params, "endTimeMillis"))
        for name in _OF_ELASTICSEARCH:
            whole(params, name)
        forced = [flag(params, name) for name in _FORCES if params.get(name) is not None]
        if len(forced) == len(_FORCES) and len(set(forced)) == 1:
            return "please only set forceReindex OR forceDeleteByQuery flags"
        if not flag(params, "dryRun", default=True):
            return self._tasks.truncate(entity_type, span)
        total, gone = self._store.read(
            lambda connection: (
                count_events(connection, entity_type, Span(aspect)),
                count_events(connection, entity_type, span),
            )
        )
        most = 2 * gone > total and not flag(params, "forceDeleteByQuery")
        how = _REINDEXING if most or flag(params, "forceReindex") else _DELETING
        share = 100 * gone / total if total else 0.0
        return f"Delete {gone} out of {total} rows ({share:.2f}%). {how}{_DRY_RUN}"


def _series(entity_type: str, aspect: str) -> tuple[str, str]:
    """Return the entity type and the timeseries aspect of these names."""
    try:
        known = entity_type_named(entity_type)
        check_aspect_name(known, aspect)
    except NotFoundError as error:
        raise BadRequestError(f"entityType: {error}") from error
    except InvalidProposalError as error:
        raise BadRequestError(str(error).replace("aspectName", "aspect", 1)) from error
    if aspect in ASPECTS and not is_series(aspect):
        raise BadRequestError(f"aspect: {aspect!r} is not a timeseries aspect")
    return known, aspect


def _task_of(params: Mapping[str, Any]) -> tuple[str, int]:
    task = optional(params, "task")
    node_id = optional(params, "nodeId")
    task_id = params.get("taskId") or 0
    if isinstance(task_id, bool) or not isinstance(task_id, int):
        raise BadRequestError(f"taskId: expected a whole number, not {json_type(task_id)}")
    separate = f"{node_id}:{task_id}" if node_id and task_id else None
    if task is None and separate is None:
        raise BadRequestError(
            "Please specify either Node ID + task ID OR composite task parameters"
        )
    if task is not None and separate is not None and task != separate:
        raise BadRequestError(
            "Please specify only one of Node ID + task ID OR composite task parameters"
        )
    return _parse_task(task if task is not None else str(separate))


def _parse_task(task: str) -> tuple[str, int]:
    node_id, _, digits = task.partition(":")
    # More digits than a long has would only cost time to read.
    usable = _TASK.fullmatch(task) is not None and len(digits.lstrip("0")) < 20
    task_id = int(digits) if usable else 0
    if not 0 < task_id <= _MAX_TASK_ID:
        raise BadRequestError(
            "Task should be in the form nodeId:taskId e.g. aB1cdEf2GHIJKLMnoPQr3S:123456 "
            f"(got {task})"
        )
    return node_id, task_id
