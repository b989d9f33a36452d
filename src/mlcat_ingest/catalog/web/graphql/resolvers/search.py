"""The fields of searches and of what they find."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLResolveInfo,
    InlineFragmentNode,
)

from mlcat_ingest.catalog.search.names import field_name
from mlcat_ingest.catalog.search.request import Facet, Hit, SearchPage, SearchRequest
from mlcat_ingest.catalog.web.graphql.criteria import FACETS, search_request, with_usual_types
from mlcat_ingest.catalog.web.graphql.kinds import kind_of
from mlcat_ingest.catalog.web.graphql.nodes import Node
from mlcat_ingest.catalog.web.graphql.resolvers.common import (
    Fields,
    context_of,
    nodes_in,
)
from mlcat_ingest.metadata.urn import PREFIX


def run_search(info: GraphQLResolveInfo, request: SearchRequest) -> SearchPage:
    """Return what the store finds; what the query does not select is not worked out."""
    context = context_of(info)
    context.count_search()
    return context.store.search(
        replace(
            request,
            scroll=info.field_name.startswith("scroll"),
            highlight=request.highlight and asks_for(info, "matchedFields"),
            facets=request.facets if asks_for(info, "facets") else (),
        )
    )


def found_entities(info: GraphQLResolveInfo, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return the results of a page, their entities loaded together."""
    nodes = nodes_in(info, (hit.urn for hit in hits))
    return [
        {
            "entity": nodes[hit.urn],
            "insights": [],
            "matchedFields": [{"name": name, "value": value} for name, value in hit.matched],
            "extraProperties": [],
        }
        for hit in hits
    ]


def page_fields(
    info: GraphQLResolveInfo, request: SearchRequest, page: SearchPage
) -> dict[str, Any]:
    """Return what every kind of page has beside its results."""
    return {
        "start": request.start,
        "count": len(page.hits),
        "total": page.total,
        "nextScrollId": page.next_scroll,
        "facets": _facets(info, page.facets),
    }


def _facets(info: GraphQLResolveInfo, facets: Sequence[Facet]) -> list[dict[str, Any]]:
    values = (value for facet in facets for value, _ in facet.counts if value.startswith(PREFIX))
    nodes = nodes_in(info, values)
    return [
        {
            "field": facet.field,
            "displayName": FACETS.get(facet.field, facet.field),
            "aggregations": [
                {
                    "value": _shown(facet.field, value),
                    "count": count,
                    "entity": nodes.get(value),
                }
                for value, count in facet.counts
            ],
        }
        for facet in facets
    ]


def _shown(field: str, value: str) -> str:
    return kind_of(value).enum if field_name(field).field == "_entityType" else value


def asks_for(info: GraphQLResolveInfo, name: str) -> bool:
    """Return whether `name` is selected anywhere below the field that is being resolved."""
    waiting = [node.selection_set for node in info.field_nodes]
    while waiting:
        selected = waiting.pop()
        for selection in selected.selections if selected else ():
            if isinstance(selection, FieldNode) and selection.name.value == name:
                return True
            if isinstance(selection, FragmentSpreadNode):
                waiting.append(info.fragments[selection.name.value].selection_set)
            elif isinstance(selection, FieldNode | InlineFragmentNode):
                waiting.append(selection.selection_set)
    return False


def _search(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Any:
    request = with_usual_types(search_request(arguments["input"], context_of(info).limits))
    page = run_search(info, request)
    return {
        **page_fields(info, request, page),
        "searchResults": found_entities(info, page.hits),
        "suggestions": [],
    }


def _named_entity(source: Mapping[str, Any], info: GraphQLResolveInfo) -> Node | None:
    value = source["value"]
    return nodes_in(info, [value]).get(value) if value.startswith(PREFIX) else None


def _display_name(source: Mapping[str, Any], _info: GraphQLResolveInfo) -> str | None:
    """Return the name of the entity that a value stands for."""
    node: Node | None = source["entity"]
    if node is None:
        return None
    properties = node.kind.properties
    value = (node.aspect(properties) or {}) if properties else {}
    name = value.get("displayName") or value.get("name")
    return name if isinstance(name, str) and name else node.part(0)


SEARCH: Final[Mapping[str, Fields]] = {
    "Query": {
        "search": _search,
        "searchAcrossEntities": _search,
        "scrollAcrossEntities": _search,
    },
    "MatchedField": {"entity": _named_entity},
    "AggregationMetadata": {"displayName": _display_name},
}
"""The root fields that search, and the parts of their results that are more than a value."""
