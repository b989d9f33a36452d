"""What a client's search input means: filters, sorting and flags, read into a search request."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.search.request import (
    Alternatives,
    Condition,
    Criterion,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.web.graphql.kinds import ENTITY_TYPES, SOUGHT
from mlcat_ingest.catalog.web.graphql.resolvers.common import bad_request, page_of

FACETS: Final[Mapping[str, str]] = {
    "_entityType": "Type",
    "platform": "Platform",
    "origin": "Environment",
    "tags": "Tags",
    "owners": "Owners",
    "domains": "Domains",
    "glossaryTerms": "Glossary Terms",
    "typeNames": "Sub Type",
    "container": "Container",
}
"""The facets of a search that names none, with the names to show for them."""

_COUNT: Final = 10

Wish = Mapping[str, Any]
"""One of the search inputs of the schema, as graphql-core has read it."""


def search_request(wish: Wish, limits: Limits) -> SearchRequest:
    """Return what `wish` asks for, with the usual facets unless it says that it wants none.

    Raises:
        GraphQLError: a number in it is out of range.
    """
    flags = wish.get("searchFlags") or {}
    any_of = alternatives(wish)
    start, count = page_of(wish, _COUNT, limits)
    values = flags.get("maxAggValues")
    if values is not None and values < 0:
        raise bad_request("maxAggValues cannot be negative")
    defaults = SearchRequest()
    return SearchRequest(
        query=wish.get("query") or defaults.query,
        entity_types=_entity_types(wish),
        any_of=any_of,
        sort=tuple(_sort_keys(wish.get("sortInput") or {})),
        start=start,
        count=count,
        after=wish.get("scrollId") or None,
        highlight=flags.get("skipHighlighting") is not True,
        facets=() if flags.get("skipAggregates") else tuple(FACETS),
        facet_values=defaults.facet_values if values is None else min(values, limits.page_size),
        # Who asks about removed entities is not kept from seeing them.
        include_removed=flags.get("includeSoftDeleted") is True or _asks_about("removed", any_of),
        only_latest=flags.get("filterNonLatestVersions") is not False,
    )


def with_usual_types(request: SearchRequest) -> SearchRequest:
    """Return `request`; where it says nothing about types, it finds what people look for."""
    if request.entity_types is not None or _asks_about("_entityType", request.any_of):
        return request
    return replace(request, entity_types=SOUGHT)


def _asks_about(field: str, any_of: Alternatives) -> bool:
    return any(
        one.field.removesuffix(".keyword") == field and not one.negated
        for criteria in any_of
        for one in criteria
    )


def alternatives(wish: Wish) -> Alternatives:
    """Return the filters of `wish`: alternatives, each a list of criteria that hold together."""
    either = wish.get("orFilters")
    if either is None:
        both = wish.get("filters")
        return (tuple(_criterion(item) for item in both),) if both else ()
    return tuple(tuple(_criterion(item) for item in one.get("and") or ()) for one in either)


def _criterion(item: Wish) -> Criterion:
    values = item.get("values")
    if values is None:
        value = item.get("value")
        values = [] if value is None else [value]
    condition = Condition(item.get("condition") or "EQUAL")
    return Criterion(item["field"], tuple(values), condition, negated=item.get("negated") is True)


def _entity_types(wish: Wish) -> frozenset[str] | None:
    """Return the entity types that `wish` names, or None where it names none."""
    named = wish.get("types") or ([wish["type"]] if "type" in wish else [])
    # A name that stands for no type finds nothing.
    return frozenset(ENTITY_TYPES.get(name, name) for name in named) or None


def _sort_keys(wish: Wish) -> Iterator[SortKey]:
    criteria = wish.get("sortCriteria")
    if criteria is None:
        single = wish.get("sortCriterion")
        criteria = [] if single is None else [single]
    for item in criteria:
        yield SortKey(item["field"], descending=item["sortOrder"] == "DESCENDING")
