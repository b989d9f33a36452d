"""Reading and deleting the events of timeseries aspects."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement

from mlcat_ingest.catalog.schema.tables import entity, timeseries
from mlcat_ingest.catalog.schema.values import TimeseriesEvent
from mlcat_ingest.catalog.store.reads import count_rows
from mlcat_ingest.metadata.codec import loads

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
        conditions = [timeseries.c.aspect == self.aspect]
        if self.start_ms is not None:
            conditions.append(timeseries.c.timestamp_ms >= self.start_ms)
        if self.end_ms is not None:
            conditions.append(timeseries.c.timestamp_ms <= self.end_ms)
        return conditions


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
