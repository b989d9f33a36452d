"""Searches: inputs read into a request, its results and facets; and lineage.

Lineage is one hop of an entity, or a search along lineage over several hops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.limits import SEARCH_VALUES, Limits
from mlcat_ingest.catalog.search.fields import KEYWORD_FIELDS, field_name
from mlcat_ingest.catalog.search.language import ReadQuery, combine, read_query
from mlcat_ingest.catalog.search.request import (
    MATCH_ALL,
    Alternatives,
    Condition,
    Criterion,
    Facet,
    Hit,
    SearchPage,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.store.graph import LineageQuery, Reach, lineage, walk
from mlcat_ingest.catalog.web.graphql.resolvers import (
    EDGES_AT_ONCE,
    ENTITY_TYPES,
    SOUGHT,
    Fields,
    Node,
    bad_request,
    context_of,
    kind_of,
    nodes_in,
    page_of,
    parts_of,
    selected_fields,
)
from mlcat_ingest.metadata.aspects import BROWSE_PATHS_V2, SUB_TYPES
from mlcat_ingest.metadata.urn import PREFIX

FACETS: Final[Mapping[str, str]] = {
    "container": "Container",
    "_entityType": "Type",
    "origin": "Environment",
    "deprecated": "Deprecated",
    "domains": "Domain",
    "glossaryTerms": "Glossary Term",
    "owners": "Owned By",
    "platformInstance": "Platform Instance",
    "platform": "Platform",
    "tags": "Tagged With",
    "typeNames": "Sub Type",
    "entity": "Type",
}
"""The facets of a search, with the names to show for them; one without values is left out."""

_PRESENCE: Final[Mapping[str, str]] = {
    "hasDescription": "description",
    "hasDomain": "domains",
    "hasGlossaryTerms": "glossaryTerms",
    "hasOwners": "owners",
    "hasTags": "tags",
}
"""Fields of DataHub's index that say whether another one has values."""

_PAGE_FIELDS: Final = (
    "created createdAt dataType deployments downstreamJobs entity entityType env groups "
    "lastModified lastModifiedAt mlFeatures mlPrimaryKeys sources trainingJobs"
)
_OWN: Final = frozenset({BROWSE_PATHS_V2, SUB_TYPES, *_PAGE_FIELDS.split()})
"""Fields of the pages' searches that DataHub's index has not; here they find nothing."""

_NOWHERE: Final = Criterion("", (), Condition.EXISTS)

_SORTABLE: Final = KEYWORD_FIELDS | {"urn", "name", "_score", "description", "customProperties"}

_WORDS: Final = (
    "a|an|and|are|as|at|be|but|by|for|if|in|into|is|it|no|not|of|on|or|such|that|the|their|then|"
    "there|these|they|this|to|was|will|with"
)
_STOP_WORDS: Final = frozenset(_WORDS.split("|"))
"""Words that DataHub's index leaves out of texts and queries: those of Lucene for English."""

_COUNT: Final = 10

_STRUCTURED: Final = "/q "
"""Begins a query in Elasticsearch's syntax, as DataHub's clients for assistants send it."""

SearchInput = Mapping[str, Any]
"""One of the search inputs of the schema, as graphql-core has read it."""


def _search_request(inputs: SearchInput, limits: Limits) -> SearchRequest:
    """Return what `inputs` asks for, with the usual facets unless it skips aggregates.

    Raises:
        GraphQLError: a number in it is out of range.
    """
    flags = inputs.get("searchFlags") or {}
    any_of = _alternatives(inputs)
    start, count = page_of(inputs, _COUNT, limits)
    values = flags.get("maxAggValues")
    if values is not None and values < 0:
        raise bad_request("maxAggValues cannot be negative")
    defaults = SearchRequest()
    return SearchRequest(
        query=_query(inputs).words,
        entity_types=_entity_types(inputs),
        any_of=any_of,
        sort=tuple(_sort_keys(inputs.get("sortInput") or {})),
        start=start,
        count=count,
        after=inputs.get("scrollId") or None,
        highlight=flags.get("skipHighlighting") is not True,
        facets=() if flags.get("skipAggregates") else tuple(FACETS),
        facet_values=defaults.facet_values if values is None else min(values, limits.page_size),
        # A filter on `removed` finds nothing unless removed entities are included.
        include_removed=flags.get("includeSoftDeleted") is True or _asks_about("removed", any_of),
        # A DataHub server looks at the versions only where there is a filter.
        only_latest=any(any_of) and flags.get("filterNonLatestVersions") is not False,
    )


