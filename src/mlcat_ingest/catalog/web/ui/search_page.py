"""The search page: hits with their highlights, choices that narrow, and suggestions.

The address holds the view: `q`, the choices, `sort` (`-` before it reverses), `start`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated, Final
from urllib.parse import urlencode

from mlcat_ingest.catalog.errors import BadRequestError, UnknownFieldError
from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.search.fields import field_name
from mlcat_ingest.catalog.search.language import ReadQuery, combine, read_query
from mlcat_ingest.catalog.search.query import Term, parse_query
from mlcat_ingest.catalog.search.request import (
    MATCH_ALL,
    Alternatives,
    Criterion,
    Facet,
    Hit,
    SearchRequest,
    SortKey,
)
from mlcat_ingest.catalog.search.search import hits, marks, unknown_number
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.directions import METRICS, Directions
from mlcat_ingest.catalog.web.ui.lists import (
    NEWEST_FIRST,
    ONE_PAGE,
    PAGE_ROWS,
    ListRow,
    Pager,
    model_rows,
    names_of,
    pager,
    rows_of,
)
from mlcat_ingest.catalog.web.ui.markdown import plain_line
from mlcat_ingest.catalog.web.ui.text import entity_type, kind_name, subtype_name, visible

_NARROWED_BY: Final[Mapping[str, tuple[str, str]]] = {
    "type": ("_entityType", "Type"),
    "kind": ("typeNames", "Kind"),
    "group": ("groups", "Group"),
    "status": ("status", "Status"),
    "alias": ("aliases", "Alias"),
    "tests": ("tests", "Metadata tests"),
    "owner": ("owners", "Owner"),
    "tag": ("tags", "Tag"),
    "platform": ("platform", "Platform"),
}
"""Parameter of the page to the field it filters on and to the heading of its choices."""

_LABELS: Final[Mapping[str, Callable[[str], str]]] = {
    "type": partial(kind_name, plural=True),
    "kind": subtype_name,
}
"""What makes the label of a choice, for fields whose values are no names of entities."""

_NEWEST: Final = "-created"
_BEST_MATCH: Final = "match"
_CHOICES: Final = 8
_MEASURED: Final = 4
"""Most metrics and parameters that a hit shows: those that were searched for."""
_SUGGESTIONS: Final = 8
_SNIPPETS: Final = 3
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
    "properties.tags": "Tag",
    "aliases": "Alias",
    "version": "Version",
    "typeNames": "Kind",
    "title": "Title",
    "links": "Link",
    "text": "Contents",
    "apis": "Tool",
}
_JSON: Final = re.compile(r"\s*[\[{]")
_JSON_SIGNS: Final = re.compile(r"[\[\]{}\"\\]+")
_BEFORE_SIGN: Final = re.compile(r" ([,:])")

Pieces = Sequence[tuple[str, bool]]
"""A text in pieces, each with whether it is marked."""


@dataclass(frozen=True, slots=True)
class _Found:
    """An entity that was found."""

    row: ListRow
    name: Pieces
    snippets: Annotated[Sequence[tuple[str, Pieces]], "labels and texts of other matches"]
    measured: Annotated[Sequence[tuple[str, str]], "metrics and parameters of the search"]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value that narrows a search; a chosen one leads back."""

    label: str
    count: int
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class _SearchView:
    """A page of what a search finds."""

    problem: Annotated[str, "why nothing is found"] = ""
    rows: Sequence[_Found] = ()
    pager: Pager = ONE_PAGE
    choices: Annotated[Sequence[tuple[str, Sequence[_Choice]]], "by the labels of fields"] = ()
    orders: Annotated[Sequence[tuple[str, str, bool]], "labels, addresses; true: this one"] = ()
    full_scan: Annotated[bool, "whether every entity was compared"] = False


