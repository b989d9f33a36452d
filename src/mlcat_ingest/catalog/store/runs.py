"""Runs: what was written under which run id.

A version of an aspect, and an event, belongs to the run that its system metadata names.
"""

from typing import Any, Final

from sqlalchemy import (
    Connection,
    Select,
    func,
    literal,
    select,
    union_all,
)

from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, entity, timeseries
from mlcat_ingest.catalog.schema.values import (
    IngestionRun,
    RunRow,
)
from mlcat_ingest.catalog.store.reads import marked_removed

TAKEN_BACK: Final = ""
"""Stands in the place of the run id in versions of a run that was taken back."""


def list_runs(
    connection: Connection, start: int, count: int, *, include_removed: bool = True
) -> tuple[IngestionRun, ...]:
    """Return a page of the runs, the one that wrote last first.

    Without `include_removed`, what they wrote of entities marked as removed does not count.
    """
    rows = rows_of_runs(include_removed=include_removed)
    last = func.max(rows.c.modified_ms)
    query = (
        select(rows.c.run_id, func.count(), last)
        .group_by(rows.c.run_id)
        .order_by(last.desc(), rows.c.run_id)
    )
    return tuple(IngestionRun(*row) for row in connection.execute(query.offset(start).limit(count)))


def describe_run(
    connection: Connection, run_id: str, start: int, count: int, *, include_removed: bool = True
) -> tuple[RunRow, ...]:
    """Return a page of what a run wrote, entity by entity in the order they were made."""
    rows = rows_of_runs(run_id, include_removed=include_removed)
    return tuple(
        RunRow(row.urn, row.aspect, row.version, row.modified_ms, bool(row.current))
        for row in connection.execute(of_entities(rows).offset(start).limit(count))
    )


def of_entities(rows: Any) -> Select[Any]:
    """Return `rows` with the URNs of their entities, in the order in which those were made."""
    ordered = (rows.c.entity_id, rows.c.aspect, rows.c.version, rows.c.modified_ms)
    return (
        select(rows, entity.c.urn).join(entity, entity.c.id == rows.c.entity_id).order_by(*ordered)
    )


def rows_of_runs(run_id: str | None = None, *, include_removed: bool = True) -> Any:
    """Return all rows that a run wrote: that one run, or any."""
    tables = (
        (aspect, aspect.c.version, literal(1)),
        (aspect_history, aspect_history.c.version, literal(0)),
        (timeseries, literal(0), literal(1)),
    )
    parts = []
    for table, version, current in tables:
        query = select(
            table.c.run_id,
            table.c.entity_id,
            table.c.aspect,
            version.label("version"),
            table.c.modified_ms,
            current.label("current"),
        ).where(table.c.run_id == run_id if run_id else table.c.run_id > TAKEN_BACK)
        parts.append(query if include_removed else query.where(~marked_removed(table.c.entity_id)))
    return union_all(*parts).subquery()