def _with_usual_types(request: SearchRequest) -> SearchRequest:
    """Return `request`; without a condition on types, it searches the usual entity types."""
    if request.entity_types is not None or _asks_about("_entityType", request.any_of):
        return request
    return replace(request, entity_types=SOUGHT)


def _asks_about(field: str, any_of: Alternatives) -> bool:
    return any(
        criterion.field.removesuffix(".keyword") == field and not criterion.negated
        for criteria in any_of
        for criterion in criteria
    )


def _alternatives(inputs: SearchInput) -> Alternatives:
    """Return the filters of `inputs`: alternatives, each a list of criteria that hold together.

    Those of a structured query are among them.

    Raises:
        BadRequestError: a structured query is not understood.
    """
    either = inputs.get("orFilters")
    if either is None:
        either = [{"and": inputs["filters"]}] if inputs.get("filters") else []
    alternatives = tuple(
        tuple(_criterion(item) for item in alternative.get("and") or ()) for alternative in either
    )
    structured = _query(inputs).any_of
    return combine(alternatives or ((),), structured) if structured else alternatives


def _query(inputs: SearchInput) -> ReadQuery:
    text = inputs.get("query") or MATCH_ALL
    if text.startswith(_STRUCTURED):
        return read_query(text.removeprefix(_STRUCTURED))
    words = text.split()
    if text != MATCH_ALL and any(MATCH_ALL in word[:-1] for word in words):
        # Only the end of a word may be left open.
        return ReadQuery(MATCH_ALL, ((_NOWHERE,),))
    kept = [word for word in words if word.lower() not in _STOP_WORDS]
    return ReadQuery(text if '"' in text else " ".join(kept) or text)


def _criterion(item: SearchInput) -> Criterion:
    condition = Condition(item.get("condition") or "EQUAL")
    field, values = item["field"], tuple(item.get("values") or ())
    negated = item.get("negated") is True
    bare = field.removesuffix(".keyword")
    if bare in _OWN:
        return replace(_NOWHERE, negated=negated)
    if bare in _PRESENCE:
        # Where there are no values there is mostly no such field either.
        there = condition is Condition.EXISTS or "true" in values
        field, values, condition = _PRESENCE[bare] if there else "", (), Condition.EXISTS
    return Criterion(field, values, condition, negated)


def _entity_types(inputs: SearchInput) -> frozenset[str] | None:
    """Return the entity types that `inputs` names, or None where it names none."""
    named = inputs.get("types") or ([inputs["type"]] if "type" in inputs else [])
    # A name of no type finds nothing.
    return frozenset(ENTITY_TYPES.get(name, name) for name in named) or None


def _sort_keys(inputs: SearchInput) -> Iterator[SortKey]:
    criteria = inputs.get("sortCriteria")
    if criteria is None:
        single = inputs.get("sortCriterion")
        criteria = [] if single is None else [single]
    for item in criteria:
        name = item["field"]
        if name not in _SORTABLE and field_name(name).name is None:
            raise bad_request(f"sortInput: no entity has a field {name!r}")
        yield SortKey(name, descending=item["sortOrder"] == "DESCENDING")


def _run_search(info: GraphQLResolveInfo, request: SearchRequest) -> SearchPage:
    """Return what the store finds; highlights and facets are left out unless selected."""
    context = context_of(info)
    context.check_time()
    return context.store.search(
        replace(
            request,
            scroll=info.field_name.startswith("scroll"),
            highlight=request.highlight and "matchedFields" in selected_fields(info),
            facets=request.facets if "facets" in selected_fields(info) else (),
        )
    )


