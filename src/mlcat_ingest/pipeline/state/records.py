"""The rows of records: the fingerprint that the catalog acknowledged, or the refusal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, select, update

from mlcat_ingest.pipeline.state.tables import part, record
from mlcat_ingest.sql.engine import write_rows, write_transaction

IN_LIST: Final = 500
"""Most values in one IN list."""

_SELECT: Final = select(
    record.c.id,
    record.c.digest,
    record.c.fingerprint,
    record.c.joined_fingerprint,
    record.c.urns,
    record.c.aspect_stamps,
)


class RecordRow(NamedTuple):
    """One record as it is stored: its fields are the columns, which `tables.record` explains.

    `urns` are a line each; `reason` is empty unless the record is dirty.
    """

    part_id: int
    kind: str
    id: str
    digest: str
    urns: str
    fingerprint: str
    joined_fingerprint: str
    reason: str
    seen_in_pass: int
    aspect_stamps: str = ""


EQUALS_NOTHING: Final = {"digest": "", "aspect_stamps": ""}
"""Columns of a record that has to be mapped and compared again."""

_COLUMNS: Final = RecordRow._fields
_KEY: Final = ("part_id", "kind", "id")
_SAVE: Final = (
    f"INSERT INTO state_record ({', '.join(_COLUMNS)})"  # noqa: S608 - our own column names
    f" VALUES ({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _KEY)
)


@dataclass(frozen=True, slots=True)
class KnownRecord:
    """A record as the catalog acknowledged it: its fingerprints and entities, to compare with.

    The digest of a dirty record is empty, and so equals none. Without `aspect_stamps` its entities
    have to be compared by their values.
    """

    digest: str
    fingerprint: str
    joined_fingerprint: str
    urns: tuple[str, ...]
    aspect_stamps: str = ""


def in_lists(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield `values`, each once and in their order, in lists that fit into an IN list."""
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), IN_LIST):
        yield distinct[start : start + IN_LIST]


def save(engine: Engine, rows: Sequence[RecordRow]) -> None:
    """Write `rows` durably, in one transaction."""
    if rows:
        with write_transaction(engine) as connection:
            write_rows(connection, _SAVE, rows)


def read(engine: Engine, part_id: int, kind: str, ids: Iterable[str]) -> dict[str, KnownRecord]:
    """Return what is known of records of a kind, by id.

    Cost: a statement for each 500 ids.
    """
    known: dict[str, KnownRecord] = {}
    with engine.connect() as connection:
        for batch in in_lists(ids):
            for record_id, digest, fingerprint, joined, urns, stamps in connection.execute(
                _SELECT.where(_of_kind(part_id, kind), record.c.id.in_(batch))
            ):
                entities = tuple(urns.split("\n")) if urns else ()
                known[record_id] = KnownRecord(digest, fingerprint, joined, entities, stamps)
    return known


def touch(engine: Engine, part_id: int, kind: str, ids: Iterable[str], pass_number: int) -> None:
    """Note that the source still lists records that did not change.

    Cost: a statement for each 500 ids, all in one transaction.
    """
    with write_transaction(engine) as connection:
        for batch in in_lists(ids):
            connection.execute(
                update(record)
                .where(_of_kind(part_id, kind), record.c.id.in_(batch))
                .values(seen_in_pass=pass_number)
            )


def column_of(engine: Engine, part_id: int, kind: str, column: str) -> dict[str, str]:
    """Return a column of the records of a kind, by id, where it is not empty."""
    value: ColumnElement[Any] = record.c[column]
    with engine.connect() as connection:
        rows = connection.execute(
            select(record.c.id, value).where(_of_kind(part_id, kind), value != "")
        )
        return dict(rows.all())


def delete_entities(engine: Engine, part_id: int, urns: Iterable[str]) -> None:
    """Delete entities: of a record that is others too these stay, and it equals nothing any more.

    Cost: a look at every record of several entities.
    """
    removed_urns = set(urns)
    of_part = record.c.part_id == part_id
    several = select(record.c.kind, record.c.id, record.c.urns).where(
        of_part, record.c.urns.contains("\n")
    )
    with write_transaction(engine) as connection:
        for batch in in_lists(removed_urns):
            connection.execute(delete(record).where(of_part, record.c.urns.in_(batch)))
        for kind, record_id, joined in connection.execute(several).all():
            remaining = [urn for urn in joined.split("\n") if urn not in removed_urns]
            if len(remaining) == joined.count("\n") + 1:
                continue
            row = (_of_kind(part_id, kind), record.c.id == record_id)
            if remaining:
                values = {"urns": "\n".join(remaining), **EQUALS_NOTHING}
                connection.execute(update(record).where(*row).values(values))
            else:
                connection.execute(delete(record).where(*row))


def urns_of(connection: Connection, recipe: str, sink: str) -> Iterator[list[str]]:
    """Yield the entities of all records for one catalog, those of 500 records at a time."""
    ids = select(part.c.id).where(part.c.recipe == recipe, part.c.sink == sink)
    statement = select(record.c.urns).where(record.c.part_id.in_(ids), record.c.urns != "")
    rows = connection.execution_options(yield_per=IN_LIST).scalars(statement)
    for batch in rows.partitions(IN_LIST):
        yield [urn for urns in batch for urn in urns.split("\n")]


def sample(engine: Engine, part_id: int, from_digest: str, count: int) -> list[str]:
    """Return the entities of at most `count` records that were acknowledged, from a digest on."""
    picked = (
        select(record.c.urns)
        .where(
            record.c.part_id == part_id,
            record.c.urns != "",
            record.c.reason == "",
            record.c.digest >= from_digest,
        )
        .order_by(record.c.digest)
        .limit(count)
    )
    with engine.connect() as connection:
        return [urn for urns in connection.scalars(picked) for urn in urns.split("\n")]


def urns_of_kind(engine: Engine, part_id: int, kind: str) -> list[str]:
    """Return the entities of one record of a kind, none where there is none."""
    one = select(record.c.urns).where(_of_kind(part_id, kind), record.c.urns != "").limit(1)
    with engine.connect() as connection:
        return (connection.scalar(one) or "").split()


def _of_kind(part_id: int, kind: str) -> ColumnElement[bool]:
    return and_(record.c.part_id == part_id, record.c.kind == kind)
