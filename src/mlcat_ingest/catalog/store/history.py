"""The versions of all aspects of one entity, the newest first."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Table, func, literal, select, tuple_, union_all
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement, Select

from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, entity
from mlcat_ingest.catalog.store.rows import distinct_chunks
from mlcat_ingest.metadata.codec import loads

VersionKey = tuple[str, int]
"""The name of an aspect, and a version of it."""


class VersionInfo(NamedTuple):
    """A version of an aspect without its value: when it was written, by whom, and with what.

    `deleted` is true of the last version of an aspect that is there no more.
    """

    aspect: str
    version: int
    modified_ms: int
    modified_by: str
    system_text: str | None
    deleted: bool

    @property
    def system_metadata(self) -> Mapping[str, Any]:
        """What the writer sent with the value."""
        return loads(self.system_text) if self.system_text else {}


def versions(
    connection: Connection, urn: str, start: int, count: int
) -> tuple[int, list[VersionInfo]]:
    """Return how many versions the aspects of `urn` have, and a page of them, the newest first."""
    columns = ("aspect", "version", "modified_ms", "modified_by", "system_metadata")
    both = union_all(
        *(
            _of(urn, table, *(table.c[name] for name in columns), literal(kept).label("kept"))
            for table, kept in _TABLES
        )
    ).subquery()
    last = func.max(both.c.version).over(partition_by=both.c.aspect).label("last")
    known = select(both, last, func.count().over().label("total")).subquery()
    newest_first = known.c.modified_ms.desc(), known.c.aspect, known.c.version.desc()
    page = select(known).order_by(*newest_first).offset(start).limit(count)
    rows = connection.execute(page).all()
    found = [
        VersionInfo._make((*row[:5], not row.kept and row.version == row.last)) for row in rows
    ]
    return (rows[0].total if rows else 0), found


def sizes(connection: Connection, urn: str, keys: Collection[VersionKey]) -> dict[VersionKey, int]:
    """Return the lengths of the values of those of `keys` that there are, in characters."""
    return dict(_read(connection, urn, keys, lambda table: func.length(table.c.value)))


def texts(connection: Connection, urn: str, keys: Collection[VersionKey]) -> dict[VersionKey, str]:
    """Return the values of those of `keys` that there are, as JSON text."""
    return dict(_read(connection, urn, keys, lambda table: table.c.value))


_TABLES: Final = ((aspect, 1), (aspect_history, 0))


def _read(
    connection: Connection,
    urn: str,
    keys: Collection[VersionKey],
    column: Callable[[Table], ColumnElement[Any]],
) -> Iterator[tuple[VersionKey, Any]]:
    for chunk in distinct_chunks(keys):
        for table, _ in _TABLES:
            query = _of(urn, table, table.c.aspect, table.c.version, column(table))
            query = query.where(tuple_(table.c.aspect, table.c.version).in_(chunk))
            yield from (((row[0], row[1]), row[2]) for row in connection.execute(query))


def _of(urn: str, table: Table, *columns: Any) -> Select[Any]:
    known = select(entity.c.id).where(entity.c.urn == urn).scalar_subquery()
    return select(*columns).where(table.c.entity_id == known)