def search_view(store: Store, text: str, query: Mapping[str, str], start: int) -> _SearchView:
    """Return a page of what a search for `text` finds, narrowed by the parameters in `query`.

    Without a `sort` among them the best match is first, of a search without words the best value of
    the first metric or parameter in it, or else the newest entity.

    Cost: that of a search with facets, and a handful of SQL statements.
    """
    chosen = {key: query[key] for key in (*_NARROWED_BY, "sort") if query.get(key)}
    narrowed = tuple(
        Criterion(field, (chosen[key],))
        for key, (field, _) in _NARROWED_BY.items()
        if key in chosen
    )
    try:
        words, any_of = read_query(text, strict=True)
        columns = _numbers_in(any_of)
        orders = _orders(words, columns)
        order = chosen.get("sort") or next(iter(orders))
        sort = _sort_keys(order)
        page = store.search(
            SearchRequest(
                words,
                any_of=combine(any_of or ((),), (narrowed,)),
                sort=sort,
                start=start,
                count=PAGE_ROWS,
                facets=tuple(field for field, _ in _NARROWED_BY.values()),
                facet_values=_CHOICES,
            )
        )
    except BadRequestError as error:
        return _SearchView(error.message)
    terms = parse_query(words).terms
    rows = model_rows(store, [hit.urn for hit in page.hits])
    matched = dict.fromkeys(value for hit in page.hits for _, value in hit.matched)
    names = names_of(store, [value for value in matched if entity_type(value)])
    return _SearchView(
        "" if page.total else store.read(unknown_number, any_of),
        [
            _Found(
                row,
                marks(row.name, terms),
                _snippets(row, hit, terms, names),
                [
                    (column.partition(".")[2], row.shown(column))
                    for column in columns[:_MEASURED]
                    if column in row.numbers
                ],
            )
            for row, hit in zip(rows, page.hits, strict=True)
        ],
        pager(page.total, start, len(rows), lambda at: _href(text, chosen, start=at)),
        _choices(store, text, chosen, page.facets, page.total),
        [
            (label, _href(text, chosen | {"sort": key}), key == order)
            for key, label in orders.items()
        ],
        page.full_scan,
    )


def _numbers_in(any_of: Alternatives) -> list[str]:
    """Return the metrics and parameters that a search names, each once: `metrics.auc`."""
    names = (field_name(criterion.field) for criterion in chain.from_iterable(any_of))
    return list(dict.fromkeys(name.column for name in names if name.name is not None))


