"""`/operations`: tasks and their status; `/test`: evaluating metadata tests.

Parameters of `/test` go by both of the names they have: `tests` or `testUrns`, `push` or
`shouldPush`. Source: DataHub's Rest.li resource `/operations`; the task status of Elasticsearch.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.limits import NAMES, SEARCH_PATTERN_CHARS, Limits
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, AspectVersion, Write, is_series
from mlcat_ingest.catalog.store.prepare import check_aspect_name, check_urn
from mlcat_ingest.catalog.store.reads import Span, count_events
from mlcat_ingest.catalog.store.reindex import ReindexScope
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.http import RequestContext, Schema, json_list
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.endpoint import Resource, action
from mlcat_ingest.catalog.web.rest.openapi_entities import entity_type_named
from mlcat_ingest.metadata.aspects import TEST_INFO, TEST_RESULTS
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata_tests.evaluate import (
    TestResults,
    evaluate,
    merge_results,
    read_tests,
)

# More digits than a long has would only cost time to read.
_TASK: Final = re.compile(r"([a-zA-Z0-9_-]+):0*([0-9]{1,19})")
_MAX_TASK_ID: Final = 2**63 - 1
_REINDEXING: Final = "Reindexing the aspect without the deleted records. "
_DELETING: Final = "Issuing a delete by query request. "
_DRY_RUN: Final = "This was a dry run. Run with dryRun = false to execute."


class Operations(Resource):
    """The endpoints of `/operations`."""

    def __init__(self, store: Store, tasks: Tasks, limits: Limits) -> None:
        super().__init__(store, limits)
        self._tasks = tasks

    @action(
        "/operations",
        "getEsTaskStatus",
        reads=True,
        body=js.record(task=js.TEXT, nodeId=js.TEXT, taskId={**js.INTEGER, "minimum": 0}),
        returns=js.TEXT,
    )
    def get_es_task_status(self, request: RequestContext) -> str:
        """Read the status of a task: JSON text in `value`, an `error` in it for an unknown one."""
        node_id, task_id = _task_of(request.params)
        status: Mapping[str, Any] | None = self._tasks.status(node_id, task_id)
        if status is None:
            status = {"error": f"Could not get task status for {node_id}:{task_id}"}
        return dumps(status).decode()

    @action(
        "/operations",
        "restoreIndices",
        body=js.record(urn=js.URN, urnLike={**js.TEXT, "maxLength": SEARCH_PATTERN_CHARS}),
        returns=js.TEXT,
    )
    def restore_indices(self, request: RequestContext) -> str:
        """Start making edges and index anew of one URN, of those like a pattern, or of all."""
        urn = request.params.get("urn")
        if urn is not None:
            check_urn(urn)
        return self._tasks.reindex(ReindexScope(urn, request.params.get("urnLike")))

    @action(
        "/operations",
        "truncateTimeseriesAspect",
        body=js.record(
            *("entityType", "aspect", "endTimeMillis"),
            entityType=js.TEXT,
            aspect=js.TEXT,
            endTimeMillis=js.WHOLE,
            dryRun={**js.FLAG, "default": True},
            forceDeleteByQuery=js.FLAG,
            forceReindex=js.FLAG,
            # Only an Elasticsearch has a use for these.
            batchSize=js.WHOLE,
            timeoutSeconds=js.WHOLE,
        ),
        returns=js.TEXT,
    )
    def truncate_timeseries_aspect(self, request: RequestContext) -> str:
        """Start deleting the events up to a moment, or only count them, which is the default."""
        params = request.params
        entity_type, aspect = _series(params["entityType"], params["aspect"])
        span = Span(aspect, end_ms=params["endTimeMillis"])
        reindexes, deletes = params.get("forceReindex"), params.get("forceDeleteByQuery")
        if reindexes is not None and reindexes == deletes:
            return "please only set forceReindex OR forceDeleteByQuery flags"
        if not params["dryRun"]:
            return self._tasks.truncate(entity_type, span)
        total, gone = self._store.read(
            lambda connection: (
                count_events(connection, entity_type, Span(aspect)),
                count_events(connection, entity_type, span),
            )
        )
        most = 2 * gone > total and not deletes
        how = _REINDEXING if most or reindexes else _DELETING
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
    task, node_id, task_id = params.get("task"), params.get("nodeId"), params.get("taskId")
    separate = f"{node_id}:{task_id}" if node_id and task_id else None
    named = {one for one in (task, separate) if one is not None}
    if len(named) != 1:
        which = "only one of" if named else "either"
        raise BadRequestError(
            f"Please specify {which} Node ID + task ID OR composite task parameters"
        )
    (task,) = named
    match = _TASK.fullmatch(task)
    if match is None or not 0 < int(match[2]) <= _MAX_TASK_ID:
        raise BadRequestError(
            "Task should be in the form nodeId:taskId e.g. aB1cdEf2GHIJKLMnoPQr3S:123456 "
            f"(got {task})"
        )
    return match[1], int(match[2])


_TEST_PAGE: Final = 1_000


_OPTIONS: Final[Mapping[str, Schema]] = {
    "testUrns": js.array(js.URN),
    "tests": js.array(js.URN),
    "shouldPush": js.FLAG,
    "push": js.FLAG,
}
_OUTCOME: Final = js.record(
    "passing", "failing", passing=js.array(js.OBJECT), failing=js.array(js.OBJECT)
)


class MetadataTests(Resource):
    """The endpoints of `/test`."""

    @action(
        "/test",
        "evaluate",
        reads=True,
        body=js.record("urn", urn=js.URN, **_OPTIONS),
        returns=_OUTCOME,
        refuses=(404,),
    )
    def evaluate(self, request: RequestContext) -> TestResults:
        """Evaluate the metadata tests of one entity, and store the outcome where asked to."""
        urn = request.params["urn"]
        check_urn(urn)
        if not self._store.exists([urn]):
            raise NotFoundError(f"{urn} is not in the catalog")
        return self._evaluate(request, [urn])[urn]

    @action(
        "/test",
        "batchEvaluate",
        reads=True,
        body=js.record("urns", urns=js.array(js.URN), **_OPTIONS),
        returns=js.record("results", results={"type": "object", "additionalProperties": _OUTCOME}),
    )
    def batch_evaluate(self, request: RequestContext) -> dict[str, Any]:
        """Evaluate the metadata tests of many entities; those not in the catalog are left out."""
        urns = json_list(request.params["urns"], "urns", self._limits.batch_urns)
        for urn in urns:
            check_urn(urn)
        known = self._store.exists(urns)
        results = self._evaluate(request, [urn for urn in urns if urn in known])
        return {"results": results}

    def _evaluate(self, request: RequestContext, urns: list[str]) -> dict[str, TestResults]:
        params = request.params
        named = "testUrns" if "testUrns" in params else "tests"
        tests = json_list(params.get(named, []), named, self._limits.batch_urns)
        push = params.get("shouldPush", params.get("push", False))
        if push:
            request.check_may_write()
        return evaluate_stored(self._store, urns, tests, push=push)


def evaluate_stored(
    store: Store, urns: Sequence[str], test_urns: Collection[str] | None, *, push: bool
) -> dict[str, TestResults]:
    """Return the outcome of the tests `test_urns`, or of all tests, for each of `urns`.

    With `push` the outcomes that changed are written as `testResults`.

    Raises:
        BadRequestError: one of `test_urns` is not a test in the catalog.

    Cost: one statement for the tests, one for the entities, one for each further URN on a property
    path (three at most); with `push` one for the stored outcomes, and one transaction.
    """
    names = list(dict.fromkeys(test_urns or _all_tests(store)))
    stored = store.get_many(names, {TEST_INFO})
    infos = {urn: stored[urn][TEST_INFO].value for urn in names if TEST_INFO in stored.get(urn, {})}
    if test_urns and (strangers := [urn for urn in names if urn not in infos]):
        raise BadRequestError(f"{strangers[0]!r} is not a metadata test in this catalog")
    results = evaluate(partial(_fetch_aspects, store), urns, read_tests(infos), UNKNOWN_ACTOR)
    if push:
        _push(store, results, frozenset(test_urns) if test_urns else None)
    return results


def _fetch_aspects(
    store: Store, urns: Collection[str], names: Collection[str] | None
) -> dict[str, dict[str, AspectVersion]]:
    """Return the named aspects of `urns`; all aspects where more are named than one call takes."""
    return store.get_many(urns, None if names and len(names) > NAMES else names)


def _all_tests(store: Store) -> Iterator[str]:
    start, total = 0, 1
    while start < total:
        page = store.list_urns("test", start, _TEST_PAGE)
        yield from page.urns
        start, total = start + _TEST_PAGE, page.total


def _push(store: Store, results: dict[str, TestResults], evaluated: frozenset[str] | None) -> None:
    stored = store.get_many(results.keys(), {TEST_RESULTS})
    writes: list[Write] = []
    for urn, aspects in stored.items():
        before = aspects[TEST_RESULTS].value if TEST_RESULTS in aspects else {}
        merged = merge_results(before, results[urn], evaluated)
        if merged is not None:
            writes.append(Write(urn, TEST_RESULTS, merged))
    if writes:
        store.write(writes)
