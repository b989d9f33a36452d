"""One search from its request to its page, with facets and highlighted words."""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from sqlalchemy import and_, func, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import (
    SEARCH_CRITERIA,
    SEARCH_PATTERN_CHARS,
    SEARCH_PATTERNS,
    SEARCH_VALUES,
    SORT_KEYS,
)
from mlcat_ingest.catalog.schema.tables import edge, entity, keyword, profile, searched
from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.fields import FieldName, field_name, find_all
from mlcat_ingest.catalog.search.index import decode, read_sources
from mlcat_ingest.catalog.search.pages import ranked_page, scrolled_page, sorted_page
from mlcat_ingest.catalog.search.predicates import EXACT, TEST_STATES, TESTS
from mlcat_ingest.catalog.search.query import Query, Term, parse_query
from mlcat_ingest.catalog.search.request import (
    MATCH_ALL,
    Alternatives,
    Facet,
    Hit,
    SearchPage,
    SearchRequest,
)
from mlcat_ingest.catalog.search.selection import Selection, is_few, select_entities
from mlcat_ingest.catalog.search.tokens import WORD, tokenize

_EDGE_FACETS: Final[Mapping[str, tuple[ColumnElement[str], ColumnElement[bool]]]] = {
    "groups": (edge.c.destination, edge.c.relationship == "MemberOf"),
    "tests": (
        edge.c.relationship,
        # Of an expression no index is used: one look-up for each test would be made of each hit.
        and_(edge.c.relationship.in_([*TEST_STATES]), edge.c.destination.concat("").in_(TESTS)),
    ),
}
"""Field to what leads from an entity to its values, and the edges that do."""

_MAX_EDGE_HITS: Final = 5_000
"""Most hits whose groups and tests are counted, which costs some microseconds each."""


def search(connection: Connection, request: SearchRequest) -> SearchPage:
    """Return the page that `request` asks for.

    Raises:
        BadRequestError: `after` is not the scroll id of a page of this search, or the filter
            passes the limits.
    """
    _check_size(request)
    query = parse_query(request.query)
    if query.impossible:
        return SearchPage(0, facets=_count_facets(connection, request, None, 0))
    selection = select_entities(connection, request, _with_complete_word(connection, query))
    total, ids, next_scroll = _find(connection, request, selection, query.text)
    urns = _urns(connection, ids)
    matched = _matched_fields(connection, ids, query.terms) if request.highlight else {}
    return SearchPage(
        total=total,
        hits=tuple(Hit(urns[at], matched.get(at, ())) for at in ids),
        facets=_count_facets(connection, request, selection, total),
        next_scroll=next_scroll,
        full_scan=selection.scans,
    )


def unknown_number(connection: Connection, any_of: Alternatives) -> str:
    """Return a sentence about the first metric or parameter that no entity has; "" for none."""
    for criterion in chain.from_iterable(any_of):
        field, name = field_name(criterion.field)
        if name is None:
            continue
        names = connection.scalars(select(keyword.c.value).where(keyword.c.field == field)).all()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            # A sign or a blank in a name takes a backslash.
            meant = [re.sub(r"([^\w.@/-])", r"\\\1", FieldName(field, one).column) for one in near]
            cure = f"; did you mean `{meant[0]}`?" if meant else ""
            return f"query: no entity has `{FieldName(field, name).column}`{cure}"
    return ""


def _with_complete_word(connection: Connection, query: Query) -> Query:
    """Return `query`, its last word complete if that is one that very many entities have.

    They are enough to find, and whatever else begins so would only take time, unless a `*` asks for
    it.
    """
    if not query.terms or not query.terms[-1].prefix or query.text.endswith(MATCH_ALL):
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
    patterns = [
        value
        for criterion in criteria
        if criterion.condition not in EXACT
        for value in criterion.values
    ]
    values = sum(len(criterion.values) for criterion in criteria)
    longest = max(map(len, patterns), default=0)
    count = max(len(criteria), len(request.any_of))
    for size, limit, sentence in (
        (count, SEARCH_CRITERIA, "the filter has too many criteria; the limit is {}"),
        (len(patterns), SEARCH_PATTERNS, "the filter has too many patterns; the limit is {}"),
        (
            longest,
            SEARCH_PATTERN_CHARS,
            "a pattern of the filter is too long; the limit is {}",
        ),
        (values, SEARCH_VALUES, "the filter has too many values; the limit is {}"),
        (len(request.sort), SORT_KEYS, "the search has too many sort fields; the limit is {}"),
    ):
        if size > limit:
            raise BadRequestError(sentence.format(limit))


