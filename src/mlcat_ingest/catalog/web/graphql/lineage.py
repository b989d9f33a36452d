"""The fields of lineage: one hop of an entity, and searches along lineage over several hops."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.limits import SEARCH_VALUES
from mlcat_ingest.catalog.search.request import Condition, Criterion, SearchPage
from mlcat_ingest.catalog.store.graph import LineageQuery, Reach, lineage, walk
from mlcat_ingest.catalog.web.graphql.nodes import EDGES_AT_ONCE, Node
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    bad_request,
    context_of,
    nodes_in,
    page_of,
    parts_of,
)
from mlcat_ingest.catalog.web.graphql.search import (
    alternatives,
    found_entities,
    page_fields,
    run_search,
    search_request,
)

_COUNT: Final = 100


def _lineage(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    inputs = arguments["input"]
    start, count = page_of(inputs, _COUNT, context_of(info).limits)
    page = node.cohort.lineage_page(
        node.urn,
        LineageQuery(
            upstream=inputs["direction"] == "UPSTREAM",
            start=start,
            count=count,
            include_missing=inputs["includeGhostEntities"] is True,
        ),
    )
    others = nodes_in(info, (other.urn for other in page.entities))
    return {
        "start": start,
        "count": count,
        "total": page.total,
        "filtered": page.hidden,
        "relationships": [
            {"type": other.relationship, "entity": others.get(other.urn), "degree": 1}
            for other in page.entities
        ],
    }


LINEAGE: Final[Fields] = {"lineage": _lineage}
"""The field of the interface EntityWithRelationships."""


MAX_HOPS: Final = 20
"""How far a search goes whose filters set no bound."""

_EDGES_EACH: Final = 1_000
_DEGREE: Final = "degree"
_FARTHER: Final = "+"

_Alternative = tuple[Criterion, ...]


def _walk(info: GraphQLResolveInfo, reach: Reach, inputs: Mapping[str, Any], hops: int) -> None:
    """Follow lineage from the origin, hop by hop, until enough was reached."""
    context = context_of(info)
    page = LineageQuery(inputs["direction"] == "UPSTREAM", 0, _EDGES_EACH, include_missing=True)
    followed = (inputs.get("lineageFlags") or {}).get("entitiesExploredPerHopLimit")

    def neighbours(urns: Sequence[str]) -> Iterator[tuple[str, str]]:
        context.check_time()
        pages = context.store.read(partial(lineage, urns=urns, query=page))
        return ((urn, end.urn) for urn, ends in pages.items() for end in ends.entities)

    walk(reach, neighbours, hops, EDGES_AT_ONCE // _EDGES_EACH, followed)


def _hops(criteria: Sequence[_Alternative]) -> int:
    """Return how many hops the filters on the degree ask for at most."""
    farthest = 0
    for alternative in criteria:
        bounds = [
            criterion
            for criterion in alternative
            if criterion.field == _DEGREE and not criterion.negated
        ]
        if not bounds or any(
            value.endswith(_FARTHER) for criterion in bounds for value in criterion.values
        ):
            return MAX_HOPS
        farthest = max(
            farthest, *(_number(value) for criterion in bounds for value in criterion.values), 0
        )
    return min(farthest, MAX_HOPS) if criteria else MAX_HOPS


def _number(value: str) -> int:
    text = value.removesuffix(_FARTHER)
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"degree: {value!r} is not a number of hops such as 1, 2 or 3+")
    return int(text[:9])


def _at_degree(criterion: Criterion, degree: int) -> bool:
    holds = any(
        degree >= _number(value) if value.endswith(_FARTHER) else degree == _number(value)
        for value in criterion.values
    )
    return holds is not criterion.negated


def _among(reach: Reach, criteria: Sequence[_Alternative]) -> tuple[_Alternative, ...]:
    """Return `criteria` as they read once the degrees are known: about URNs that were reached."""
    narrowed: list[_Alternative] = []
    for alternative in criteria or ((),):
        bounds = [criterion for criterion in alternative if criterion.field == _DEGREE]
        urns = tuple(
            urn
            for urn, degree in reach.degrees.items()
            if all(_at_degree(criterion, degree) for criterion in bounds)
        )
        if urns:
            rest = (criterion for criterion in alternative if criterion.field != _DEGREE)
            narrowed.append((Criterion("urn", urns, Condition.IN), *rest))
    return tuple(narrowed)


def _search(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Any:
    inputs = arguments["input"]
    urn = inputs.get("urn") or ""
    parts_of(urn)
    criteria = alternatives(inputs)
    own_values = sum(len(criterion.values) for alternative in criteria for criterion in alternative)
    most = (SEARCH_VALUES - own_values) // max(1, len(criteria))
    if most < 1:
        raise bad_request(f"the filter has more than {SEARCH_VALUES} values")
    reach = Reach(urn, min(most, context_of(info).limits.page_size))
    _walk(info, reach, inputs, _hops(criteria))
    request = search_request(inputs, context_of(info).limits)
    request = replace(request, any_of=_among(reach, criteria))
    # Without alternatives a search would find everything.
    page = run_search(info, request) if request.any_of else SearchPage(0)
    return {
        **page_fields(info, request, page),
        "searchResults": _results(info, page, reach),
        "isPartial": reach.partial,
    }


def _results(info: GraphQLResolveInfo, page: SearchPage, reach: Reach) -> list[dict[str, Any]]:
    ways = {hit.urn: reach.path(hit.urn) for hit in page.hits}
    nodes = nodes_in(info, (urn for way in ways.values() for urn in way))
    results = found_entities(info, page.hits)
    for hit, result in zip(page.hits, results, strict=True):
        degree = reach.degrees[hit.urn]
        path = [nodes.get(urn) for urn in ways[hit.urn]]
        result |= {"degree": degree, "degrees": [degree], "paths": [{"path": path}]}
    return results


LINEAGE_SEARCH: Final[Mapping[str, Fields]] = {
    "Query": {"searchAcrossLineage": _search, "scrollAcrossLineage": _search}
}
"""The root fields that search along lineage."""
