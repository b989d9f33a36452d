"""Searches by REST: lists and scrolls of OpenAPI v3, and the older `/entities?action=search`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.catalog.search.request import (
    MATCH_ALL,
    Alternatives,
    Condition,
    Criterion,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.web.http import RequestContext, read_value
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.endpoint import Endpoint, Parameter, Resource, action
from mlcat_ingest.catalog.web.rest.openapi_entities import (
    ASPECTS_SHOWN,
    ENTITIES,
    SHOWN,
    aspect_named,
    entity_items,
    entity_type_named,
)

_COUNT: Final = {**js.WHOLE, "default": 10}
_QUERY: Final = {**js.TEXT, "default": MATCH_ALL}
_ORDER: Final = {**js.TEXT, "enum": ["ASCENDING", "DESCENDING"], "default": "ASCENDING"}
_CRITERIA: Final = js.array(
    js.record(
        "field",
        field=js.TEXT,
        values={**js.array(js.TEXT), "default": ()},
        condition={**js.TEXT, "enum": [one.value for one in Condition], "default": "EQUAL"},
        negated={**js.FLAG, "default": False},
    )
)
_PAGING: Final = (
    Parameter("query", "Words, or `*`.", _QUERY),
    Parameter("count", "How many to return at most.", _COUNT),
    Parameter("scrollId", "The `scrollId` of the page before."),
    Parameter("sort", "Field to sort by.", {**js.TEXT, "default": "urn"}),
    Parameter("sortOrder", "The order of it.", _ORDER),
    Parameter("includeSoftDelete", "Whether to find removed ones.", {**js.FLAG, "default": False}),
    *SHOWN,
)
_SCROLL: Final = js.record(
    entities={**js.array(js.TEXT), "default": ()},
    aspects=js.array(js.TEXT),
    filter=js.record(**{"and": js.array(js.record("criteria", criteria=_CRITERIA))}),
    sortCriteria=js.array(js.record("field", field=js.TEXT, order=_ORDER)),
)
_PAGE: Final = js.record(
    *("entities", "facets", "totalCount"),
    entities=js.array(js.ref("Entity")),
    facets=js.array(js.OBJECT),
    totalCount=js.WHOLE,
    scrollId=js.TEXT,
)


def _alternatives(clauses: Iterable[Mapping[str, Any]], key: str) -> Alternatives:
    """Return the filter of `clauses`, of which one has to hold: each criterion under its `key`."""
    return tuple(
        tuple(
            Criterion(
                one["field"], tuple(one["values"]), Condition(one["condition"]), one["negated"]
            )
            for one in clause.get(key, ())
        )
        for clause in clauses
    )


class SearchReads(Resource):
    """The endpoints that find entities."""

    @Endpoint(
        "POST", "/openapi/v3/entity/scroll", {200: _PAGE}, (404,), _PAGING, _SCROLL, reads=True
    )
    def scroll(self, request: RequestContext) -> dict[str, Any]:
        """Read a page of a scroll over entities of some types; without aspects, URNs alone."""
        body = read_value(request.json(), _SCROLL)
        types = frozenset(map(entity_type_named, body["entities"])) or None
        any_of = _alternatives(body.get("filter", {}).get("and", ()), "criteria")
        return self._page(request, types, body.get("aspects"), any_of, body.get("sortCriteria"))

    @Endpoint("GET", ENTITIES, {200: _PAGE}, (404,), (ASPECTS_SHOWN, *_PAGING))
    def list(self, request: RequestContext) -> dict[str, Any]:
        """Read a page of a scroll over entities of one type; without names, all their aspects."""
        types = frozenset({entity_type_named(request.path["entityType"])})
        return self._page(request, types, request.params.get("aspects", ()))

    @action(
        "/entities",
        "search",
        body=js.record(
            "entity",
            input=_QUERY,
            entity=js.TEXT,
            start={**js.WHOLE, "default": 0},
            count=_COUNT,
            filter=js.record(**{"or": js.array(js.record(**{"and": _CRITERIA}))}),
        ),
        returns=js.record(entities=js.array(js.record(entity=js.URN)), numEntities=js.WHOLE),
        reads=True,
    )
    def search(self, request: RequestContext) -> dict[str, Any]:
        """Read a page of the URNs of entities of one type."""
        params = request.params
        page = self._store.search(
            SearchRequest(
                query=params["input"],
                entity_types=frozenset({entity_type_named(params["entity"])}),
                any_of=_alternatives(params.get("filter", {}).get("or", ()), "and"),
                start=params["start"],
                count=min(params["count"], self._limits.page_size),
                highlight=False,
            )
        )
        return {
            "numEntities": page.total,
            "pageSize": params["count"],
            "from": params["start"],
            "metadata": {"aggregations": []},
            "entities": [{"entity": hit.urn, "matchedFields": []} for hit in page.hits],
        }

    def _page(
        self,
        request: RequestContext,
        types: frozenset[str] | None,
        aspects: Sequence[str] | None,
        any_of: Alternatives = (),
        sort: Iterable[Mapping[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Return a page; entities that have none of the named aspects are counted only."""
        params = request.params
        sort = sort or [{"field": params["sort"], "order": params["sortOrder"]}]
        page = self._store.search(
            SearchRequest(
                query=params["query"],
                entity_types=types,
                any_of=any_of,
                sort=tuple(SortKey(one["field"], one["order"] == "DESCENDING") for one in sort),
                count=min(params["count"], self._limits.page_size),
                scroll=True,
                after=params.get("scrollId"),
                highlight=False,
                include_removed=params["includeSoftDelete"],
            )
        )
        urns = [hit.urn for hit in page.hits]
        names = list(map(aspect_named, aspects or ()))
        found = {} if aspects is None else self._store.get_many(urns, names or None)
        shown = {urn: found.get(urn, {}) for urn in urns if aspects is None or found.get(urn)}
        answer = {
            "entities": entity_items(params, shown),
            "facets": [],
            "totalCount": page.total,
        }
        return answer | ({"scrollId": page.next_scroll} if page.next_scroll else {})
