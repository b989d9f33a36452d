"""Lists of edges through OpenAPI v3: of any relationship, or those along which data flows."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SEARCH_CRITERIA, SEARCH_VALUES, Limits
from mlcat_ingest.catalog.schema.cursor import read_cursor, write_cursor
from mlcat_ingest.catalog.search.compare import EXACT
from mlcat_ingest.catalog.store.edge_scroll import (
    EdgePosition,
    EdgeWish,
    Ends,
    FoundEdge,
    scroll_edges,
)
from mlcat_ingest.catalog.store.lineage import TO_DESTINATION
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import json_object, query_flag, query_list, texts, whole
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    URN,
    WHOLE,
    Endpoint,
    Parameter,
    array,
    record,
    ref,
)
from mlcat_ingest.catalog.web.rest.filters import read_filter
from mlcat_ingest.catalog.web.rest.openapi.paths import entity_types_named
from mlcat_ingest.metadata.urn import entity_type_of

_COUNT: Final = 10
_PAGE: Final = (
    Parameter("relationshipTypes", "Only these, repeated; all without any."),
    Parameter("count", f"Most edges of a page, {_COUNT} by default.", WHOLE),
    Parameter("scrollId", "The scrollId of the page before."),
    Parameter("includeSoftDelete", "Whether removed entities may be at the ends.", FLAG),
    Parameter("sliceId", "Which slice of the result; the first has all of it.", WHOLE),
    Parameter("sliceMax", "How many slices there are.", WHOLE),
    Parameter("pitKeepAlive", "Accepted, and without effect: a scrollId does not expire."),
)


class EdgeScroll:
    """The endpoints that list edges."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        directions = {"enum": ["INCOMING", "OUTGOING"]}
        ways = {"enum": ["UPSTREAM", "DOWNSTREAM"]}
        page = {200: ref("EdgePage")}
        return (
            Endpoint(
                *("POST", "/openapi/v3/relationship/scroll", self.relationships, page),
                client="SDK DataHubGraph.scroll_relationships",
                parameters=(
                    *_PAGE,
                    Parameter("sourceTypes", "Entity types of the sources, repeated."),
                    Parameter("destinationTypes", "Entity types of the destinations, repeated."),
                    Parameter(
                        "direction", "INCOMING: the two ends change their places.", directions
                    ),
                ),
                body=record(sourceFilter=ref("Filter"), destinationFilter=ref("Filter")),
                reads=True,
            ),
            Endpoint(
                *("POST", "/openapi/v3/lineage/scroll", self.lineage, page),
                client="SDK DataHubGraph.scroll_lineage",
                parameters=(
                    *_PAGE,
                    Parameter("direction", "Which way from `urns`; both without it.", ways),
                ),
                body=record(urns=array(URN)),
                reads=True,
            ),
        )

    def relationships(self, call: Call) -> dict[str, Any]:
        """Read a page of the edges between certain entities, or of all edges."""
        body = json_object(call.json()) if call.body.strip() else {}
        if read_filter(body.get("edgeFilter"), "edgeFilter"):
            raise BadRequestError("edgeFilter: edges have no fields to compare")
        sources = Ends(_types(call.query, "sourceTypes"), _urns(body, "sourceFilter"))
        destinations = Ends(
            _types(call.query, "destinationTypes"), _urns(body, "destinationFilter")
        )
        if _one_of(call.query, "direction", "OUTGOING", "INCOMING") == "INCOMING":
            sources, destinations = destinations, sources
        wish = self._wish(call.query, sources=sources, destinations=destinations)
        found, scroll_id = self._page(call.query, wish)
        return {"scrollId": scroll_id, "results": [_shown(edge) for edge in found]}

    def lineage(self, call: Call) -> dict[str, Any]:
        """Read a page of the edges along which data flows, of certain entities or of all.

        With a `direction` a page may have fewer edges than asked for.
        """
        body = json_object(call.json()) if call.body.strip() else {}
        urns = texts(body, SEARCH_VALUES, "urns")
        anchors = tuple(sorted(set(urns))) if urns else None
        way = _one_of(call.query, "direction", "", "UPSTREAM", "DOWNSTREAM")
        wish = self._wish(call.query, at_either_end=anchors, lineage=True)
        found, scroll_id = self._page(call.query, wish)
        shown = [_flow(edge) for edge in found]
        if anchors is not None and way:
            anchored = "downstream" if way == "UPSTREAM" else "upstream"
            shown = [edge for edge in shown if edge[anchored] in anchors]
        return {"scrollId": scroll_id, "results": shown}

    def _wish(self, query: QueryParams, **more: Any) -> EdgeWish:
        named = query_list(query, "relationshipTypes")
        removed = query_flag(query, "includeSoftDelete")
        types = tuple(sorted(set(named))) if named else None
        return EdgeWish(types, include_removed=removed, **more)

    def _page(self, query: QueryParams, wish: EdgeWish) -> tuple[Sequence[FoundEdge], str | None]:
        count = min(whole(query, "count", _COUNT), self._limits.page_size)
        given = query.get("scrollId")
        after = EdgePosition(*read_cursor(wish, given, 3)) if given else None
        # A slice may be of any size: the first has everything, so that none is read twice.
        if 0 < whole(query, "sliceId") < whole(query, "sliceMax"):
            return (), None
        find = partial(scroll_edges, wish=wish, after=after, count=count)
        found, place = self._store.read(find)
        return found, None if place is None else write_cursor(wish, place)


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
    found: set[str] = set()
    for alternative in alternatives:
        for one in alternative:
            if one.field != "urn" or one.negated or one.condition not in EXACT:
                raise BadRequestError(f"{name}: edges can only be filtered by the `urn` of an end")
        found |= set.intersection(*(set(one.values) for one in alternative))
    return tuple(sorted(found))


def _one_of(query: QueryParams, name: str, default: str, *others: str) -> str:
    value = query.get(name, default).upper()
    if value not in {default, *others}:
        known = ", ".join(filter(None, (default, *others)))
        raise BadRequestError(f"{name}: {value!r} is none of {known}")
    return value


def _shown(edge: FoundEdge) -> dict[str, Any]:
    return {
        "relationshipType": edge.relationship,
        "source": {"urn": edge.source, "entityType": edge.source_type},
        "destination": {
            "urn": edge.destination,
            "entityType": entity_type_of(edge.destination),
        },
    }


def _flow(edge: FoundEdge) -> dict[str, Any]:
    ends = (edge.source, edge.destination)
    flows_on = (edge.source_type, edge.relationship) in TO_DESTINATION
    upstream, downstream = ends if flows_on else ends[::-1]
    return {**_shown(edge), "upstream": upstream, "downstream": downstream}
