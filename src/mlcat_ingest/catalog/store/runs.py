"""Ingestion runs: the rows written under a run id, and the rollback of a run.

A version of an aspect, and an event, belongs to the run that its system metadata names. A rollback
never rewrites the past: an aspect that the run changed last gets its former value as a new version.
The versions of the run are marked, so that they are neither listed nor restored.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, entity, timeseries
from mlcat_ingest.catalog.schema.values import (
    DEFAULT_RUN,
    UNKNOWN_ACTOR,
    IngestionRun,
    Rollback,
    RunRow,
    Write,
)
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import PreparedWrite, prepare, restore
from mlcat_ingest.catalog.store.reads import count_rows, marked_removed
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.registry import key_aspect_name

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
        for row in connection.execute(with_urns(rows).offset(start).limit(count))
    )


def with_urns(rows: Any) -> Select[Any]:
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


_AT_ONCE: Final = 500
"""Aspects or entities that change in one transaction, so that other writers get their turn."""

_SHOWN: Final = 100
"""Most versions that a plan lists; the rest is only counted."""


def plan_rollback(connection: Connection, run_id: str) -> Rollback:
    """Return what taking `run_id` back would change.

    Raises:
        BadRequestError: it is what clients send who have no run.
    """
    if run_id in {"", DEFAULT_RUN}:
        raise BadRequestError(f"runId: {run_id!r} is not a known run")
    own = select(aspect).where(aspect.c.run_id == run_id).subquery()
    events = select(timeseries.c.entity_id).where(timeseries.c.run_id == run_id).subquery()
    written_over = (
        select(aspect_history.c.entity_id, aspect_history.c.aspect)
        .join(
            aspect,
            and_(
                aspect.c.entity_id == aspect_history.c.entity_id,
                aspect.c.aspect == aspect_history.c.aspect,
            ),
        )
        .where(aspect_history.c.run_id == run_id, _not_of(aspect, run_id))
        .distinct()
        .subquery()
    )
    touched = select(own.c.entity_id).union(select(events.c.entity_id)).subquery()
    doomed = _made_by(run_id).subquery()
    first = with_urns(rows_of_runs(run_id)).limit(_SHOWN)
    return Rollback(
        reverted=count_rows(connection, own),
        kept=count_rows(connection, written_over),
        events=count_rows(connection, events),
        entities=count_rows(connection, touched),
        deleted_entities=count_rows(connection, doomed),
        rows=tuple(
            RunRow(row.urn, row.aspect, row.version, row.modified_ms, current=True)
            for row in connection.execute(first)
            if row.current
        ),
    )


def _not_of(table: Any, *runs: str) -> ColumnElement[bool]:
    return or_(table.c.run_id.is_(None), table.c.run_id.not_in(runs))


def _made_by(run_id: str) -> Select[Any]:
    """Return the entities that this run made, and that nobody else ever wrote to."""

    def has_rows(table: Any, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
        return exists().where(table.c.entity_id == entity.c.id, *conditions)

    return select(entity.c.id, entity.c.urn, entity.c.entity_type).where(
        or_(
            has_rows(aspect, aspect.c.run_id == run_id, aspect.c.created_ms == entity.c.created_ms),
            has_rows(
                timeseries,
                timeseries.c.run_id == run_id,
                timeseries.c.modified_ms == entity.c.created_ms,
            ),
        ),
        entity.c.id.in_(
            select(aspect.c.entity_id)
            .where(aspect.c.run_id == run_id)
            .union(select(timeseries.c.entity_id).where(timeseries.c.run_id == run_id))
        ),
        ~has_rows(aspect, _not_of(aspect, run_id)),
        ~has_rows(aspect_history, _not_of(aspect_history, run_id, TAKEN_BACK)),
        ~has_rows(timeseries, _not_of(timeseries, run_id)),
    )


def roll_back(store: Store, run_id: str, actor: str = UNKNOWN_ACTOR) -> Rollback:
    """Take back what a run wrote, and return what that was.

    Entities that the run made, and nobody else wrote to, are deleted; its events too. A large run
    takes several transactions: when one of them fails, the same call goes on where it stopped.

    Raises:
        BadRequestError: `run_id` is what clients send who have no run.

    Cost: a dozen SQL statements for each 500 aspects.
    """
    plan = store.read(lambda connection: plan_rollback(connection, run_id))
    while store.change(lambda connection: _delete_entities(connection, run_id, actor)):
        pass
    after: tuple[int, str] | None = (0, "")
    while after is not None:
        after = store.change(partial(_revert_aspects, run_id=run_id, after=after, actor=actor))
    store.change(lambda connection: _mark_versions(connection, run_id))
    return plan


def _delete_entities(connection: Connection, run_id: str, actor: str) -> bool:
    rows = connection.execute(_made_by(run_id).limit(_AT_ONCE)).all()
    keys = [Write(row.urn, key_aspect_name(row.entity_type), change="DELETE") for row in rows]
    Batch(connection, actor).apply([prepare(write) for write in keys])
    return bool(rows)


def _revert_aspects(
    connection: Connection, run_id: str, after: tuple[int, str], actor: str
) -> tuple[int, str] | None:
    place = tuple_(aspect.c.entity_id, aspect.c.aspect)
    query = (
        select(aspect.c.entity_id, aspect.c.aspect, entity.c.urn)
        .join(entity, entity.c.id == aspect.c.entity_id)
        .where(aspect.c.run_id == run_id, place > after)
        .order_by(aspect.c.entity_id, aspect.c.aspect)
        .limit(_AT_ONCE)
    )
    rows = connection.execute(query).all()
    items = list(_reversions(rows, _former(connection, rows, run_id)))
    Batch(connection, actor).apply(items)
    return (rows[-1].entity_id, rows[-1].aspect) if len(rows) == _AT_ONCE else None


def _former(connection: Connection, rows: Sequence[Any], run_id: str) -> dict[tuple[int, str], Any]:
    """Return the last version that others wrote, of each aspect in `rows` that has one."""
    past = aspect_history.c
    of_others = (
        select(past.entity_id, past.aspect, func.max(past.version).label("version"))
        .where(
            past.entity_id.in_({row.entity_id for row in rows}),
            past.aspect.in_({row.aspect for row in rows}),
            _not_of(aspect_history, run_id, TAKEN_BACK),
        )
        .group_by(past.entity_id, past.aspect)
        .subquery()
    )
    query = select(aspect_history).join(
        of_others,
        and_(
            past.entity_id == of_others.c.entity_id,
            past.aspect == of_others.c.aspect,
            past.version == of_others.c.version,
        ),
    )
    return {(row.entity_id, row.aspect): row for row in connection.execute(query)}


def _reversions(rows: Sequence[Any], former: dict[tuple[int, str], Any]) -> Iterator[PreparedWrite]:
    for row in rows:
        before = former.get((row.entity_id, row.aspect))
        if before is None:
            yield prepare(Write(row.urn, row.aspect, change="DELETE"))
        else:
            yield restore(row.urn, row.aspect, before.value, before.system_metadata, before.run_id)


def _mark_versions(connection: Connection, run_id: str) -> None:
    """Forget the run: its versions are marked, and its events are deleted."""
    past = update(aspect_history).where(aspect_history.c.run_id == run_id)
    connection.execute(past.values(run_id=TAKEN_BACK))
    # Values that were the same before the run have stayed.
    connection.execute(update(aspect).where(aspect.c.run_id == run_id).values(run_id=None))
    connection.execute(delete(timeseries).where(timeseries.c.run_id == run_id))
