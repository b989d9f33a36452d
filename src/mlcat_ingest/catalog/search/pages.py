"""Pages of the hits of a search: by rank, in the order of fields, or of a scroll.

By rank, the best match comes first. First come entities with that very name or URN, then those
whose name begins so. The others follow by the field that has all words, name before description
before tags before the rest, and within that by bm25. Metadata tests, which are named after what
they test, come behind the other hits of the same kind. That is affordable while a word is rare. Of
the hits of common words those in the name come first, each by age; so does a scroll, since nobody
else's writes can change that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    Text,
    and_,
    case,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, Select

from mlcat_ingest.catalog.schema.tables import (
    edge,
    entity,
    fts,
    indexed_text,
    keyword,
    member,
    searched,
)
from mlcat_ingest.catalog.search.fields import KEYWORD_FIELDS, field_name
from mlcat_ingest.catalog.search.numbers import join_number
from mlcat_ingest.catalog.search.predicates import NOWHERE, begins_with, matching, resolve
from mlcat_ingest.catalog.search.query import Term, all_of, up_to
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.search.selection import Selection, is_few
from mlcat_ingest.catalog.search.tokens import fold
from mlcat_ingest.metadata.aspects import TEST_RESULTS

# Of name, description, tags, properties, URN and keywords.
_WEIGHTS: Final = (10.0, 4.0, 2.0, 1.0, 1.0, 0.0)
RANKED: Final = 5_000
"""Most hits that are ranked by bm25, which costs some microseconds each."""

_TEST: Final = "test"
_MAX_NAMED: Final = 200  # entities that go first because their names begin as the query does

ADDED: Final = "_added"
"""The field to sort by when the catalog got an entity, whatever its source says."""

TESTS: Final = "tests"
"""The field to sort by how many metadata tests an entity fails."""

STAGE: Final = "stage"
"""The field to sort by those tags that are stages of MLflow."""

STAGE_TAG: Final = "urn:li:tag:mlflow_"
"""How the tags of stages begin."""

_COLUMNS: Final[Mapping[str, Column[Any]]] = {
    "urn": entity.c.urn,
    "name": searched.c.name,
    "created": searched.c.created_ms,
    "lastModified": searched.c.modified_ms,
    "_entityType": entity.c.entity_type,
}


def ranked_page(
    connection: Connection, request: SearchRequest, selection: Selection, text: str
) -> tuple[int, list[int]]:
    """Return how many entities are found, and the ids of a page of them, the best first.

    `text` is the text that the terms of the selection were parsed from.

    Cost: a handful of SQL statements, each one walk through the hits of the words at most.
    """
    named = _with_name(connection, text, selection)
    total = selection.total(connection)
    start = max(0, request.start - len(named))
    first = named[request.start : request.start + request.count]
    count = request.count - len(first)
    others = _by_weight if total <= RANKED else _by_age
    return total, first + others(connection, selection, named, start, count)


def _with_name(connection: Connection, text: str, selection: Selection) -> list[int]:
    """Return the ids of entities with that name or URN, then of those whose name begins so."""
    name = fold(text)
    query = (
        select(searched.c.id, indexed_text.c.name, entity.c.urn, entity.c.entity_type)
        .join(indexed_text, indexed_text.c.id == searched.c.id)
        .join(entity, entity.c.id == searched.c.id)
        .where(selection.filters)
        .order_by(searched.c.name, searched.c.id)
        .limit(_MAX_NAMED)
    )
    by_urn = connection.execute(query.where(entity.c.urn == text.strip())).all()
    by_name = connection.execute(query.where(begins_with(searched.c.name, name)))
    rows = [*by_urn, *sorted(by_name, key=lambda row: row.entity_type == _TEST)]
    # A column of the index is its tokens, parted by spaces.
    ids = [
        row.id
        for row in rows
        if row in by_urn or all(term.occurs_in(row.name.split(" ")) for term in selection.terms)
    ]
    return list(dict.fromkeys(ids))


def _by_weight(
    connection: Connection, selection: Selection, named: Sequence[int], start: int, count: int
) -> list[int]:
    """Return a page of few enough hits, by the field they were found in and by bm25."""
    rare = _rare(connection, selection.terms)
    if not rare:
        query = selection.query().order_by(selection.id)
    else:
        at = fts.c.rowid + 0
        everywhere = all_of(rare)
        within = [
            (at.in_(matching(up_to(columns, everywhere))), columns) for columns in range(1, 4)
        ]
        tests = resolve(connection, Criterion("_entityType", (_TEST,))).match
        is_test = at.in_(matching(tests or NOWHERE))
        weight = func.bm25(literal_column("search_fts"), *map(literal_column, map(str, _WEIGHTS)))
        query = matching(everywhere).where(at.in_(selection.query()))
        query = query.order_by(case(*within, else_=4), is_test, weight, fts.c.rowid)
    others = query.where((fts.c.rowid + 0).not_in(named))
    return list(connection.scalars(others.limit(count).offset(start)))


def _rare(connection: Connection, terms: Sequence[Term]) -> list[Term]:
    """Return the terms worth weighing: a word still being typed only if there is no other."""
    complete = [term for term in map(Term.complete, terms) if term is not None]
    return [term for term in complete or terms if is_few(connection, term.match())]


def _by_age(
    connection: Connection, selection: Selection, named: Sequence[int], start: int, count: int
) -> list[int]:
    page: list[int] = []
    for words in _halves(selection):
        query = selection.query(words=words).where(selection.id.not_in(named))
        wanted = count - len(page)
        ids = list(connection.scalars(query.order_by(selection.id).limit(wanted).offset(start)))
        page += ids
        if len(page) == count:
            break
        if start and not ids:
            size = selection.query(func.count(), words=words).where(selection.id.not_in(named))
            start -= connection.scalar(size) or 0
        elif ids:
            start = 0
    return page


def _halves(selection: Selection) -> tuple[str, str]:
    """Return the expressions for hits of all words in the name, and for the others."""
    everywhere = all_of(selection.terms)
    in_name = up_to(1, everywhere)
    return in_name, f"({everywhere}) NOT ({in_name})"


def scrolled_page(
    connection: Connection, request: SearchRequest, selection: Selection
) -> tuple[list[int], str | None]:
    """Return the ids of a page of a scroll, and where the next one begins."""
    first, after = (0, 0) if request.after is None else request.place(2)
    hits: list[tuple[int, int]] = []
    for half, words in enumerate(_halves(selection)):
        if half >= first:
            query = selection.query(words=words).order_by(selection.id)
            if half == first:
                query = query.where(selection.id > after)
            wanted = request.count + 1 - len(hits)
            hits += [(half, at) for at in connection.scalars(query.limit(wanted))]
    page = hits[: request.count]
    more = len(hits) > len(page) and page
    return [at for _, at in page], request.cursor(page[-1]) if more else None


class _Key(NamedTuple):
    column: ColumnElement[Any]
    descending: bool = False

    def order(self) -> ColumnElement[Any]:
        return self.column.desc() if self.descending else self.column.asc()

    def beyond(self, value: Any) -> ColumnElement[bool]:
        condition: ColumnElement[bool] = (
            self.column < value if self.descending else self.column > value
        )
        return condition


def sorted_page(
    connection: Connection, request: SearchRequest, selection: Selection
) -> tuple[list[int], str | None]:
    """Return the ids of a page, in the order of `request.sort` and then of age, and its scroll id.

    A page that goes on from a scroll id begins behind the values of the last entity, so what is
    written in between neither repeats nor hides an entity that stayed as it was.
    """
    query = selection.query(joined=bool(request.sort))
    keys: list[_Key] = []
    for sort in request.sort:
        query, more = _join_sort(connection, query, sort, selection)
        keys += more
    newest_first = any(sort.field == ADDED and sort.descending for sort in request.sort)
    keys.append(_Key(selection.id, newest_first))
    query = query.with_only_columns(*(key.column for key in keys))
    if request.after is not None:
        query = query.where(_behind(keys, request.place(len(keys))))
    ordered = query.order_by(*(key.order() for key in keys))
    rows = connection.execute(ordered.limit(request.count + 1).offset(request.start)).all()
    page = rows[: request.count]
    goes_on = len(rows) > len(page) and page
    return [row[-1] for row in page], request.cursor(page[-1]) if goes_on else None


def _join_sort(
    connection: Connection, query: Select[Any], sort: SortKey, selection: Selection
) -> tuple[Select[Any], list[_Key]]:
    """Return `query`, joined to the table of a sort key, and its keys; unknown fields have none."""
    field, name = field_name(sort.field)
    column = _COLUMNS.get(field)
    if column is not None:
        if column.table is not searched:
            named = entity.alias()
            query = query.join(named, named.c.id == selection.id)
            column = named.c[column.name]
        return query, [_Key(column, sort.descending)]
    values: ColumnElement[Any]
    if name is not None:
        query, values = join_number(connection, query, selection, sort.field)
    elif field == TESTS:
        values = _failing_tests(selection.id)
    elif field == STAGE:
        query, values = _join_keyword(query, "tags", begins_with(keyword.c.value, STAGE_TAG))
    elif field in KEYWORD_FIELDS:
        query, values = _join_keyword(query, field, true())
    else:
        return query, []
    # What is no finite number, and then entities without any, come last whichever way others go.
    missing = case((values.is_(None), 2), (values >= literal("", Text), 1), else_=0)
    return query, [_Key(missing), _Key(values, sort.descending)]


def _join_keyword(
    query: Select[Any], field: str, condition: ColumnElement[bool]
) -> tuple[Select[Any], ColumnElement[Any]]:
    """Return `query`, joined to such keywords of a field, and the first one of each entity."""
    first = (
        select(member.c.profile_id, func.min(keyword.c.value).label("value"))
        .join(keyword, keyword.c.id == member.c.keyword_id)
        .where(keyword.c.field == field, condition)
        .group_by(member.c.profile_id)
        .subquery()
    )
    return query.outerjoin(first, first.c.profile_id == searched.c.profile_id), first.c.value


def _failing_tests(entity_id: ColumnElement[int]) -> ColumnElement[Any]:
    """Return how many metadata tests an entity fails; null if it has none."""
    failing = func.sum(case((edge.c.relationship == "IsFailing", 1), else_=0))
    of_tests = (edge.c.source_id == entity_id, edge.c.aspect == TEST_RESULTS)
    return select(failing).where(*of_tests).scalar_subquery()


def _behind(keys: Sequence[_Key], place: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition on whatever comes after `place` in the order of `keys`."""
    options = [
        and_(
            *(same.column.is_(value) for same, value in zip(keys[:at], place, strict=False)),
            key.beyond(place[at]) if place[at] is not None else false(),
        )
        for at, key in enumerate(keys)
    ]
    return or_(*options)
