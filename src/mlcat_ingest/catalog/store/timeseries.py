"""Reading and deleting the events of timeseries aspects."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, select, tuple_, union_all

from mlcat_ingest.catalog.schema.tables import entity, timeseries
from mlcat_ingest.catalog.schema.values import TimeseriesEvent
from mlcat_ingest.catalog.store.reads import count_rows
from mlcat_ingest.catalog.store.rows import chunks
from mlcat_ingest.metadata.codec import loads

_SERIES_AT_ONCE: Final = 50
"""Most series that one SQL statement reads: SQLite takes at most 500 SELECTs in one."""

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
    connection: Connection, urns: Collection[str], span: Span, limit: int
) -> dict[str, tuple[TimeseriesEvent, ...]]:
    """Return the newest `limit` events of each of `urns` within `span`, the newest first.

    Cost: one SQL statement for each thousand URNs, and one for each 50 of them that exist.
    """
    query = select(entity.c.id, entity.c.urn)
    urns_by_id = {
        row.id: row.urn
        for chunk in chunks(urns)
        for row in connection.execute(query.where(entity.c.urn.in_(chunk)))
    }
    events: dict[str, list[TimeseriesEvent]] = {urn: [] for urn in urns}
    for ids in chunks(urns_by_id, _SERIES_AT_ONCE):
        newest = [
            select(timeseries)
            .where(timeseries.c.entity_id == entity_id, *span.conditions())
            .order_by(timeseries.c.timestamp_ms.desc(), timeseries.c.modified_ms.desc())
            .limit(limit)
            .subquery()
            for entity_id in ids
        ]
        for row in connection.execute(union_all(*(select(series) for series in newest))):
            events[urns_by_id[row.entity_id]].append(_event(row))
    return {urn: tuple(newest_first) for urn, newest_first in events.items()}


def _event(row: Row[Any]) -> TimeseriesEvent:
    metadata = loads(row.system_metadata) if row.system_metadata else {}
    return TimeseriesEvent(row.timestamp_ms, loads(row.value), metadata)


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
