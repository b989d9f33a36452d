"""Relationships and lineage through OpenAPI: the edges of one entity, or all edges page by page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_VALUES
from mlcat_ingest.catalog.schema.values import Direction, RelatedEntity
from mlcat_ingest.catalog.search.predicates import EXACT
from mlcat_ingest.catalog.search.request import read_cursor, write_cursor
from mlcat_ingest.catalog.store.graph import (
    TO_DESTINATION,
    DirectedEdge,
    EdgeEndpoints,
    EdgePosition,
    EdgeQuery,
    scroll_edges,
)
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import (
    json_object,
    page_of,
    query_flag,
    query_list,
    required_text,
    texts,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    INTERFACE,
    TEXT,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    array,
    page_of_schema,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.openapi.items import (
    KEEP_ALIVE,
    SCROLL_ID,
    SLICES,
    entity_types_named,
    is_empty_slice,
)
from mlcat_ingest.metadata.urn import entity_type_of

_COUNT: Final = 10
_PAGE: Final = (
    Parameter("relationshipTypes", "Relationship type to return; repeatable. Default: all."),
    Parameter("count", f"Maximum number of edges in a page. Default: {_COUNT}.", WHOLE),
    SCROLL_ID,
    Parameter("includeSoftDelete", "Whether to include edges of soft-deleted entities.", FLAG),
    *SLICES,
    KEEP_ALIVE,
)


class EdgeScroll(Resource):
    """The endpoints that list edges."""

    @Endpoint(
        "POST",
        "/openapi/v3/relationship/scroll",
        {200: ref("EdgePage")},
        parameters=(
            *_PAGE,
            Parameter("sourceTypes", "Entity type of the sources; repeatable."),
            Parameter("destinationTypes", "Entity type of the destinations; repeatable."),
            Parameter(
                "direction",
                "INCOMING swaps source and destination.",
                {"enum": ["INCOMING", "OUTGOING"]},
            ),
        ),
        body=record(sourceFilter=ref("Filter"), destinationFilter=ref("Filter")),
        reads=True,
        client="SDK DataHubGraph.scroll_relationships",
    )
    def relationships(self, call: Call) -> dict[str, Any]:
        """Read a page of the edges between certain entities, or of all edges."""
        body = json_object(call.json()) if call.body.strip() else {}
        if read_filter(body.get("edgeFilter"), "edgeFilter"):
            raise BadRequestError("edgeFilter: not supported, as edges have no fields")
        sources = EdgeEndpoints(_types(call.query, "sourceTypes"), _urns(body, "sourceFilter"))
        destinations = EdgeEndpoints(
            _types(call.query, "destinationTypes"), _urns(body, "destinationFilter")
        )
        if _choice(call.query, "direction", "OUTGOING", "INCOMING") == "INCOMING":
            sources, destinations = destinations, sources
        query = _edge_query(call.query, sources=sources, destinations=destinations)
        edges, scroll_id = self._page(call, query)
        return {"scrollId": scroll_id, "results": [_edge_item(edge) for edge in edges]}

    @Endpoint(
        "POST",
        "/openapi/v3/lineage/scroll",
        {200: ref("EdgePage")},
        parameters=(
            *_PAGE,
            Parameter(
                "direction",
                "Direction from `urns`. Default: both.",
                {"enum": ["UPSTREAM", "DOWNSTREAM"]},
            ),
        ),
        body=record(urns=array(URN)),
        reads=True,
        client="SDK DataHubGraph.scroll_lineage",
    )
    def lineage(self, call: Call) -> dict[str, Any]:
        """Read a page of the edges along which data flows, of certain entities or of all.

        With a `direction` a page may have fewer edges than asked for.
        """
        body = json_object(call.json()) if call.body.strip() else {}
        urns = texts(body, SEARCH_VALUES, "urns")
        anchors = tuple(sorted(set(urns))) if urns else None
        way = _choice(call.query, "direction", "", "UPSTREAM", "DOWNSTREAM")
        query = _edge_query(call.query, at_either_end=anchors, lineage=True)
        edges, scroll_id = self._page(call, query)
        items = [_flow_item(edge) for edge in edges]
        if anchors is not None and way:
            anchored = "downstream" if way == "UPSTREAM" else "upstream"
            items = [item for item in items if item[anchored] in anchors]
        return {"scrollId": scroll_id, "results": items}

    def _page(self, call: Call, query: EdgeQuery) -> tuple[Sequence[DirectedEdge], str | None]:
        params = call.query
        count = min(whole(params, "count", _COUNT), self._limits.page_size)
        given = params.get("scrollId")
        after = EdgePosition(*read_cursor(query, given, 3)) if given else None
        if is_empty_slice(params):
            return (), None
        edges, position = self._store.read(
            lambda connection: scroll_edges(connection, query, after, count)
        )
        return edges, None if position is None else write_cursor(query, position)


def _edge_query(query: QueryParams, **more: Any) -> EdgeQuery:
    named = query_list(query, "relationshipTypes")
    removed = query_flag(query, "includeSoftDelete")
    types = tuple(sorted(set(named))) if named else None
    return EdgeQuery(types, include_removed=removed, **more)


def _types(query: QueryParams, name: str) -> tuple[str, ...] | None:
    named = query_list(query, name)
    if named and len(named) > SEARCH_CRITERIA:
        raise BadRequestError(f"{name}: more than {SEARCH_CRITERIA} entity types")
    return entity_types_named(named, name) if named else None


def _urns(body: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the URNs that a filter asks for; None is any.

    Raises:
        BadRequestError: the filter asks for something else.
    """
    alternatives = read_filter(body.get(name), name)
    if not alternatives or () in alternatives:
        return None
    urns: set[str] = set()
    for alternative in alternatives:
        for criterion in alternative:
            if criterion.field != "urn" or criterion.negated or criterion.condition not in EXACT:
                raise BadRequestError(f"{name}: edges can only be filtered by the `urn` of an end")
        urns |= set.intersection(*(set(criterion.values) for criterion in alternative))
    return tuple(sorted(urns))


