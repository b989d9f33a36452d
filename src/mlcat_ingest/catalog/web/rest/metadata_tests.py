"""`/test`: evaluating metadata tests.

Parameters go by both of the names they have: `tests` or `testUrns`, `push` or `shouldPush`.
"""

from collections.abc import Sequence
from typing import Any

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.metadata_tests.evaluate import evaluate
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import flag, json_object, required, texts
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    INTERFACE,
    OBJECT,
    URN,
    Endpoint,
    action,
    array,
    record,
    value_of,
)


class MetadataTests:
    """The endpoints of `/test`."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Evaluate entities of `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        options = {
            "testUrns": array(URN),
            "tests": array(URN),
            "shouldPush": FLAG,
            "push": FLAG,
        }
        outcome = record("passing", "failing", passing=array(OBJECT), failing=array(OBJECT))
        outcomes = {"type": "object", "additionalProperties": outcome}
        return (
            action(
                *("/test", "evaluate", self.evaluate),
                client=INTERFACE,
                reads=True,
                body=record("urn", urn=URN, **options),
                returns=value_of(outcome),
                refuses=(404,),
            ),
            action(
                *("/test", "batchEvaluate", self.batch_evaluate),
                client=CONNECTOR,
                reads=True,
                body=record("urns", urns=array(URN), **options),
                returns=value_of(record("results", results=outcomes)),
            ),
        )

    def evaluate(self, call: Call) -> dict[str, Any]:
        """Evaluate the metadata tests of one entity, and store the outcome where asked to."""
        params = json_object(call.json())
        urn = required(params, "urn")
        check_urn(urn)
        if not self._store.exists([urn]):
            raise NotFoundError(f"{urn} is not in the catalog")
        return {"value": self._evaluate(call, params, [urn])[urn]}

    def batch_evaluate(self, call: Call) -> dict[str, Any]:
        """Evaluate the metadata tests of many entities; those not in the catalog are left out."""
        params = json_object(call.json())
        urns = texts(params, self._limits.batch_urns, "urns")
        if urns is None:
            raise BadRequestError("urns: the parameter is missing")
        for urn in urns:
            check_urn(urn)
        known = self._store.exists(urns)
        results = self._evaluate(call, params, [urn for urn in urns if urn in known])
        return {"value": {"results": results}}

    def _evaluate(self, call: Call, params: Any, urns: list[str]) -> dict[str, Any]:
        tests = texts(params, self._limits.batch_urns, "testUrns", "tests")
        push = flag(params, "shouldPush", "push")
        if push:
            call.check_may_write()
        return dict(evaluate(self._store, urns, tests, push, UNKNOWN_ACTOR))
