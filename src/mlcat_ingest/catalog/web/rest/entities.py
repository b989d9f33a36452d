"""`/entitiesV2` and `/entities`: reading, finding and deleting whole entities."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.search.request import MATCH_ALL, SearchRequest
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.store.references import delete_references, find_references
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.timeseries import Span, delete_events
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import (
    flag,
    json_object,
    optional,
    page_of,
    query_list,
    required,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    OBJECT,
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    Schema,
    action,
    array,
    record,
    ref,
    value_of,
)
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.timeseries import time_range
from mlcat_ingest.metadata.registry import key_aspect

_PAGE: Final[Mapping[str, Schema]] = {"start": WHOLE, "count": WHOLE}
_SEARCH: Final = record(
    "entity",
    input=TEXT,
    entity=TEXT,
    filter=ref("Filter"),
    searchFlags=record(filterNonLatestVersions=FLAG),
    **_PAGE,
)
_FOUND: Final = record("entities", entities=array(record("entity", entity=URN)), numEntities=WHOLE)
_DELETION: Final = record(
    "urn", urn=URN, aspectName=TEXT, startTimeMillis=WHOLE, endTimeMillis=WHOLE
)
_DELETED: Final = record(
    *("urn", "rows", "timeseriesRows"), urn=URN, rows=WHOLE, timeseriesRows=WHOLE
)


class Entities:
    """The endpoints that read, find and delete whole entities."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read and write `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        return (
            Endpoint(
                *("GET", "/entitiesV2/{urn}", self.get, {200: record("urn", "aspects", urn=URN)}),
                parameters=(
                    Parameter("urn", "The entity.", place="path", required=True),
                    Parameter("aspects", "Only these: `List(a,b)`."),
                ),
                client=CONNECTOR,
            ),
            action(
                *("/entities", "delete", self.delete),
                client=CONNECTOR,
                body=_DELETION,
                returns=value_of(_DELETED),
            ),
            action(
                *("/entities", "search", self.search),
                client="SDK DataHubGraph.get_search_results",
                reads=True,
                body=_SEARCH,
                returns=value_of(_FOUND),
            ),
            action(
                *("/entities", "deleteReferences", self.delete_references),
                client="SDK DataHubGraph.delete_references_to_urn",
                body=record("urn", urn=URN, dryRun=FLAG),
                returns=value_of(record("total", total=WHOLE, relatedAspects=array(OBJECT))),
            ),
            action(
                *("/entities", "listUrns", self.list_urns),
                client="SDK DataHubGraph.list_all_entity_urns",
                reads=True,
                body=record("entity", entity=TEXT, **_PAGE),
                returns=value_of(record("entities", entities=array(URN), total=WHOLE, **_PAGE)),
            ),
        )

    def get(self, call: Call) -> dict[str, Any]:
        """Read all aspects of an entity, or those of `aspects=List(a,b)`.

        An entity that does not exist has its key aspect and no other: clients tell by that.
        """
        urn = call.urn_after("/entitiesV2/")
        entity_type = check_urn(urn)
        wanted = query_list(call.query, "aspects") or None
        found = self._store.get_many([urn], wanted).get(urn)
        aspects = {name: _enveloped(name, stored) for name, stored in (found or {}).items()}
        if found is None:
            name, value = key_aspect(urn)
            aspects[name] = {"name": name, "type": "VERSIONED", "version": 0, "value": value}
        return {"urn": urn, "entityName": entity_type, "aspects": aspects}

    def delete(self, call: Call) -> dict[str, Any]:
        """Delete an entity with all it has, or the events of one of its timeseries aspects.

        An entity that does not exist counts no rows.
        """
        params = json_object(call.json())
        urn = required(params, "urn")
        check_urn(urn)
        aspect = optional(params, "aspectName")
        if aspect is not None:
            span = Span(aspect, *time_range(params))
            events = self._store.change(lambda connection: delete_events(connection, urn, span))
            return {"value": {"urn": urn, "rows": 0, "timeseriesRows": events}}
        gone = self._store.delete(urn)
        return {"value": {"urn": urn, "rows": gone.rows, "timeseriesRows": gone.timeseries_rows}}

    def delete_references(self, call: Call) -> dict[str, Any]:
        """Take an entity out of every aspect that names it, or only say which these are."""
        params = json_object(call.json())
        urn = required(params, "urn")
        check_urn(urn)
        if flag(params, "dryRun"):
            found = self._store.read(lambda connection: find_references(connection, urn))
        else:
            found = delete_references(self._store, urn)
        return {
            "value": {
                "total": found.total,
                "relatedAspects": [
                    {
                        "entity": one.urn,
                        "relationship": one.relationship,
                        "aspect": one.aspect,
                    }
                    for one in found.first
                ],
            }
        }

    def list_urns(self, call: Call) -> dict[str, Any]:
        """Read a page of the URNs of one entity type, oldest first."""
        params = json_object(call.json())
        start, count = page_of(params, self._limits, count=100)
        page = self._store.list_urns(required(params, "entity"), start, count)
        return {
            "value": {
                "entities": page.urns,
                "start": start,
                "count": len(page.urns),
                "total": page.total,
            }
        }

    def search(self, call: Call) -> dict[str, Any]:
        """Find entities of one type by words and a filter; those marked as removed are left out.

        So are versions that are not the latest of their set, unless
        `searchFlags.filterNonLatestVersions` is false.
        """
        params = json_object(call.json())
        start, count = page_of(params, self._limits, count=10)
        flags = json_object(params.get("searchFlags") or {}, "searchFlags")
        page = self._store.search(
            SearchRequest(
                query=optional(params, "input") or MATCH_ALL,
                entity_types=frozenset({required(params, "entity")}),
                any_of=read_filter(params.get("filter")),
                start=start,
                count=count,
                highlight=False,
                only_latest=flag(flags, "filterNonLatestVersions", default=True),
            )
        )
        return {
            "value": {
                "entities": [{"entity": hit.urn} for hit in page.hits],
                "from": start,
                "pageSize": count,
                "numEntities": page.total,
            }
        }


def _enveloped(name: str, stored: AspectVersion) -> dict[str, Any]:
    return {
        "name": name,
        "type": "VERSIONED",
        "version": 0,
        "value": stored.value,
        "created": {"time": stored.modified_ms, "actor": stored.modified_by},
        "systemMetadata": stored.wire_system_metadata(),
    }
