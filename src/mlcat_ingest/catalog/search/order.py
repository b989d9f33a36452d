"""Pages in the order of fields, or by age; each can be gone on from while others write."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, and_, case, false, or_, select

from mlcat_ingest.catalog.schema.search_tables import figure, keyword, searched
from mlcat_ingest.catalog.schema.tables import entity
from mlcat_ingest.catalog.search.names import field_name
from mlcat_ingest.catalog.search.request import SearchRequest, SortKey
from mlcat_ingest.catalog.search.scroll import read_cursor, write_cursor
from mlcat_ingest.catalog.search.selection import Selection

ADDED: Final = "_added"
"""The field to sort by what the catalog has had for how long, whatever its source says."""

_COLUMNS: Final[Mapping[str, Column[Any]]] = {
    "urn": entity.c.urn,
    "name": searched.c.name,
    "created": searched.c.created_ms,
    "lastModified": searched.c.modified_ms,
    "_entityType": entity.c.entity_type,
}


class _Key(NamedTuple):
    column: ColumnElement[Any]
    descending: bool = False

    def order(self) -> ColumnElement[Any]:
        return self.column.desc() if self.descending else self.column.asc()

    def beyond(self, value: Any) -> ColumnElement[bool]:
        compare: ColumnElement[bool] = (
            self.column < value if self.descending else self.column > value
        )
        return compare


def sorted_page(
    connection: Connection, request: SearchRequest, selection: Selection
) -> tuple[list[int], str | None]:
    """Return the ids of a page, in the order of `request.sort` and then of age, and its scroll id.

    A page that goes on from a scroll id begins behind the values of the last entity, so what is
    written in between neither repeats nor hides an entity that stayed as it was.
    """
    query = selection.query(joined=bool(request.sort))
    keys: list[_Key] = []
    for one in request.sort:
        query, more = _sorted_by(connection, query, one, selection)
        keys += more
    newest_first = any(one.field == ADDED and one.descending for one in request.sort)
    keys.append(_Key(selection.id, newest_first))
    query = query.with_only_columns(*(key.column for key in keys))
    if request.after is not None:
        query = query.where(_behind(keys, read_cursor(request, len(keys))))
    ordered = query.order_by(*(key.order() for key in keys))
    rows = connection.execute(ordered.limit(request.count + 1).offset(request.start)).all()
    page = rows[: request.count]
    goes_on = len(rows) > len(page) and page
    return [row[-1] for row in page], write_cursor(request, page[-1]) if goes_on else None


def _sorted_by(
    connection: Connection, query: Select[Any], sort: SortKey, selection: Selection
) -> tuple[Select[Any], list[_Key]]:
    """Return `query`, joined to what it is sorted by, and the keys; unknown fields have none."""
    field, name = field_name(sort.field)
    if name is None:
        column = _COLUMNS.get(field)
        if column is None:
            return query, []
        if column.table is not searched:
            named = entity.alias()
            query = query.join(named, named.c.id == selection.id)
            column = named.c[column.name]
        return query, [_Key(column, sort.descending)]
    number = connection.scalar(
        select(keyword.c.id).where(keyword.c.field == field, keyword.c.value == name)
    )
    held = figure.alias()
    its_own = and_(held.c.keyword_id == number, held.c.entity_id == selection.id)
    # Entities without such a figure come last, whichever way the others go.
    missing = case((held.c.value.is_(None), 1), else_=0)
    return query.outerjoin(held, its_own), [_Key(missing), _Key(held.c.value, sort.descending)]


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
