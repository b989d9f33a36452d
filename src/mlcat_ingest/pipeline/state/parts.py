"""The rows of partitions: what a recipe reads of a place for one catalog, and how it names it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    and_,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from mlcat_ingest.pipeline.state.rows import EQUALS_NOTHING
from mlcat_ingest.pipeline.state.tables import absent, identity, part, record, tested
from mlcat_ingest.sql.engine import write_transaction


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """What a partition is kept under."""

    recipe: str
    sink: str
    source: str
    instance: str

    @property
    def id(self) -> int:
        """The number its rows carry: 63 bits of a hash."""
        joined = json.dumps([self.recipe, self.sink, self.source, self.instance])
        return int.from_bytes(hashlib.sha256(joined.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A part as it was left: times are epoch milliseconds, None for never.

    `passed_at_ms` is when the last pass began that came to its end, `full_at_ms` when the last one
    did that read everything.
    """

    key: PartitionKey
    settings: str
    checkpoint: Mapping[str, Any] | None
    pass_number: int
    passed_at_ms: int | None
    full_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of one kind, and how many of them are dirty."""

    records: int
    dirty: int


def begin(engine: Engine, key: PartitionKey, settings: str) -> PartitionRow:
    """Return the partition with its pass number raised, without checkpoint if settings changed."""
    with write_transaction(engine) as connection:
        row = _found(connection, key)
        if row is None:
            row = PartitionRow(key, settings, None, 0, None, None)
            connection.execute(
                insert(part).values(
                    id=key.id, **asdict(key), settings=settings, pass_number=0, checkpoint=None
                )
            )
        same = row.settings == settings
        values: dict[str, Any] = {"settings": settings, "pass_number": row.pass_number + 1}
        if not same:
            values["checkpoint"] = None
        _update(connection, key, values)
    return PartitionRow(
        key,
        settings,
        row.checkpoint if same else None,
        row.pass_number + 1,
        row.passed_at_ms,
        row.full_at_ms,
    )


def finish(
    engine: Engine,
    key: PartitionKey,
    checkpoint: Mapping[str, Any],
    began_at_ms: int,
    *,
    full: bool,
) -> None:
    """Keep a checkpoint: the pass that began at `began_at_ms` came to its end."""
    values = {"checkpoint": json.dumps(dict(checkpoint)), "passed_at_ms": began_at_ms}
    if full:
        values["full_at_ms"] = began_at_ms
    with write_transaction(engine) as connection:
        _update(connection, key, values)


def reopen(engine: Engine, key: PartitionKey) -> None:
    """Keep that the next pass has to be one over all of the partition."""
    with write_transaction(engine) as connection:
        _update(connection, key, {"full_at_ms": None})


def parts_of(engine: Engine, recipe: str) -> list[PartitionRow]:
    """Return all partitions of a recipe, for whichever catalog."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(part)
            .where(part.c.recipe == recipe)
            .order_by(part.c.sink, part.c.source, part.c.instance)
        )
        return [_row(row) for row in rows]


def counts(engine: Engine, key: PartitionKey) -> dict[str, Counts]:
    """Return the numbers of records of a partition, by kind."""
    dirty = func.sum(case((record.c.reason != "", 1), else_=0))
    with engine.connect() as connection:
        rows = connection.execute(
            select(record.c.kind, func.count(), dirty)
            .where(record.c.part_id == key.id)
            .group_by(record.c.kind)
            .order_by(record.c.kind)
        )
        return {kind: Counts(number, int(dirty)) for kind, number, dirty in rows}


def pinned(engine: Engine, key: PartitionKey) -> dict[str, str]:
    """Return how URNs were made when the recipe was last run, by kind; empty before that."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(identity.c.kind, identity.c.urn).where(_same_source(identity.c, key))
        )
        return dict(rows.all())


def pin(engine: Engine, key: PartitionKey, urns: Mapping[str, str]) -> None:
    """Keep how URNs are made, for every instance of the source."""
    with write_transaction(engine) as connection:
        connection.execute(delete(identity).where(_same_source(identity.c, key)))
        for kind, urn in urns.items():
            connection.execute(
                insert(identity).values(
                    recipe=key.recipe, sink=key.sink, source=key.source, kind=kind, urn=urn
                )
            )


def names(connection: Connection, recipe: str, sink: str) -> dict[str, dict[str, str]]:
    """Return how URNs were made when the recipe was last run, by source and kind."""
    found: dict[str, dict[str, str]] = {}
    for source, kind, urn in connection.execute(
        select(identity.c.source, identity.c.kind, identity.c.urn).where(
            identity.c.recipe == recipe, identity.c.sink == sink
        )
    ):
        found.setdefault(source, {})[kind] = urn
    return found


def invalidate(engine: Engine, recipe: str, sink: str) -> None:
    """Delete the checkpoints of a recipe for one catalog, and let its records equal nothing."""
    mine = (part.c.recipe == recipe, part.c.sink == sink)
    ids = select(part.c.id).where(*mine)
    with write_transaction(engine) as connection:
        connection.execute(update(part).where(*mine).values(checkpoint=None))
        connection.execute(update(record).where(record.c.part_id.in_(ids)).values(**EQUALS_NOTHING))


def delete_recipe(engine: Engine, recipe: str, sink: str | None = None) -> None:
    """Delete everything that is kept for a recipe, or only that for one catalog."""

    def mine(columns: Any) -> ColumnElement[bool]:
        own: ColumnElement[bool] = columns.recipe == recipe
        return own if sink is None else and_(own, columns.sink == sink)

    with write_transaction(engine) as connection:
        ids = select(part.c.id).where(mine(part.c))
        for table in (record, absent):
            connection.execute(delete(table).where(table.c.part_id.in_(ids)))
        for table in (part, identity, tested):
            connection.execute(delete(table).where(mine(table.c)))


def _found(connection: Connection, key: PartitionKey) -> PartitionRow | None:
    row = connection.execute(select(part).where(part.c.id == key.id)).first()
    return None if row is None else _row(row)


def _row(row: Any) -> PartitionRow:
    return PartitionRow(
        PartitionKey(row.recipe, row.sink, row.source, row.instance),
        row.settings,
        None if row.checkpoint is None else json.loads(row.checkpoint),
        row.pass_number,
        row.passed_at_ms,
        row.full_at_ms,
    )


def _update(connection: Connection, key: PartitionKey, values: Mapping[str, Any]) -> None:
    connection.execute(update(part).where(part.c.id == key.id).values(**values))


def _same_source(columns: Any, key: PartitionKey) -> ColumnElement[bool]:
    return and_(
        columns.recipe == key.recipe, columns.sink == key.sink, columns.source == key.source
    )