def _orders(words: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the orders to choose from, with their labels, the usual one first.

    Those by a metric of which nothing says what is better come last.
    """
    known = {} if words == MATCH_ALL else {_BEST_MATCH: "best match"}
    unknown: dict[str, str] = {}
    directions = Directions()
    for column in columns[:_MEASURED]:
        name = column.partition(".")[2] or column
        both = [(f"-{column}", f"{name}, highest first"), (column, f"{name}, lowest first")]
        direction = directions.of(column)
        if column.startswith(METRICS) and direction is None:
            unknown |= both
        else:
            known |= both if direction is not None and not direction.less else reversed(both)
    return known | {_NEWEST: "newest first"} | unknown


def _sort_keys(order: str) -> tuple[SortKey, ...]:
    if order in {_BEST_MATCH, _NEWEST}:
        return NEWEST_FIRST if order == _NEWEST else ()
    field = order.removeprefix("-")
    if field_name(field).name is None:
        raise BadRequestError(f"sort: no metric or parameter `{field}`")
    return (SortKey(field, order.startswith("-")),)


def suggestions(store: Store, text: str) -> list[dict[str, str]]:
    """Return the best of what a search for `text` finds, to be offered while it is typed.

    Of a text with an unknown field it is the sentence about that.
    """
    if not text:
        return []
    try:
        words, any_of = read_query(text, strict=True)
    except UnknownFieldError as error:
        return [{"name": error.message, "kind": "", "place": "", "href": _href(text, {})}]
    except BadRequestError:
        words, any_of = ReadQuery(text)  # it is not finished yet
    request = SearchRequest(words, any_of=any_of, count=_SUGGESTIONS, highlight=False)
    page = store.search(request)
    rows = rows_of(store, [hit.urn for hit in page.hits])
    return [
        {
            "name": visible(row.name),
            "kind": row.kind,
            "place": visible(row.place),
            "href": row.href,
        }
        for row in rows
    ]


def _href(text: str, chosen: Mapping[str, str], **more: int) -> str:
    query = urlencode({"q": text, **chosen, **more}, errors="replace")
    return f"/search?{query}"


def _choices(
    store: Store, text: str, chosen: Mapping[str, str], facets: Sequence[Facet], total: int
) -> list[tuple[str, list[_Choice]]]:
    """Return the values that narrow the search, by the label of their field.

    A chosen one is there even if the values of its field are not counted.
    """
    values = [value for facet in facets for value, _ in facet.counts]
    named = {value for value in (*values, *chosen.values()) if entity_type(value)}
    names = _distinct_names(store, sorted(named))
    fields: list[tuple[str, list[_Choice]]] = []
    for (key, (_, label)), facet in zip(_NARROWED_BY.items(), facets, strict=True):
        current = chosen.get(key)
        others = {name: value for name, value in chosen.items() if name != key}
        uncounted = [(current, total)] if current is not None else []
        choices = [
            _Choice(
                _LABELS[key](value) if key in _LABELS else names.get(value, value),
                count,
                _href(text, others if value == current else others | {key: value}),
                value == current,
            )
            for value, count in facet.counts or uncounted
        ]
        if choices:
            fields.append((label, choices))
    return fields


def _distinct_names(store: Store, urns: Sequence[str]) -> dict[str, str]:
    """Return the names of entities, with kind and place where several of a type have one name."""
    rows = rows_of(store, urns)
    counts = Counter((entity_type(row.urn), row.name) for row in rows)
    return {
        row.urn: f"{row.name} ({', '.join(filter(None, (row.kind, row.place)))})"
        if counts[entity_type(row.urn), row.name] > 1
        else row.name
        for row in rows
    }


def _snippets(
    row: ListRow, hit: Hit, terms: Sequence[Term], names: Mapping[str, str]
) -> list[tuple[str, Pieces]]:
    """Return the texts of a hit that match, but for its name, with their labels."""
    # A text for each of the words that are not in the name.
    left = [term for term in terms if not hits((term,), row.name)]
    shown: list[tuple[str, str]] = []
    for field, value in hit.matched:
        text = value if field == "urn" else _readable(value, terms, names)
        if found := [term for term in left if hits((term,), text)]:
            shown.append((field, text))
            left = [term for term in left if term not in found]
    if not shown and row.description:
        shown = [("description", row.description)]
    return [
        (
            _FIELD_LABELS.get(field, field),
            _snippet(value, terms, plain_line if field == "description" else _one_line),
        )
        for field, value in shown[:_SNIPPETS]
    ]


def _readable(text: str, terms: Sequence[Term], names: Mapping[str, str]) -> str:
    """Return a text with the name of what it refers to, and without the signs of JSON."""
    if (name := names.get(text)) is not None:
        return name if hits(terms, name) else f"{name} ({Identity.of(text).name})"
    key, sign, value = text.partition("=")
    start = f"{key}{sign}" if _JSON.match(value) else ""
    value = text.removeprefix(start)
    if not _JSON.match(value):
        return text
    return start + _BEFORE_SIGN.sub(r"\1", " ".join(_JSON_SIGNS.sub(" ", value).split()))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _snippet(text: str, terms: Sequence[Term], as_line: Callable[[str], str]) -> Pieces:
    """Return the part of a text around its first mark, as one line, in pieces."""
    pieces = marks(text, terms)
    before = pieces[0][0] if pieces and not pieces[0][1] else ""
    start = max(0, len(before) - _SNIPPET_LEAD) if len(pieces) > 1 else 0
    end = start + _SNIPPET_CHARS
    cut = ("…", False)
    shown = marks(as_line(text[start:end]), terms)
    return (*[cut][: bool(start)], *shown, *[cut][: end < len(text)])
