"""The fields of searches: inputs read into a search request, its results and facets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graphql import GraphQLResolveInfo

from mlcat_ingest.catalog.limits import Limits
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
from mlcat_ingest.catalog.web.graphql.nodes import ENTITY_TYPES, SOUGHT, Node, kind_of
from mlcat_ingest.catalog.web.graphql.resolvers import (
    Fields,
    bad_request,
    context_of,
    nodes_in,
    page_of,
    selected_fields,
)
from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, SUB_TYPES
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


def search_request(inputs: SearchInput, limits: Limits) -> SearchRequest:
    """Return what `inputs` asks for, with the usual facets unless it skips aggregates.

    Raises:
        GraphQLError: a number in it is out of range.
    """
    flags = inputs.get("searchFlags") or {}
    any_of = alternatives(inputs)
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


def with_usual_types(request: SearchRequest) -> SearchRequest:
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


def alternatives(inputs: SearchInput) -> Alternatives:
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


def run_search(info: GraphQLResolveInfo, request: SearchRequest) -> SearchPage:
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


def found_entities(info: GraphQLResolveInfo, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return the results of a page, their entities loaded together."""
    nodes = nodes_in(info, (hit.urn for hit in hits))
    return [
        {
            "entity": nodes[hit.urn],
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
    request = with_usual_types(search_request(arguments["input"], context_of(info).limits))
    page = run_search(info, request)
    return {
        **page_fields(info, request, page),
        "searchResults": found_entities(info, page.hits),
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
