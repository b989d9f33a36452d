"""Searches as the tests write them: what is found, as the names inside the URNs."""

from typing import Any

from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.search.request import (
    Condition,
    Criterion,
    SearchPage,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.store.store import Store


def names(page: SearchPage) -> list[str]:
    return [Identity.of(hit.urn).name for hit in page.hits]


def search(store: Store, query: str = "*", *criteria: Criterion, **more: Any) -> list[str]:
    """Return the names that a search for `query` and all of `criteria` finds, in order."""
    any_of = (criteria,) if criteria else ()
    request = SearchRequest(query, **{"any_of": any_of, "count": 100, **more})
    page = store.search(request)
    assert page.total == len(page.hits)
    return names(page)


def where(
    field: str, *values: str, condition: Condition = Condition.EQUAL, negated: bool = False
) -> Criterion:
    return Criterion(field, values, condition, negated)


def scroll(
    store: Store, query: str = "*", *sort: SortKey, count: int = 3, **more: Any
) -> list[str]:
    """Return the names on all pages of a scroll."""
    found: list[str] = []
    after = None
    while True:
        request = SearchRequest(query, sort=sort, count=count, scroll=True, after=after, **more)
        page = store.search(request)
        found += names(page)
        assert len(page.hits) <= count
        if page.next_scroll is None:
            return found
        after = page.next_scroll
