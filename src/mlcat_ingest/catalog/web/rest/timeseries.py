"""`/aspects`, further actions: the events of timeseries aspects, and how many entities have one."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import TimeseriesEvent
from mlcat_ingest.catalog.search.request import Alternatives
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.reads import count_aspect
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.timeseries import Span, read_events
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import flag, json_object, required, urn_pattern, whole
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    OBJECT,
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    action,
    array,
    record,
    ref,
    value_of,
)
from mlcat_ingest.catalog.web.rest.event_filter import matches
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.metadata.codec import dumps


class Timeseries:
    """The endpoints that read events and count aspects."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        times = {"startTimeMillis": WHOLE, "endTimeMillis": WHOLE}
        asked = record(
            *("urn", "aspect"),
            urn=URN,
            entity=TEXT,
            aspect=TEXT,
            limit=WHOLE,
            latestValue=FLAG,
            filter=ref("Filter"),
            **times,
        )
        return (
            action(
                *("/aspects", "getTimeseriesAspectValues", self.get_values),
                client="SDK DataHubGraph.get_timeseries_values",
                reads=True,
                body=asked,
                returns=value_of(record("values", values=array(record("aspect", aspect=OBJECT)))),
            ),
            action(
                *("/aspects", "getCount", self.get_count),
                client="SDK DataHubGraph.get_aspect_counts",
                reads=True,
                body=record("aspect", aspect=TEXT, urnLike=TEXT),
                returns=value_of(WHOLE),
            ),
        )

    def get_values(self, call: Call) -> dict[str, Any]:
        """Read the events of a timeseries aspect of one entity, the newest first."""
        params = json_object(call.json())
        urn, aspect = required(params, "urn"), required(params, "aspect")
        entity_type = check_urn(urn)
        limit = 1 if flag(params, "latestValue") else whole(params, "limit", 100)
        limit = min(limit, self._limits.page_size)
        wanted = read_filter(params.get("filter"))
        events = self._events(urn, Span(aspect, *time_range(params)), wanted, limit)
        return {
            "value": {
                "entityName": entity_type,
                "aspectName": aspect,
                "limit": limit,
                "values": [_shown(aspect, event) for event in events],
            }
        }

    def _events(
        self, urn: str, span: Span, wanted: Alternatives, limit: int
    ) -> Sequence[TimeseriesEvent]:
        """Return the newest events that match; of the newest ten thousand, where there are more."""
        read = limit
        while True:
            found = self._store.read(partial(read_events, urns=[urn], span=span, limit=read))[urn]
            matching = [event for event in found if matches(event.value, wanted)]
            # A filter may leave too few: twice as many are read until there are enough.
            if len(matching) >= limit or len(found) < read or read >= self._limits.page_size:
                return matching[:limit]
            read = min(2 * read, self._limits.page_size)

    def get_count(self, call: Call) -> dict[str, Any]:
        """Count the entities that have an aspect, of those whose URNs are like an SQL pattern."""
        params = json_object(call.json())
        aspect, pattern = required(params, "aspect"), urn_pattern(params, "urnLike")
        counted = self._store.read(lambda connection: count_aspect(connection, aspect, pattern))
        return {"value": counted}


def time_range(params: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the first and the last moment of `params`, in milliseconds; None is without bound.

    Raises:
        BadRequestError: one of them is no whole number.
    """
    first, last = (
        None if params.get(name) is None else whole(params, name)
        for name in ("startTimeMillis", "endTimeMillis")
    )
    return first, last


def _shown(aspect: str, event: TimeseriesEvent) -> dict[str, Any]:
    # DataHub's command line takes away `name`, `type` and `version`, so they have to be there.
    content = {
        "name": aspect,
        "type": "TIMESERIES",
        "version": 0,
        "value": dumps(event.value).decode(),
        "contentType": "application/json",
    }
    return {"aspect": content, "systemMetadata": dict(event.system_metadata)}
