"""The page of a search: what is found, why, and what it can be narrowed to; and suggestions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from mlcat_ingest.catalog.search.highlight import marks
from mlcat_ingest.catalog.search.query_text import parse_query
from mlcat_ingest.catalog.search.request import Criterion, Facet, Hit, SearchRequest
from mlcat_ingest.catalog.search.words import Term
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.rows import (
    PAGE_ROWS,
    ListRow,
    Pager,
    names_of,
    pager,
    rows_of,
)
from mlcat_ingest.catalog.web.ui.text import kind_name

_NARROWED_BY: Final[Mapping[str, tuple[str, str]]] = {
    "type": ("_entityType", "Kind"),
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
    "customProperties": "Property",
    "tags": "Tag",
    "owners": "Owner",
    "glossaryTerms": "Glossary term",
    "domains": "Domain",
    "urn": "URN",
}

Pieces = tuple[tuple[str, bool], ...]
"""A text in pieces, each with whether it is marked."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value to narrow a search to, or to widen it again where it is `chosen`."""

    label: str
    count: int
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """The values of one field."""

    label: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One entity that was found: its name and where else words were hit, in pieces."""

    row: ListRow
    name: Pieces
    field: str
    snippet: Pieces


@dataclass(frozen=True, slots=True)
class SearchView:
    """The page of a search."""

    search: str
    rows: tuple[FoundRow, ...]
    pager: Pager
    choices: tuple[Choices, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An entity that is offered while somebody types."""

    name: str
    kind: str
    href: str


def search_view(store: Store, text: str, query: Mapping[str, str], start: int) -> SearchView:
    """Return a page of what a search for `text` finds, narrowed by the parameters in `query`.

    Cost: that of a search with facets, and two SQL statements.
    """
    chosen = {key: query[key] for key in _NARROWED_BY if query.get(key)}
    page = store.search(
        SearchRequest(
            text,
            any_of=(tuple(Criterion(_NARROWED_BY[key][0], (chosen[key],)) for key in chosen),),
            start=start,
            count=PAGE_ROWS,
            facets=tuple(field for field, _ in _NARROWED_BY.values()),
            facet_values=_CHOICES,
        )
    )
    terms = parse_query(text).terms
    rows = rows_of(store, [hit.urn for hit in page.hits])
    return SearchView(
        search=text,
        rows=tuple(_found(row, hit, terms) for row, hit in zip(rows, page.hits, strict=True)),
        pager=pager(page.total, start, len(rows), lambda at: _href(text, chosen, start=at)),
        choices=_choices(store, text, chosen, page.facets),
    )


def suggestions(store: Store, text: str) -> list[Suggestion]:
    """Return the best of what a search for `text` finds, to be offered while it is typed."""
    if not text:
        return []
    page = store.search(SearchRequest(text, count=_SUGGESTIONS, highlight=False))
    rows = rows_of(store, [hit.urn for hit in page.hits])
    return [Suggestion(row.name, row.kind, row.href) for row in rows]


def _href(text: str, chosen: Mapping[str, str], **more: int) -> str:
    said = {"q": text, **chosen, **more}
    return f"/search?{urlencode(said, errors='replace')}"


def _choices(
    store: Store, text: str, chosen: Mapping[str, str], facets: Sequence[Facet]
) -> tuple[Choices, ...]:
    names = names_of(store, [value for facet in facets for value, _ in facet.counts])
    found: list[Choices] = []
    for (key, (field, label)), facet in zip(_NARROWED_BY.items(), facets, strict=True):
        others = {name: value for name, value in chosen.items() if name != key}
        choices = tuple(
            Choice(
                kind_name(value, plural=True) if field == "_entityType" else names[value],
                count,
                _href(text, others if value == chosen.get(key) else {**others, key: value}),
                chosen=value == chosen.get(key),
            )
            for value, count in facet.counts
        )
        if choices:
            found.append(Choices(label, choices))
    return tuple(found)


def _found(row: ListRow, hit: Hit, terms: Sequence[Term]) -> FoundRow:
    elsewhere = [(field, value) for field, value in hit.matched if field not in {"name", "urn"}]
    field, value = elsewhere[0] if elsewhere else ("description", row.description)
    if not value and "urn" in dict(hit.matched):
        field, value = "urn", row.urn
    return FoundRow(
        row=row,
        name=tuple(marks(row.name, terms)),
        field=_FIELD_LABELS.get(field, field) if value else "",
        snippet=_snippet(value, terms),
    )


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
