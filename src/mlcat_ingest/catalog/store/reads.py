"""Questions to the tables, each a bounded number of SQL statements; and events of timeseries."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, exists, func, literal, or_, select, tuple_
from sqlalchemy.engine import Connection, Row
from sqlalchemy.sql.expression import ColumnElement, FromClause, Select

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import NAMES
from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, edge, entity, timeseries
from mlcat_ingest.catalog.schema.values import (
    AspectVersion,
    DeletionResult,
    Direction,
    EdgeQuery,
    RelatedEntity,
    RelatedPage,
    TimeseriesEvent,
    UrnPage,
)
from mlcat_ingest.catalog.schema.virtual import DEFAULT_VERSION, DEFAULTED, default_aspect
from mlcat_ingest.catalog.store.rows import distinct_chunks
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.registry import key_aspect, key_aspect_name

_EVENTS_OF_ENTITIES: Final = timeseries.join(entity, entity.c.id == timeseries.c.entity_id)
_KEY = (
    timeseries.c.entity_id,
    timeseries.c.aspect,
    timeseries.c.timestamp_ms,
    timeseries.c.identity,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A time span of an aspect's events: milliseconds UTC, both ends included; None is open."""

    aspect: str
    start_ms: int | None = None
    end_ms: int | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what holds of the rows in the span."""
        at_ms, start_ms, end_ms = timeseries.c.timestamp_ms, self.start_ms, self.end_ms
        conditions = [timeseries.c.aspect == self.aspect]
        conditions += [] if start_ms is None else [at_ms >= start_ms]
        return conditions + ([] if end_ms is None else [at_ms <= end_ms])


def read_events(
    connection: Connection, urn: str, span: Span, limit: int
) -> tuple[TimeseriesEvent, ...]:
    """Return the newest `limit` events of an entity within `span`, the newest first.

    Cost: one SQL statement.
    """
    query = (
        select(timeseries.c.timestamp_ms, timeseries.c.value, timeseries.c.system_metadata)
        .select_from(_EVENTS_OF_ENTITIES)
        .where(entity.c.urn == urn, *span.conditions())
        .order_by(timeseries.c.timestamp_ms.desc(), timeseries.c.modified_ms.desc())
    )
    return tuple(
        TimeseriesEvent(at, loads(value), loads(metadata) if metadata else {})
        for at, value, metadata in connection.execute(query.limit(limit))
    )


def count_events(connection: Connection, entity_type: str, span: Span) -> int:
    """Return how many events within `span` the entities of one type have."""
    of_type = entity.c.entity_type == entity_type
    return count_rows(connection, _EVENTS_OF_ENTITIES, of_type, *span.conditions())


def delete_events(connection: Connection, urn: str, span: Span) -> int:
    """Delete the events of one entity within `span`; return how many those were."""
    of_urn = select(entity.c.id).where(entity.c.urn == urn).scalar_subquery()
    gone = delete(timeseries).where(timeseries.c.entity_id == of_urn, *span.conditions())
    return connection.execute(gone).rowcount


def truncate_batch(connection: Connection, entity_type: str, span: Span, at_most: int) -> int:
    """Delete events within `span` of the entities of one type, `at_most` so many of them.

    Returns how many those were: fewer than `at_most` once all are gone.
    """
    of_type = entity.c.entity_type == entity_type
    keys = select(*_KEY).select_from(_EVENTS_OF_ENTITIES).where(of_type, *span.conditions())
    events = delete(timeseries).where(tuple_(*_KEY).in_(keys.limit(at_most)))
    return connection.execute(events).rowcount


# In the order of the fields of `AspectVersion`.
_VALUE_COLUMNS = (
    "value",
    "version",
    "created_ms",
    "created_by",
    "modified_ms",
    "modified_by",
    "system_metadata",
)


_other = entity.alias("other")

ASPECTS_OF_ENTITIES: Final = aspect.join(entity, entity.c.id == aspect.c.entity_id)


def marked_removed(entity_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """SQL condition: the entity is soft-deleted."""
    # Values are stored as compact JSON, so this needs no JSON functions of the database.
    return exists().where(
        aspect.c.entity_id == entity_id,
        aspect.c.aspect == STATUS,
        aspect.c.value.like('%"removed":true%'),
    )


def _with_aspects(*conditions: ColumnElement[bool], values: bool = True) -> Select[Any]:
    """Return the query for the entities `urns` with those of their aspects that hold.

    Without `values` the largest column is not read, and each value is an empty object.
    """
    value = aspect.c.value if values else literal("{}").label("value")
    joined = and_(aspect.c.entity_id == entity.c.id, *conditions)
    return (
        select(
            entity.c.urn,
            entity.c.entity_type,
            entity.c.created_ms.label("entity_ms"),
            entity.c.created_by.label("entity_by"),
            aspect.c.aspect,
            value,
            *(aspect.c[name] for name in _VALUE_COLUMNS[1:]),
        )
        .select_from(entity.outerjoin(aspect, joined))
        .where(entity.c.urn.in_(bindparam("urns", expanding=True)))
        .order_by(entity.c.id, aspect.c.aspect)
    )


# Every read asks these; building them takes longer than their answers do.
_ALL_ASPECTS = _with_aspects()
_NAMED = aspect.c.aspect.in_(bindparam("names", expanding=True))
_SOME_ASPECTS = _with_aspects(_NAMED)
_SOME_VERSIONS = _with_aspects(_NAMED, values=False)


def get_many(
    connection: Connection,
    urns: Collection[str],
    names: Collection[str] | None,
    *,
    values: bool = True,
) -> dict[str, dict[str, AspectVersion]]:
    """Return the aspects of `urns` (those named, or all), default aspects among them.

    Of named ones the `values` may be left out: they are empty objects then.
    """
    some = _SOME_ASPECTS if values else _SOME_VERSIONS
    query = _ALL_ASPECTS if names is None else some
    named = {} if names is None else {"names": _sorted_names(names, "aspects")}
    by_urn: dict[str, dict[str, AspectVersion]] = {}
    for chunk in distinct_chunks(urns):
        for row in connection.execute(query, {"urns": chunk, **named}):
            aspects = by_urn.get(row.urn)
            if aspects is None:
                aspects = by_urn[row.urn] = dict(_virtual(row, names))
            if row.aspect is not None:
                aspects[row.aspect] = AspectVersion(*row[-len(_VALUE_COLUMNS) :])
    return by_urn


def existing(connection: Connection, urns: Collection[str]) -> set[str]:
    """Return those of `urns` that exist."""
    query = select(entity.c.urn).where(entity.c.urn.in_(bindparam("urns", expanding=True)))
    return {
        urn for chunk in distinct_chunks(urns) for urn in connection.scalars(query, {"urns": chunk})
    }


def _sorted_names(names: Collection[str], what: str) -> list[str]:
    """Return `names` in order.

    Raises:
        BadRequestError: there are more than one statement takes.
    """
    if len(names) > NAMES:
        raise BadRequestError(f"more than {NAMES:,} names of {what}")
    return sorted(names)


def _virtual(row: Row[Any], names: Collection[str] | None) -> Iterator[tuple[str, AspectVersion]]:
    """Yield what an entity has without its being stored; stored rows take its place."""
    made = (row.entity_ms, row.entity_by)
    key_name, key = key_aspect_name(row.entity_type), None
    if names is None or key_name in names:
        key = key_aspect(row.urn)[1]
        yield key_name, _default_version(key, made)
    for name in DEFAULTED:
        if names is None or name in names:
            value = default_aspect(row.urn, row.entity_type, name, key)
            if value is not None:
                yield name, _default_version(value, made)


def _default_version(value: Mapping[str, Any], made: tuple[int, str]) -> AspectVersion:
    return AspectVersion(dumps(value).decode(), DEFAULT_VERSION, *made, *made)


def get_version(connection: Connection, urn: str, name: str, version: int) -> AspectVersion | None:
    """Return one version of an aspect, 0 being the latest; None where there is none."""
    latest = get_many(connection, [urn], [name]).get(urn, {}).get(name)
    if version == 0 or (latest is not None and latest.version == version):
        return latest
    query = (
        select(*(aspect_history.c[column] for column in _VALUE_COLUMNS))
        .join(entity, entity.c.id == aspect_history.c.entity_id)
        .where(
            entity.c.urn == urn,
            aspect_history.c.aspect == name,
            aspect_history.c.version == version,
        )
    )
    row = connection.execute(query).first()
    if row is not None or version != DEFAULT_VERSION:
        return None if row is None else AspectVersion(*row)
    # The default that the aspect was before anybody wrote it.
    known = select(entity.c.entity_type, entity.c.created_ms, entity.c.created_by)
    row = connection.execute(known.where(entity.c.urn == urn)).first()
    value = None if row is None else default_aspect(urn, row.entity_type, name)
    return None if row is None or value is None else _default_version(value, (row[1], row[2]))


def related_entities(
    connection: Connection, urns: Collection[str], query: EdgeQuery
) -> dict[str, RelatedPage]:
    """Return a page of edges for each of `urns`."""
    incoming = query.direction is Direction.INCOMING
    here, there = (
        (edge.c.destination, entity.c.urn) if incoming else (entity.c.urn, edge.c.destination)
    )
    order = (edge.c.source_id, edge.c.relationship) if incoming else (edge.c.relationship, there)
    totals: dict[str, int] = {}
    entities: dict[str, list[RelatedEntity]] = {urn: [] for urn in urns}
    for chunk in distinct_chunks(urns):
        edges = (
            select(here.label("here"), there.label("there"), edge.c.relationship)
            .join(entity, entity.c.id == edge.c.source_id)
            .where(here.in_(chunk))
            .group_by(here, there, edge.c.relationship, edge.c.source_id)
        )
        if query.relationships is not None:
            names = _sorted_names(query.relationships, "relationships")
            edges = edges.where(edge.c.relationship.in_(names))
        if not query.include_removed:
            edges = edges.outerjoin(_other, _other.c.urn == there)
            edges = edges.where(~marked_removed(_other.c.id))
        for row in connection.execute(page_of_each(edges, here, order, query.start, query.count)):
            totals[row.here] = row.total
            if query.start < row.at <= query.start + query.count:
                entities[row.here].append(RelatedEntity(row.there, row.relationship))
    return {urn: RelatedPage(totals.get(urn, 0), tuple(page)) for urn, page in entities.items()}


def page_of_each(
    rows: Select[Any], here: ColumnElement[Any], order: tuple[Any, ...], start: int, count: int
) -> Select[Any]:
    """Return a page of `rows` for each value of `here`, with their number `at` and their `total`.

    The first row is always there: it carries the total of a page beyond the end.
    """
    numbered = rows.add_columns(
        func.row_number().over(partition_by=here, order_by=order).label("at"),
        func.count().over(partition_by=here).label("total"),
    ).subquery()
    in_page = and_(numbered.c.at > start, numbered.c.at <= start + count)
    return select(numbered).where(or_(in_page, numbered.c.at == 1)).order_by("here", "at")


def list_urns(connection: Connection, entity_type: str, start: int, count: int) -> UrnPage:
    """Return a page of the URNs of one entity type, the oldest entity first."""
    of_type = entity.c.entity_type == entity_type
    total = count_rows(connection, entity, of_type)
    query = select(entity.c.urn).where(of_type).order_by(entity.c.id)
    return UrnPage(total, tuple(connection.scalars(query.offset(start).limit(count))))


def count_entity_rows(connection: Connection, urn: str) -> DeletionResult:
    """Return what deleting an entity would take."""
    entity_id = connection.scalar(select(entity.c.id).where(entity.c.urn == urn))
    if entity_id is None:
        return DeletionResult()
    return DeletionResult(
        1 + count_rows(connection, aspect, aspect.c.entity_id == entity_id),
        count_rows(connection, timeseries, timeseries.c.entity_id == entity_id),
    )


def count_rows(connection: Connection, rows: FromClause, *conditions: ColumnElement[bool]) -> int:
    """Return how many of `rows` satisfy all `conditions`."""
    return connection.scalar(select(func.count()).select_from(rows).where(*conditions)) or 0
