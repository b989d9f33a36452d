"""What became of writes. Every write is durable before it is acknowledged, so this is short."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.rest.endpoint import FLAG, OBJECT, TEXT, Endpoint, Parameter, array
from mlcat_ingest.catalog.rest.http import Call
from mlcat_ingest.catalog.rest.params import check_count, json_object, query_flag, texts
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.store import Store

_STORED: Final = "ACTIVE_STATE"
_UNKNOWN: Final = "UNKNOWN"


class Trace:
    """The endpoint that tells what became of writes."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        return (
            Endpoint(
                *("POST", "/openapi/v1/trace/write/{traceId}", self.get, {200: OBJECT}),
                parameters=(
                    Parameter("traceId", "Any: no trace is kept.", place="path", required=True),
                    Parameter("onlyIncludeErrors", "Whether what is stored is left out.", FLAG),
                    Parameter("detailed", "Accepted; the answer is the same.", FLAG),
                ),
                body={"type": "object", "additionalProperties": array(TEXT)},
                reads=True,
            ),
        )

    def get(self, call: Call) -> dict[str, Any]:
        """Say for each aspect of each entity in the body whether it is stored."""
        asked = json_object(call.json())
        only_errors = query_flag(call.query, "onlyIncludeErrors")
        most = self._limits.batch_urns
        check_count(asked, "URNs", most)
        names = {urn: texts(asked, most, urn) or [] for urn in asked}
        for urn in names:
            check_urn(urn)
        union = {name for some in names.values() for name in some}
        found = self._store.get_many(list(names), union)
        return {
            urn: {
                name: _status(stored=name in found.get(urn, {}))
                for name in wanted
                if not only_errors or name not in found.get(urn, {})
            }
            for urn, wanted in names.items()
        }


def _status(*, stored: bool) -> Mapping[str, Any]:
    storage = {"writeStatus": _STORED if stored else _UNKNOWN}
    return {"success": stored, "primaryStorage": storage, "searchStorage": storage}
