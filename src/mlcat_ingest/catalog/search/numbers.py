"""The metrics and parameters of the entities of a search: their names, and points for a chart."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, func, null, select, tuple_
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, Select

from mlcat_ingest.catalog.schema.tables import (
    entity,
    indexed_text,
    keyword,
    member,
    numeric_field,
    numeric_field_set,
    profile,
    searched,
)
from mlcat_ingest.catalog.search.fields import DURATION, FieldName, field_name
from mlcat_ingest.catalog.search.index import decode
from mlcat_ingest.catalog.search.query import parse_query
from mlcat_ingest.catalog.search.request import SearchRequest
from mlcat_ingest.catalog.search.selection import Selection, select_entities
from mlcat_ingest.metadata.mlflow_keys import PARENT_RUN

POINTS: Final = 500
"""Most points of a chart; of more entities the newest are shown."""

NAMES: Final = 1_000
"""Most metrics and parameters whose values are compared."""

_SAMPLE: Final = 50
_EXACT: Final = 2**53
"""What is as large may have been another number before it was rounded."""
_FIELDS: Final = ("metrics", "hyperParams", DURATION)


class Point(NamedTuple):
    """One entity of a chart; `z` is None where it has no such metric or parameter."""

    urn: str
    x: float
    y: float
    z: float | str | None


def join_number(
    connection: Connection, query: Select[Any], selection: Selection, field: str
) -> tuple[Select[Any], ColumnElement[Any]]:
    """Return `query`, joined to the values of a metric or parameter, and the column of these."""
    family, name = field_name(field)
    keyword_id = connection.scalar(
        select(keyword.c.id).where(keyword.c.field == family, keyword.c.value == name)
    )
    numbers = numeric_field.alias()
    own = and_(numbers.c.keyword_id == keyword_id, numbers.c.entity_id == selection.id)
    return query.outerjoin(numbers, own), numbers.c.value


class Holders(NamedTuple):
    """How many entities have a metric or parameter: of those that are no child runs, and of all."""

    outer: int
    all: int


class Contents(NamedTuple):
    """What the entities of a search have, and how many they are.

    `numbers` are their metrics and parameters, the duration of runs among them; `values` are those
    of each field asked for.
    """

    total: int
    numbers: Mapping[str, Holders]
    values: Mapping[str, Collection[str]]
    described: bool


def contents(connection: Connection, request: SearchRequest, fields: Collection[str]) -> Contents:
    """Return what found entities have; of `fields` only those that are keywords.

    Cost: a walk through all hits, one more until the first description, and one SQL statement.
    """
    selection = select_entities(connection, request, parse_query(request.query))
    columns = searched.c.profile_id, searched.c.figure_set_id
    hits = selection.query(*columns, func.count().label("entities"), joined=True)
    each = hits.group_by(*columns).subquery()
    with_parent = select(member.c.profile_id).join(keyword, keyword.c.id == member.c.keyword_id)
    is_child = each.c.profile_id.in_(with_parent.where(keyword.c.field == PARENT_RUN))
    sets = (
        select(profile.c.members, numeric_field_set.c.members, is_child, each.c.entities)
        .join(profile, profile.c.id == each.c.profile_id)
        .join(numeric_field_set, numeric_field_set.c.id == each.c.figure_set_id)
    )
    total = 0
    keywords: set[int] = set()
    counts: defaultdict[int, Holders] = defaultdict(lambda: Holders(0, 0))
    for members, numbers, child, entities in connection.execute(sets):
        total += entities
        keywords |= decode(members)
        for number in decode(numbers):
            outer, every = counts[number]
            counts[number] = Holders(outer + (0 if child else entities), every + entities)
    names: dict[str, Holders] = {}
    values: dict[str, set[str]] = {field: set() for field in fields}
    named = select(keyword).where(keyword.c.field.in_([*_FIELDS, *fields]))
    for number, field, value in connection.execute(named):
        if number in counts:
            names[FieldName(field, value).column] = counts[number]
        elif number in keywords:
            values[field].add(value)
    described = selection.query().join(indexed_text, indexed_text.c.id == selection.id)
    first = described.where(indexed_text.c.description != "").limit(1)
    is_described = connection.scalar(first) is not None
    return Contents(total, {name: names[name] for name in sorted(names)}, values, is_described)


def equal_values(
    connection: Connection, request: SearchRequest, names: Sequence[str]
) -> dict[str, tuple[float | str, str]]:
    """Return metrics and parameters of which found entities have one value: that, and a holder.

    The holder is the URN of one of these entities. Of `names` the first `NAMES` are looked at.
    Numbers so large that different ones are stored as one are equal to none.

    Cost: a walk through all hits, and a look-up for each number of theirs that a sample leaves.
    """
    selection = select_entities(connection, request, parse_query(request.query))
    fields = [field_name(name) for name in names[:NAMES]]
    named = select(keyword).where(tuple_(keyword.c.field, keyword.c.value).in_(fields))
    left = {row.id: FieldName(row.field, row.value).column for row in connection.execute(named)}
    at, value = numeric_field.c.entity_id, numeric_field.c.value
    low, high = func.min(value), func.max(value)

    def compared(entities: ColumnElement[bool], condition: ColumnElement[bool]) -> Iterable[Any]:
        columns = numeric_field.c.keyword_id, low.label("low"), func.min(at).label("holder")
        query = select(*columns).where(numeric_field.c.keyword_id.in_(left), entities)
        each = query.group_by(numeric_field.c.keyword_id).having(condition).subquery()
        with_urn = select(each.c.keyword_id, each.c.low, entity.c.urn)
        return connection.execute(with_urn.join(entity, entity.c.id == each.c.holder))

    for number, *_ in compared(at.in_(selection.query().limit(_SAMPLE)), low != high):
        del left[number]
    if not left:
        return {}
    span = selection.query(func.min(selection.id), func.max(selection.id), func.count())
    first, last, total = connection.execute(span).one()
    among: ColumnElement[bool] = at.in_(selection.query())
    if total and last - first < 2 * total:
        # Most entities in between are found: to read on is faster than to look up each.
        among = and_(at.between(first, last), (at + 0).in_(selection.query()))
    equal = compared(among, and_(low == high, func.count() > 1))
    return {
        left[number]: (found, holder)
        for number, found, holder in equal
        if isinstance(found, str) or abs(found) < _EXACT
    }


def points(
    connection: Connection, request: SearchRequest, y: str, x: str, z: str = ""
) -> tuple[int, int, Sequence[Point]]:
    """Return how many found entities have points, how many have none, and the newest points.

    `x` is a metric, a parameter, or `created`, in epoch milliseconds; `z` is a third number, or
    empty. An entity has no point if its value in `y` or `x` is not finite, or is a text.

    Cost: a walk through all hits.
    """
    selection = select_entities(connection, request, parse_query(request.query))
    query = selection.query(joined=True)
    columns: dict[str, ColumnElement[Any]] = {"": null(), "created": searched.c.created_ms}
    for name in (y, x, z):
        if name not in columns:
            query, columns[name] = join_number(connection, query, selection, name)
    most, both = sys.float_info.max, (columns[y], columns[x])
    # In SQLite every text is greater than every number.
    finite = and_(*(column.between(-most, most) for column in both))
    counts = func.count().over(), func.count().filter(finite).over()
    named = entity.alias()
    newest = (
        query.join(named, named.c.id == selection.id)
        .where(*(column.is_not(None) for column in both))
        .with_only_columns(*counts, finite, named.c.urn, columns[x], columns[y], columns[z])
        .order_by(finite.desc(), searched.c.created_ms.desc(), named.c.id.desc())
        .limit(POINTS)
    )
    rows = connection.execute(newest).all()
    every, total = rows[0][:2] if rows else (0, 0)
    return total, every - total, [Point(*row[3:]) for row in rows if row[2]]
