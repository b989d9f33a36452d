"""`/test`: evaluating metadata tests.

Parameters go by both of the names they have: `tests` or `testUrns`, `push` or `shouldPush`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.limits import NAMES
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, AspectVersion, Write
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import RequestContext, flag, json_object, required_text, texts
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    INTERFACE,
    OBJECT,
    URN,
    Resource,
    Schema,
    action,
    array,
    record,
)
from mlcat_ingest.metadata.aspects.assets import TEST_INFO, TEST_RESULTS, TestResults
from mlcat_ingest.metadata_tests.evaluate import evaluate, merge_results, read_tests

_TEST_PAGE: Final = 1_000


_OPTIONS: Final[Mapping[str, Schema]] = {
    "testUrns": array(URN),
    "tests": array(URN),
    "shouldPush": FLAG,
    "push": FLAG,
}
_OUTCOME: Final = record("passing", "failing", passing=array(OBJECT), failing=array(OBJECT))


class MetadataTests(Resource):
    """The endpoints of `/test`."""

    @action(
        "/test",
        "evaluate",
        client=INTERFACE,
        reads=True,
        body=record("urn", urn=URN, **_OPTIONS),
        returns=_OUTCOME,
        refuses=(404,),
    )
    def evaluate(self, request: RequestContext) -> TestResults:
        """Evaluate the metadata tests of one entity, and store the outcome where asked to."""
        params = json_object(request.json())
        urn = required_text(params, "urn")
        check_urn(urn)
        if not self._store.exists([urn]):
            raise NotFoundError(f"{urn} is not in the catalog")
        return self._evaluate(request, params, [urn])[urn]

    @action(
        "/test",
        "batchEvaluate",
        client=CONNECTOR,
        reads=True,
        body=record("urns", urns=array(URN), **_OPTIONS),
        returns=record("results", results={"type": "object", "additionalProperties": _OUTCOME}),
    )
    def batch_evaluate(self, request: RequestContext) -> dict[str, Any]:
        """Evaluate the metadata tests of many entities; those not in the catalog are left out."""
        params = json_object(request.json())
        urns = texts(params, self._limits.batch_urns, "urns")
        if urns is None:
            raise BadRequestError("urns: the parameter is missing")
        for urn in urns:
            check_urn(urn)
        known = self._store.exists(urns)
        results = self._evaluate(request, params, [urn for urn in urns if urn in known])
        return {"results": results}

    def _evaluate(
        self, request: RequestContext, params: Any, urns: list[str]
    ) -> dict[str, TestResults]:
        tests = texts(params, self._limits.batch_urns, "testUrns", "tests")
        push = flag(params, "shouldPush", "push")
        if push:
            request.check_may_write()
        return evaluate_stored(self._store, urns, tests, push=push, actor=UNKNOWN_ACTOR)


def evaluate_stored(
    store: Store, urns: Sequence[str], test_urns: Collection[str] | None, *, push: bool, actor: str
) -> dict[str, TestResults]:
    """Return the outcome of the tests `test_urns`, or of all tests, for each of `urns`.

    With `push` the outcomes that changed are written as `testResults` in the name of `actor`.

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
    results = evaluate(partial(fetch_aspects, store), urns, read_tests(infos), actor)
    if push:
        _push(store, results, frozenset(test_urns) if test_urns else None, actor)
    return results


def fetch_aspects(
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


def _push(
    store: Store, results: dict[str, TestResults], evaluated: frozenset[str] | None, actor: str
) -> None:
    stored = store.get_many(results.keys(), {TEST_RESULTS})
    writes: list[Write] = []
    for urn, aspects in stored.items():
        before = aspects[TEST_RESULTS].value if TEST_RESULTS in aspects else {}
        merged = merge_results(before, results[urn], evaluated)
        if merged is not None:
            writes.append(Write(urn, TEST_RESULTS, merged))
    if writes:
        store.write(writes, actor)