def _urns(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    query = select(entity.c.id, entity.c.urn).where(entity.c.id.in_(ids))
    return {row.id: row.urn for row in connection.execute(query)} if ids else {}


def _count_facets(
    connection: Connection, request: SearchRequest, selection: Selection | None, total: int
) -> tuple[Facet, ...]:
    """Return a facet for each field asked for, counted over all of `selection` (None: nothing).

    Groups and tests are only counted of at most `_MAX_EDGE_HITS` hits.

    Cost: a walk through all hits, none where keywords alone say what is found; and one SQL
    statement for the names of the values, and for each of groups and tests.
    """
    if not request.facets:
        return ()
    fields = {name: field_name(name).field for name in request.facets}
    counts = Counter[int]() if selection is None else _count_keywords(connection, selection)
    by_field: dict[str, Counter[str]] = {field: Counter() for field in fields.values()}
    query = select(keyword.c.id, keyword.c.field, keyword.c.value)
    for number, field, value in connection.execute(query.where(keyword.c.field.in_(by_field))):
        if counts[number]:
            by_field[field][value] = counts[number]
    if selection is not None and total <= _MAX_EDGE_HITS:
        for field in by_field.keys() & _EDGE_FACETS.keys():
            by_field[field] = _count_edges(connection, selection, field)
    return tuple(
        Facet(name, _most_frequent(by_field[field], request.facet_values))
        for name, field in fields.items()
    )


def _count_edges(connection: Connection, selection: Selection, field: str) -> Counter[str]:
    value, condition = _EDGE_FACETS[field]
    query = select(value, func.count(edge.c.source_id.distinct())).group_by(value)
    hits = edge.c.source_id.in_(selection.query())
    rows = connection.execute(query.where(hits, condition))
    return Counter({TEST_STATES.get(row[0], row[0]): row[1] for row in rows})


def _count_keywords(connection: Connection, selection: Selection) -> Counter[int]:
    if selection.profiles is not None:
        query = select(profile.c.members, profile.c.entities).where(selection.profiles)
    else:
        hits = selection.query(searched.c.profile_id, joined=True).subquery()
        sizes = select(hits.c.profile_id, func.count().label("entities"))
        sized = sizes.group_by(hits.c.profile_id).subquery()
        query = select(profile.c.members, sized.c.entities)
        query = query.join(sized, sized.c.profile_id == profile.c.id)
    counts: Counter[int] = Counter()
    for encoded, entities in connection.execute(query):
        for number in decode(encoded):
            counts[number] += entities
    return counts


def _most_frequent(counts: Counter[str], limit: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda count: (-count[1], count[0]))[:limit])


def _matched_fields(
    connection: Connection, ids: Collection[int], terms: Sequence[Term]
) -> dict[int, tuple[tuple[str, str], ...]]:
    """Return, for each entity, the names of the fields that any of `terms` hits, and their texts.

    Cost: two SQL statements for each 500 entities, and all their searchable text in memory.
    """
    if not terms:
        return {}
    return {at: _fields_with(source, terms) for at, source in read_sources(connection, ids)}


def _fields_with(source: IndexedEntity, terms: Sequence[Term]) -> tuple[tuple[str, str], ...]:
    """Return the fields that any of `terms` hits, in the order of their columns."""
    texts = [
        (column, field, value)
        for field, value, column, _ in find_all(source.urn, source.entity_type, source.aspects)
        if column is not None and hits(terms, value)
    ]
    return tuple((field, value) for _, field, value in dict.fromkeys(sorted(texts)))


def hits(terms: Iterable[Term], text: str) -> bool:
    """Return whether `text` has any of `terms`."""
    tokens = tokenize(text)
    return any(term.occurs_in(*tokens) for term in terms)


def marks(text: str, terms: Sequence[Term]) -> list[tuple[str, bool]]:
    """Return `text` in pieces, each with whether it is a word that any of `terms` looks for."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for run in WORD.finditer(text):
        parts, wholes = tokenize(run[0])
        if any(term.marks(token) for term in terms for token in (*parts, *wholes)):
            pieces += [(text[end : run.start()], False), (run[0], True)]
            end = run.end()
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]]