def _choice(query: QueryParams, name: str, default: str, *others: str) -> str:
    value = query.get(name, default).upper()
    if value not in {default, *others}:
        known = ", ".join(filter(None, (default, *others)))
        raise BadRequestError(f"{name}: {value!r} is none of {known}")
    return value


def _edge_item(edge: DirectedEdge) -> dict[str, Any]:
    return {
        "relationshipType": edge.relationship,
        "source": {"urn": edge.source, "entityType": edge.source_type},
        "destination": {"urn": edge.destination, "entityType": entity_type_of(edge.destination)},
    }


def _flow_item(edge: DirectedEdge) -> dict[str, Any]:
    endpoints = (edge.source, edge.destination)
    flows_on = (edge.source_type, edge.relationship) in TO_DESTINATION
    upstream, downstream = endpoints if flows_on else endpoints[::-1]
    return {**_edge_item(edge), "upstream": upstream, "downstream": downstream}


_RELATED_COUNT: Final = 200
_RESTLI_COUNT: Final = 100


_ENDS: Final = (
    Parameter("urn", "URN of the entity.", URN, required=True),
    Parameter(
        "direction",
        "INCOMING for edges to `urn`, OUTGOING for edges from it.",
        {"type": "string", "enum": [direction.value for direction in Direction]},
        required=True,
    ),
)


def _page_parameters(count: int) -> tuple[Parameter, ...]:
    return (
        Parameter("start", "Number of entities to skip.", WHOLE),
        Parameter("count", f"Maximum number of entities. Default: {count}.", WHOLE),
    )


class Relationships(Resource):
    """The endpoints of one entity's relationships."""

    @Endpoint(
        "GET",
        "/openapi/relationships/v1/",
        {
            200: page_of_schema(
                "entities", record("urn", "relationshipType", urn=URN, relationshipType=TEXT)
            )
        },
        parameters=(
            *_ENDS,
            Parameter(
                "relationshipTypes", "Relationship type to return; repeatable. Default: all."
            ),
            *_page_parameters(_RELATED_COUNT),
        ),
        client="SDK DataHubGraph.get_related_entities",
    )
    def get(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities at the other end of an entity's edges."""
        entities, page = self._page_of_edges(call, "relationshipTypes", _RELATED_COUNT)
        found = [{"urn": one.urn, "relationshipType": one.relationship} for one in entities]
        return {"entities": found, **page}

    @Endpoint(
        "GET",
        "/relationships",
        {200: page_of_schema("relationships", record("type", "entity", type=TEXT, entity=URN))},
        parameters=(
            *_ENDS,
            Parameter("types", "Relationship types to return: `List(a,b)`.", required=True),
            *_page_parameters(_RESTLI_COUNT),
        ),
        client=INTERFACE,
    )
    def get_restli(self, call: Call) -> dict[str, Any]:
        """Read a page of the entities at the other end of an entity's edges, the Rest.li way."""
        required_text(call.query, "types")
        entities, page = self._page_of_edges(call, "types", _RESTLI_COUNT)
        found = [{"type": one.relationship, "entity": one.urn} for one in entities]
        return {"relationships": found, **page}

    def _page_of_edges(
        self, call: Call, types: str, default_count: int
    ) -> tuple[Sequence[RelatedEntity], dict[str, int]]:
        """Return a page of related entities, and its numbers."""
        urn = required_text(call.query, "urn")
        entity_type_of(urn)
        named = required_text(call.query, "direction").upper()
        if named not in Direction.__members__:
            raise BadRequestError(f"direction: {named!r} is neither INCOMING nor OUTGOING")
        start, count = page_of(call.query, self._limits, count=default_count)
        wanted = query_list(call.query, types)
        page = self._store.related_entities([urn], wanted, Direction[named], start, count)[urn]
        return page.entities, {"start": start, "count": len(page.entities), "total": page.total}