def _found_entities(info: GraphQLResolveInfo, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return the results of a page, their entities loaded together."""
    nodes = nodes_in(info, (hit.urn for hit in hits))
    return [
        {
            "entity": nodes[hit.urn],
            "matchedFields": [{"name": name, "value": value} for name, value in hit.matched],
            "extraProperties": [],
        }
        for hit in hits
        if hit.urn in nodes
    ]


def _page_fields(
    info: GraphQLResolveInfo, request: SearchRequest, page: SearchPage
) -> dict[str, Any]:
    """Return what every kind of page has beside its results."""
    return {
        "start": request.start,
        "count": len(page.hits) if info.field_name.startswith("scroll") else request.count,
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
                    "value": _facet_value(facet.field, value),
                    "count": count,
                    "entity": nodes.get(value),
                }
                for value, count in facet.counts
            ],
        }
        for facet in facets
        if facet.counts
    ]


def _facet_value(field: str, value: str) -> str:
    return kind_of(value).enum if field_name(field).field == "_entityType" else value


def _search(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Any:
    request = _with_usual_types(_search_request(arguments["input"], context_of(info).limits))
    page = _run_search(info, request)
    return {
        **_page_fields(info, request, page),
        "searchResults": _found_entities(info, page.hits),
    }


def _display_name(source: Mapping[str, Any], _info: GraphQLResolveInfo) -> str | None:
    """Return the name of the entity that a facet value refers to."""
    node: Node | None = source["entity"]
    if node is None:
        return None
    value = node.aspect(node.kind.properties) or {}
    name = value.get("displayName") or value.get("name")
    return name if isinstance(name, str) and name else node.part(0)


SEARCH: Final[Mapping[str, Fields]] = {
    "Query": {"search": _search, "searchAcrossEntities": _search, "scrollAcrossEntities": _search},
    "AggregationMetadata": {"displayName": _display_name},
}
"""The root fields that search, and the parts of their results that are more than a value."""


_LINEAGE_COUNT: Final = 100


def _lineage(
    node: Node, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]
) -> dict[str, Any]:
    inputs = arguments["input"]
    start, count = page_of(inputs, _LINEAGE_COUNT, context_of(info).limits)
    page = node.cohort.page(
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
        pages = context.store.read(lineage, urns, page)
        return ((urn, end.urn) for urn, ends in pages.items() for end in ends.entities)

    walk(reach, neighbours, hops, EDGES_AT_ONCE // _EDGES_EACH, followed)


def _hops(criteria: Sequence[_Alternative]) -> int:
    """Return how many hops the filters on the degree ask for at most."""
    farthest = [0]
    for alternative in criteria:
        bounds = [one for one in alternative if one.field == _DEGREE and not one.negated]
        if not bounds:
            return MAX_HOPS
        farthest += [last for criterion in bounds for _, last in _ranges(criterion)]
    return min(max(farthest), MAX_HOPS) if criteria else MAX_HOPS


def _ranges(criterion: Criterion) -> Iterator[tuple[int, int]]:
    """Yield the least and the most hops of each value, such as 2 or 3+."""
    for value in criterion.values:
        text = value.removesuffix(_FARTHER)
        if not (text.isascii() and text.isdigit()):
            raise bad_request(f"degree: {value!r} is not a number of hops such as 1, 2 or 3+")
        least = int(text[:9])
        yield least, least if text == value else max(least, MAX_HOPS)


def _at_degree(criterion: Criterion, degree: int) -> bool:
    holds = any(least <= degree <= most for least, most in _ranges(criterion))
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


def _search_lineage(_root: Any, info: GraphQLResolveInfo, **arguments: Mapping[str, Any]) -> Any:
    inputs = arguments["input"]
    urn = inputs.get("urn") or ""
    parts_of(urn)
    criteria = _alternatives(inputs)
    own_values = sum(len(criterion.values) for alternative in criteria for criterion in alternative)
    most = (SEARCH_VALUES - own_values) // max(1, len(criteria))
    if most < 1:
        raise bad_request(f"the filter has more than {SEARCH_VALUES} values")
    reach = Reach(urn, min(most, context_of(info).limits.page_size))
    _walk(info, reach, inputs, _hops(criteria))
    request = _search_request(inputs, context_of(info).limits)
    request = replace(request, any_of=_among(reach, criteria))
    # Without alternatives a search would find everything.
    page = _run_search(info, request) if request.any_of else SearchPage(0)
    return {
        **_page_fields(info, request, page),
        "searchResults": _results(info, page, reach),
        "isPartial": reach.partial,
    }


def _results(info: GraphQLResolveInfo, page: SearchPage, reach: Reach) -> list[dict[str, Any]]:
    ways = {hit.urn: reach.path(hit.urn) for hit in page.hits}
    nodes = nodes_in(info, (urn for way in ways.values() for urn in way))
    results = _found_entities(info, page.hits)
    for result in results:
        urn = result["entity"].urn
        degree = reach.degrees[urn]
        path = [nodes.get(urn) for urn in ways[urn]]
        result |= {"degree": degree, "degrees": [degree], "paths": [{"path": path}]}
    return results


LINEAGE_SEARCH: Final[Mapping[str, Fields]] = {
    "Query": {"searchAcrossLineage": _search_lineage, "scrollAcrossLineage": _search_lineage}
}
"""The root fields that search along lineage."""
