"""The search page: hits with their highlights, choices that narrow, and suggestions."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.search.language import ReadQuery, combine, read_query
from mlcat_ingest.catalog.search.query import Term, parse_query
from mlcat_ingest.catalog.search.request import Criterion, Facet, Hit, SearchRequest
from mlcat_ingest.catalog.search.search import marks, unknown_number
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import PAGE_ROWS, ListRow, names_of, pager, rows_of
from mlcat_ingest.catalog.web.ui.text import kind_name

_NARROWED_BY: Final[Mapping[str, tuple[str, str]]] = {
    "type": ("_entityType", "Type"),
    "kind": ("typeNames", "Kind"),
    "platform": ("platform", "Platform"),
    "tag": ("tags", "Tag"),
    "owner": ("owners", "Owner"),
}
"""Parameter of the page to the field it filters on and to the heading of its choices."""

_CHOICES: Final = 8
_SUGGESTIONS: Final = 8
_SNIPPET_CHARS: Final = 220
_SNIPPET_LEAD: Final = 60
_FIELD_LABELS: Final = {
    "description": "Description",
    "type": "Type",
    "customProperties": "Property",
    "tags": "Tag",
    "owners": "Owner",
    "glossaryTerms": "Glossary term",
    "domains": "Domain",
    "urn": "URN",
}

Pieces = tuple[tuple[str, bool], ...]
"""A text in pieces, each with whether it is marked."""


def search_view(
    store: Store, text: str, query: Mapping[str, str], start: int
) -> Mapping[str, object]:
    """Return a page of what a search for `text` finds, narrowed by the parameters in `query`.

    Cost: that of a search with facets, and two SQL statements.
    """
    chosen = {key: query[key] for key in _NARROWED_BY if query.get(key)}
    narrowed = tuple(Criterion(_NARROWED_BY[key][0], (chosen[key],)) for key in chosen)
    try:
        words, any_of = read_query(text, strict=True)
        page = store.search(
            SearchRequest(
                words,
                any_of=combine(any_of or ((),), (narrowed,)),
                start=start,
                count=PAGE_ROWS,
                facets=tuple(field for field, _ in _NARROWED_BY.values()),
                facet_values=_CHOICES,
            )
        )
    except BadRequestError as error:
        nothing = pager(0, 0, 0, lambda at: _href(text, chosen, start=at))
        return {"problem": error.message, "rows": [], "pager": nothing, "choices": []}
    terms = parse_query(words).terms
    rows = rows_of(store, [hit.urn for hit in page.hits])
    return {
        "problem": "" if page.total else store.read(lambda sql: unknown_number(sql, any_of)),
        "rows": [_hit_row(row, hit, terms) for row, hit in zip(rows, page.hits, strict=True)],
        "pager": pager(page.total, start, len(rows), lambda at: _href(text, chosen, start=at)),
        "choices": _choices(store, text, chosen, page.facets),
    }


def suggestions(store: Store, text: str) -> list[dict[str, str]]:
    """Return the best of what a search for `text` finds, to be offered while it is typed."""
    if not text:
        return []
    try:
        words, any_of = read_query(text, strict=True)
    except BadRequestError:
        words, any_of = ReadQuery(text)  # it is not finished yet
    request = SearchRequest(words, any_of=any_of, count=_SUGGESTIONS, highlight=False)
    page = store.search(request)
    rows = rows_of(store, [hit.urn for hit in page.hits])
    return [
        {"name": row.name, "kind": row.kind, "place": row.place, "href": row.href} for row in rows
    ]


def _href(text: str, chosen: Mapping[str, str], **more: int) -> str:
    query = urlencode({"q": text, **chosen, **more}, errors="replace")
    return f"/search?{query}"


def _choices(
    store: Store, text: str, chosen: Mapping[str, str], facets: Sequence[Facet]
) -> list[tuple[str, list[dict[str, object]]]]:
    """Return the values that narrow the search, by the label of their field."""
    names = names_of(store, [value for facet in facets for value, _ in facet.counts])
    fields: list[tuple[str, list[dict[str, object]]]] = []
    for (key, (_, label)), facet in zip(_NARROWED_BY.items(), facets, strict=True):
        others = {name: value for name, value in chosen.items() if name != key}
        choices = [
            {
                "label": kind_name(value, plural=True) if key == "type" else names[value],
                "count": count,
                "href": _href(text, others if value == chosen.get(key) else others | {key: value}),
                "chosen": value == chosen.get(key),
            }
            for value, count in facet.counts
        ]
        if choices:
            fields.append((label, choices))
    return fields


def _hit_row(row: ListRow, hit: Hit, terms: Sequence[Term]) -> dict[str, object]:
    """Return a hit: its row, its name and the text of another match, both in pieces."""
    elsewhere = [(field, value) for field, value in hit.matched if field not in {"name", "urn"}]
    field, value = elsewhere[0] if elsewhere else ("description", row.description)
    if not value and "urn" in dict(hit.matched):
        field, value = "urn", row.urn
    return {
        "row": row,
        "name": marks(row.name, terms),
        "field": _FIELD_LABELS.get(field, field) if value else "",
        "snippet": _snippet(value, terms),
    }


def _snippet(text: str, terms: Sequence[Term]) -> Pieces:
    """Return the part of a text around its first mark, in pieces."""
    pieces = marks(" ".join(text.split()), terms)
    before = pieces[0][0] if pieces and not pieces[0][1] else ""
    skip = max(0, len(before) - _SNIPPET_LEAD) if len(pieces) > 1 else 0
    shown: list[tuple[str, bool]] = [("…", False)] if skip else []
    left = _SNIPPET_CHARS
    for piece, marked in pieces:
        part = piece[skip : skip + left]
        skip = 0
        shown.append((part, marked))
        left -= len(part)
        if left <= 0:
            break
    return (*shown, ("…", False)) if left <= 0 else tuple(shown)
