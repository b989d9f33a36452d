"""Reading entities through OpenAPI v3: many at once by their URNs, or page after page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SORT_KEYS
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.search.request import SearchPage, SearchRequest, SortKey
from mlcat_ingest.catalog.web.http import Answer, Call
from mlcat_ingest.catalog.web.params import (
    check_count,
    json_list,
    json_object,
    json_type,
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
    INTERFACE,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    array,
    ref,
)
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.openapi.items import (
    ASPECT,
    ENTITY,
    ENTITY_ASPECT,
    ENTITY_TYPE,
    KEEP_ALIVE,
    SCROLL_ID,
    SLICES,
    SYSTEM,
    URN,
    aspect_named,
    aspects_in,
    entity_items,
    entity_type_in,
    entity_types_named,
    is_empty_slice,
    target_of,
)
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import allows
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

_COUNT: Final = 10
_ORDERS: Final = {"ASCENDING": False, "DESCENDING": True}

_FACETS: Final = ("_entityType", "platform", "origin", "tags", "owners")

_NOT_FOUND: Final = Answer(404)
_ASPECTS: Final = Parameter(
    "aspects", "Names of the aspects to return, separated by commas or repeated."
)
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
            _ASPECTS,
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
    """The endpoints that read entities by their URNs."""

    @Endpoint(
        "GET",
        ENTITY,
        {200: ref("Entity")},
        (404,),
        (ENTITY_TYPE, URN, _ASPECTS, SYSTEM),
        client=INTERFACE,
    )
    def get(self, call: Call) -> Answer:
        """Read the named aspects of one entity; without names, all of them."""
        target = target_of(call)
        names = aspects_in(call)
        found = self._store.get_many([target.urn], names or None)
        items = entity_items(call.query, {urn: held for urn, held in found.items() if held})
        return Answer(200, items[0]) if items else _NOT_FOUND

    @Endpoint("HEAD", ENTITY, {204: None}, (404,), (ENTITY_TYPE, URN), client=INTERFACE)
    def exists(self, call: Call) -> Answer:
        """Tell whether an entity exists; one that is marked as removed does."""
        return Answer(204) if self._store.exists([target_of(call).urn]) else _NOT_FOUND

    @Endpoint(
        "GET",
        ENTITY_ASPECT,
        {200: ref("AspectValue")},
        (404,),
        (
            *(ENTITY_TYPE, URN, ASPECT, SYSTEM),
            Parameter("version", "Version of the aspect. Default: 0, the latest.", WHOLE),
        ),
        client=INTERFACE,
    )
    def get_aspect(self, call: Call) -> Answer:
        """Read one aspect of one entity, its latest version or an earlier one."""
        target, version = target_of(call), whole(call.query, "version")
        name = str(target.aspect)
        stored = self._store.get_version(target.urn, name, version)
        if stored is None:
            return _NOT_FOUND
        return Answer(200, entity_items(call.query, {target.urn: {name: stored}})[0][name])

    @Endpoint(
        "HEAD", ENTITY_ASPECT, {204: None}, (404,), (ENTITY_TYPE, URN, ASPECT), client=INTERFACE
    )
    def has_aspect(self, call: Call) -> Answer:
        """Tell whether an entity has an aspect."""
        target = target_of(call)
        is_there = self._store.get_version(target.urn, str(target.aspect), 0) is not None
        return Answer(204) if is_there else _NOT_FOUND

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
        """Read the named aspects of many entities; without names, all of them.

        The header `If-Version-Match` of an aspect names the version to read. Names of no aspect are
        ignored, and entities that have none of the aspects are left out.
        """
        body = call.json()
        # What is no list names no entity.
        items = body if isinstance(body, list) else []
        check_count(items, "items", self._limits.batch_urns)
        wanted: dict[str, Mapping[str, int]] = {}
        for at, item in enumerate(items):
            urn = _urn_of(item, at)
            names = _known_names(item, at, entity_type_of(urn))
            if known := wanted.setdefault(urn, names):
                wanted[urn] = {**known, **names}
        union = set().union(*wanted.values()) if all(wanted.values()) else None
        found = self._store.get_many(list(wanted), union)
        chosen = {
            urn: held
            for urn, names in wanted.items()
            if (held := self._chosen(urn, found.get(urn, {}), names))
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


def _urn_of(item: Any, at: int) -> str:
    """Return the URN of an item, whatever its type; one that no entity can have finds nothing.

    Raises:
        BadRequestError: there is none, or it cannot be taken apart.
    """
    urn = json_object(item, f"[{at}]").get("urn")
    if not isinstance(urn, str):
        raise BadRequestError(f"[{at}].urn: expected a string, not {json_type(urn)}")
    try:
        raw_parts(urn)
    except InvalidUrnError as error:
        raise BadRequestError(f"[{at}].urn: {error}") from error
    return urn


def _known_names(item: Mapping[str, Any], at: int, entity_type: str) -> dict[str, int]:
    """Return the aspects that an item names, those that its type can have, and their versions."""
    named = ((aspect_named(name), content) for name, content in item.items() if name != "urn")
    return {
        name: _version(content, f"[{at}].{name}")
        for name, content in named
        if allows(entity_type, name)
    }


def _version(content: Any, where: str) -> int:
    """Return the version of an aspect that a request for it names, 0 for the latest."""
    headers = content.get("headers") if isinstance(content, dict) else None
    if headers is None:
        return 0
    named = {
        name.lower(): value for name, value in json_object(headers, f"{where}.headers").items()
    }
    try:
        return whole(named, "if-version-match")
    except BadRequestError as error:
        raise BadRequestError(f"{where}.headers.{error}") from error
