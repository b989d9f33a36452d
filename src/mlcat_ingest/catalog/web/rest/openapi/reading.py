"""Reading entities through OpenAPI v3: many at once by their URNs, or page after page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SORT_KEYS
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest, SortKey
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import (
    json_list,
    json_object,
    optional,
    query_flag,
    query_list,
    required_text,
    texts,
    whole,
)
from mlcat_ingest.catalog.web.query_strings import combine, read_query
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    FLAG,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    array,
    ref,
)
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.openapi.items import (
    ENTITY_TYPE,
    KEEP_ALIVE,
    SCROLL_ID,
    SLICES,
    SYSTEM,
    aspect_named,
    aspects_in,
    aspects_of,
    entity_items,
    entity_type_in,
    entity_types_named,
    is_empty_slice,
    urn_of,
)

_COUNT: Final = 10
_ORDERS: Final = {"ASCENDING": False, "DESCENDING": True}

_FACETS: Final = ("_entityType", "platform", "origin", "tags", "owners")

_ACCEPTED: Final = "Accepted without effect: "
_PARAMETERS: Final = (
    Parameter("query", "Words, or Elasticsearch's query syntax. Default: *."),
    Parameter("count", f"Maximum number of entities in a page. Default: {_COUNT}.", WHOLE),
    SCROLL_ID,
    Parameter("sortCriteria", "Field to sort by; repeatable. Default: urn. `sort` is a synonym."),
    Parameter("sort", "Synonym of sortCriteria."),
    Parameter("sortOrder", "ASCENDING (default) or DESCENDING."),
    SYSTEM,
    Parameter("includeSoftDelete", "Whether to include soft-deleted entities.", FLAG),
    *SLICES,
    Parameter("skipAggregation", "False returns facets. Default: true.", FLAG),
    Parameter("skipCache", f"{_ACCEPTED}nothing is cached.", FLAG),
    Parameter("scrollIdPerEntity", f"{_ACCEPTED}only pages have a scrollId.", FLAG),
    KEEP_ALIVE,
)


class Scroll(Resource):
    """The endpoints that list entities."""

    @Endpoint(
        "POST",
        "/openapi/v3/entity/scroll",
        {200: ref("EntityPage")},
        parameters=_PARAMETERS,
        body=ref("Scroll"),
        reads=True,
        client="SDK DataHubGraph.scroll_entities",
    )
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
            any_of=combine(request.any_of or ((),), read_filter(body.get("filter")) or ((),)),
            sort=_sort_keys(body) or request.sort,
            only_latest=body.get("filter") is not None,
        )
        aspects = () if names is None else [aspect_named(name) for name in names] or None
        return self._page(call.query, request, aspects)

    @Endpoint(
        "GET",
        "/openapi/v3/entity/{entityType}",
        {200: ref("EntityPage")},
        (404,),
        (
            ENTITY_TYPE,
            Parameter(
                "aspects", "Names of the aspects to return, separated by commas or repeated."
            ),
            *_PARAMETERS,
        ),
        client="SDK OpenAPIGraphClient.scroll_urns_by_filter",
    )
    def list(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities of one type that match a query."""
        entity_type = entity_type_in(call)
        request = replace(self._request(call.query), entity_types=frozenset({entity_type}))
        return self._page(call.query, request, aspects_in(call) or None)

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
        found = SearchPage(0) if is_empty_slice(query) else self._store.search(request)
        urns = [hit.urn for hit in found.hits]
        stored = self._store.get_many(urns, names)
        return {
            "scrollId": found.next_scroll,
            "entities": entity_items(query, {urn: stored[urn] for urn in urns if urn in stored}),
            "totalCount": found.total,
            "facets": [
                {"name": facet.field, "aggregations": dict(facet.counts)} for facet in found.facets
            ],
        }


def _sort_keys(body: Mapping[str, Any]) -> tuple[SortKey, ...]:
    keys = json_list(body.get("sortCriteria") or [], "sortCriteria", SORT_KEYS)
    return tuple(_sort_key(key, f"sortCriteria[{at}]") for at, key in enumerate(keys))


def _sort_key(key: Any, where: str) -> SortKey:
    content = json_object(key, where)
    try:
        return SortKey(
            required_text(content, "field"), _is_descending(optional(content, "order"), "order")
        )
    except BadRequestError as error:
        raise BadRequestError(f"{where}.{error}") from error


def _is_descending(order: str | None, where: str) -> bool:
    if not order:
        return False
    if order.upper() not in _ORDERS:
        raise BadRequestError(f"{where}: {order!r} is none of {', '.join(_ORDERS)}")
    return _ORDERS[order.upper()]


class EntityReads(Resource):
    """The endpoint that reads entities by their URNs."""

    @Endpoint(
        "POST",
        "/openapi/v3/entity/{entityType}/batchGet",
        {200: array(ref("Entity"))},
        (404,),
        (ENTITY_TYPE, SYSTEM),
        array(ref("EntityRead")),
        reads=True,
        client=CONNECTOR,
    )
    def batch_get(self, call: Call) -> list[dict[str, Any]]:
        """Read the named aspects of many entities of one type; without names, all of them.

        The header `If-Version-Match` of an aspect names the version to read.
        """
        entity_type = entity_type_in(call)
        items = json_list(call.json(), "the body", self._limits.batch_urns)
        wanted: dict[str, dict[str, int]] = {}
        for at, item in enumerate(items):
            urn = urn_of(item, at, entity_type)
            names = {
                name: _version(content, f"[{at}].{name}") for name, content in aspects_of(item)
            }
            # No names mean all aspects, whatever else asks for the same entity.
            known = wanted.setdefault(urn, names)
            wanted[urn] = known | names if known and names else {}
        union = None if not all(wanted.values()) else set().union(*wanted.values())
        found = self._store.get_many(list(wanted), union)
        chosen = {
            urn: self._chosen(urn, found[urn], names)
            for urn, names in wanted.items()
            if urn in found
        }
        return entity_items(call.query, chosen)

    def _chosen(
        self, urn: str, aspects: Mapping[str, AspectVersion], versions: Mapping[str, int]
    ) -> Mapping[str, AspectVersion]:
        """Return those of `aspects` that are named, each in the version that is asked for."""
        if not versions:
            return aspects
        chosen: dict[str, AspectVersion] = {}
        for name in aspects:
            if name in versions:
                version = versions[name]
                is_current = version in {0, aspects[name].version}
                stored = (
                    aspects[name] if is_current else self._store.get_version(urn, name, version)
                )
                if stored is not None:
                    chosen[name] = stored
        return chosen


def _version(content: Any, where: str) -> int:
    """Return the version of an aspect that a request for it names, 0 for the latest."""
    headers = json_object(content, where).get("headers") or {}
    named = {
        name.lower(): value for name, value in json_object(headers, f"{where}.headers").items()
    }
    try:
        return whole(named, "if-version-match")
    except BadRequestError as error:
        raise BadRequestError(f"{where}.headers.{error}") from error
