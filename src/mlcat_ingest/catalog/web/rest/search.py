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
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    OBJECT,
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    action,
    array,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.openapi_entities import (
    ASPECTS_SHOWN,
    ENTITIES,
    SHOWN,
    aspect_named,
    entity_items,
    entity_type_named,
)

_COUNT: Final = {**WHOLE, "default": 10}
_QUERY: Final = {**TEXT, "default": MATCH_ALL}
_ORDER: Final = {**TEXT, "enum": ["ASCENDING", "DESCENDING"], "default": "ASCENDING"}
_CRITERIA: Final = array(
    record(
        "field",
        field=TEXT,
        values={**array(TEXT), "default": ()},
        condition={**TEXT, "enum": [one.value for one in Condition], "default": "EQUAL"},
        negated={**FLAG, "default": False},
    )
)
_PAGING: Final = (
    Parameter("query", "Words, or `*`.", _QUERY),
    Parameter("count", "How many to return at most.", _COUNT),
    Parameter("scrollId", "The `scrollId` of the page before."),
    Parameter("sort", "Field to sort by.", {**TEXT, "default": "urn"}),
    Parameter("sortOrder", "The order of it.", _ORDER),
    Parameter("includeSoftDelete", "Whether to find removed ones.", {**FLAG, "default": False}),
    *SHOWN,
)
_SCROLL: Final = record(
    entities={**array(TEXT), "default": ()},
    aspects=array(TEXT),
    filter=record(**{"and": array(record("criteria", criteria=_CRITERIA))}),
    sortCriteria=array(record("field", field=TEXT, order=_ORDER)),
)
_PAGE: Final = record(
    *("entities", "facets", "totalCount"),
    entities=array(ref("Entity")),
    facets=array(OBJECT),
    totalCount=WHOLE,
    scrollId=TEXT,
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
        body=record(
            "entity",
            input=_QUERY,
            entity=TEXT,
            start={**WHOLE, "default": 0},
            count=_COUNT,
            filter=record(**{"or": array(record(**{"and": _CRITERIA}))}),
        ),
        returns=record(entities=array(record(entity=URN)), numEntities=WHOLE),
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
