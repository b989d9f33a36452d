"""Lists of entities through OpenAPI v3, page after page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SORT_KEYS, Limits
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import (
    json_list,
    json_object,
    optional,
    query_flag,
    query_list,
    required,
    texts,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import FLAG, WHOLE, Endpoint, Parameter, ref
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.openapi.items import shown_entity
from mlcat_ingest.catalog.web.rest.openapi.paths import (
    aspect_named,
    aspects_in,
    entity_type_in,
    entity_types_named,
)
from mlcat_ingest.catalog.web.rest.openapi.querystring import combined, read_query
from mlcat_ingest.catalog.web.rest.openapi.writing import ENTITY_TYPE, SYSTEM

_COUNT: Final = 10
_ORDERS: Final = {"ASCENDING": False, "DESCENDING": True}

_FACETS: Final = ("_entityType", "platform", "origin", "tags", "owners")

_ACCEPTED: Final = "Accepted, and without effect: "
_PARAMETERS: Final = (
    Parameter("query", "Words, or Elasticsearch's query syntax; * by default."),
    Parameter("count", f"Most entities of a page, {_COUNT} by default.", WHOLE),
    Parameter("scrollId", "The scrollId of the page before."),
    Parameter("sortCriteria", "Fields to sort by, repeated; `sort` is the same. urn by default."),
    Parameter("sort", "As sortCriteria."),
    Parameter("sortOrder", "ASCENDING, by default, or DESCENDING."),
    SYSTEM,
    Parameter("includeSoftDelete", "Whether entities marked as removed are found too.", FLAG),
    Parameter("sliceId", "Which slice of the result; the first has all of it.", WHOLE),
    Parameter("sliceMax", "How many slices there are.", WHOLE),
    Parameter("skipAggregation", "False asks for facets. True by default.", FLAG),
    Parameter("skipCache", f"{_ACCEPTED}nothing is cached.", FLAG),
    Parameter("scrollIdPerEntity", f"{_ACCEPTED}only pages have a scrollId.", FLAG),
    Parameter("pitKeepAlive", f"{_ACCEPTED}a scrollId does not expire."),
)


class Scroll:
    """The endpoints that list entities."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Search `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        named = Parameter("aspects", "Only these, separated by commas or repeated.")
        page = {200: ref("EntityPage")}
        return (
            Endpoint(
                *("POST", "/openapi/v3/entity/scroll", self.scroll, page),
                client="SDK DataHubGraph.scroll_entities",
                parameters=_PARAMETERS,
                body=ref("Scroll"),
                reads=True,
            ),
            Endpoint(
                *("GET", "/openapi/v3/entity/{entityType}", self.list, page, (404,)),
                (ENTITY_TYPE, named, *_PARAMETERS),
                client="SDK OpenAPIGraphClient.scroll_urns_by_filter",
            ),
        )

    def list(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities of one type that match a query."""
        entity_type = entity_type_in(call)
        request = replace(self._request(call.query), entity_types=frozenset({entity_type}))
        return self._page(call.query, request, aspects_in(call) or None)

    def scroll(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities of any type that match a query and a filter.

        The body's `aspects` names what is shown of them: nothing without it, all with an empty one.
        Beside a filter, versions that are not the latest of their set are left out, as a DataHub
        server does it.
        """
        body = json_object(call.json()) if call.body.strip() else {}
        names = texts(body, self._limits.page_size, "aspects")
        types = texts(body, self._limits.page_size, "entities") or []
        request = self._request(call.query)
        request = replace(
            request,
            entity_types=frozenset(entity_types_named(types, "entities")) if types else None,
            any_of=combined(request.any_of or ((),), read_filter(body.get("filter")) or ((),)),
            sort=_sort_keys(body) or request.sort,
            only_latest=body.get("filter") is not None,
        )
        shown = () if names is None else [aspect_named(name) for name in names] or None
        return self._page(call.query, request, shown)

    def _request(self, query: QueryParams) -> SearchRequest:
        parsed = read_query(query.get("query", ""))
        fields = query_list(query, "sortCriteria") or query_list(query, "sort") or ["urn"]
        descending = _is_descending(query.get("sortOrder"), "sortOrder")
        facets = () if query_flag(query, "skipAggregation", default=True) else _FACETS
        return SearchRequest(
            query=parsed.words,
            any_of=parsed.any_of,
            sort=tuple(SortKey(field, descending) for field in fields),
            count=min(whole(query, "count", _COUNT), self._limits.page_size),
            scroll=True,
            after=query.get("scrollId") or None,
            highlight=False,
            facets=facets,
            include_removed=query_flag(query, "includeSoftDelete"),
        )

    def _page(
        self, query: QueryParams, request: SearchRequest, names: Sequence[str] | None
    ) -> dict[str, Any]:
        # A slice may be of any size: the first has everything, so that none is read twice.
        is_empty = 0 < whole(query, "sliceId") < whole(query, "sliceMax")
        found = SearchPage(0) if is_empty else self._store.search(request)
        urns = [hit.urn for hit in found.hits]
        stored = self._store.get_many(urns, names)
        with_system = query_flag(query, "systemMetadata")
        return {
            "scrollId": found.next_scroll,
            "entities": [
                shown_entity(urn, stored[urn], with_system=with_system)
                for urn in urns
                if urn in stored
            ],
            "totalCount": found.total,
            "facets": [
                {"name": facet.field, "aggregations": dict(facet.counts)} for facet in found.facets
            ],
        }


def _sort_keys(body: Mapping[str, Any]) -> tuple[SortKey, ...]:
    keys = json_list(body.get("sortCriteria") or [], "sortCriteria", SORT_KEYS)
    return tuple(_sort_key(key, f"sortCriteria[{at}]") for at, key in enumerate(keys))


def _sort_key(key: Any, where: str) -> SortKey:
    shown = json_object(key, where)
    try:
        return SortKey(required(shown, "field"), _is_descending(optional(shown, "order"), "order"))
    except BadRequestError as error:
        raise BadRequestError(f"{where}.{error}") from error


def _is_descending(order: str | None, where: str) -> bool:
    if not order:
        return False
    if order.upper() not in _ORDERS:
        raise BadRequestError(f"{where}: {order!r} is none of {', '.join(_ORDERS)}")
    return _ORDERS[order.upper()]
