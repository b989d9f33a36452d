"""One search from its request to its page."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import (
    SEARCH_CRITERIA,
    SEARCH_PATTERN_CHARS,
    SEARCH_PATTERNS,
    SEARCH_VALUES,
    SORT_KEYS,
)
from mlcat_ingest.catalog.schema.tables import entity
from mlcat_ingest.catalog.search.compare import EXACT
from mlcat_ingest.catalog.search.facets import count_facets
from mlcat_ingest.catalog.search.highlight import matched_fields
from mlcat_ingest.catalog.search.order import sorted_page
from mlcat_ingest.catalog.search.query_text import Query, parse_query
from mlcat_ingest.catalog.search.rank import ranked_page, scrolled_page
from mlcat_ingest.catalog.search.request import Hit, SearchPage, SearchRequest
from mlcat_ingest.catalog.search.selection import Selection, is_few, select_entities


def search(connection: Connection, request: SearchRequest) -> SearchPage:
    """Return the page that `request` asks for.

    Raises:
        BadRequestError: `after` is not the scroll id of a page of this search, or the filter
            passes the limits.
    """
    _check_size(request)
    query = parse_query(request.query)
    if query.impossible:
        return SearchPage(0, facets=count_facets(connection, request, None))
    selection = select_entities(connection, request, _settled(connection, query))
    total, ids, next_scroll = _find(connection, request, selection, query.text)
    urns = _urns(connection, ids)
    matched = matched_fields(connection, ids, query.terms) if request.highlight else {}
    return SearchPage(
        total=total,
        hits=tuple(Hit(urns[at], matched.get(at, ())) for at in ids),
        facets=count_facets(connection, request, selection),
        next_scroll=next_scroll,
    )


def _settled(connection: Connection, query: Query) -> Query:
    """Return `query`, its last word complete if that is one that very many entities have.

    They are enough to find, and whatever else begins so would only take time.
    """
    if not query.terms or not query.terms[-1].prefix:
        return query
    whole = replace(query.terms[-1], prefix=False)
    if is_few(connection, whole.match()):
        return query
    return replace(query, terms=(*query.terms[:-1], whole))


def _find(
    connection: Connection, request: SearchRequest, selection: Selection, text: str
) -> tuple[int, list[int], str | None]:
    """Return how many entities there are, the ids of the page, and where the next begins."""
    if not request.count:
        return selection.total(connection), [], None
    if request.sort or not selection.terms:
        page = sorted_page(connection, request, selection)
    elif request.scroll or request.after is not None:
        page = scrolled_page(connection, request, selection)
    else:
        return *ranked_page(connection, request, selection, text), None
    return selection.total(connection), *page


def _check_size(request: SearchRequest) -> None:
    criteria = [criterion for alternative in request.any_of for criterion in alternative]
    if max(len(criteria), len(request.any_of)) > SEARCH_CRITERIA:
        raise BadRequestError(f"the filter has more than {SEARCH_CRITERIA} criteria")
    patterns = [value for one in criteria if one.condition not in EXACT for value in one.values]
    if len(patterns) > SEARCH_PATTERNS:
        raise BadRequestError(f"the filter compares with more than {SEARCH_PATTERNS} patterns")
    if any(len(pattern) > SEARCH_PATTERN_CHARS for pattern in patterns):
        raise BadRequestError(f"the filter has a pattern of more than {SEARCH_PATTERN_CHARS} chars")
    if sum(len(one.values) for one in criteria) > SEARCH_VALUES:
        raise BadRequestError(f"the filter has more than {SEARCH_VALUES} values")
    if len(request.sort) > SORT_KEYS:
        raise BadRequestError(f"the search is sorted by more than {SORT_KEYS} fields")


def _urns(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    if not ids:
        return {}
    query = select(entity.c.id, entity.c.urn).where(entity.c.id.in_(ids))
    return {row.id: row.urn for row in connection.execute(query)}
