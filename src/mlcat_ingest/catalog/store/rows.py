"""The rows that a batch makes, and the statements that put them into the tables."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Table, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, edge, entity, timeseries
from mlcat_ingest.catalog.schema.values import Moment
from mlcat_ingest.catalog.search.index import run_many
from mlcat_ingest.core.paging import chunks

CHUNK = 1000
"""Most values in one IN list; a batch of n URNs takes n/1000 statements, rounded up."""

Key: TypeAlias = tuple[int, str]
"""One aspect of one entity: the entity's id, and the aspect's name."""

# Thousands of rows a second go to the driver as they are.
_DELETE_ASPECT: Final = "DELETE FROM aspect WHERE entity_id = ? AND aspect = ?"
_DELETE_SERIES: Final = "DELETE FROM timeseries WHERE entity_id = ? AND aspect = ?"
_DELETE_EDGE: Final = """DELETE FROM edge
    WHERE destination = ? AND relationship = ? AND source_id = ? AND aspect = ?"""

Edges: TypeAlias = tuple[tuple[str, str], ...]
"""Relationships, each with the URN it leads to."""


class EntityRow(NamedTuple):
    """A row of the entity table, in the order of its columns."""

    id: int
    urn: str
    entity_type: str
    created_ms: int
    created_by: str


class AspectRow(NamedTuple):
    """A row of the aspect table, in the order of its columns."""

    entity_id: int
    aspect: str
    version: int
    value: str
    system_metadata: str | None
    created_ms: int
    created_by: str
    modified_ms: int
    modified_by: str


class EventRow(NamedTuple):
    """A row of the timeseries table, in the order of its columns."""

    entity_id: int
    aspect: str
    timestamp_ms: int
    identity: str
    value: str
    system_metadata: str | None
    modified_ms: int


def distinct_chunks(values: Iterable[Any], size: int | None = None) -> Iterator[list[Any]]:
    """Return the distinct `values` in lists of at most `size` (None: `CHUNK`), in their order."""
    return chunks(dict.fromkeys(values), size or CHUNK)


@dataclass(slots=True)
class RowChanges:
    """The changes of a batch to the tables, computed in memory.

    `rows` holds the last state of each aspect that changed, None where it is gone; `stored` are
    those that had a row before. `edges` go with them. `series` are emptied before `events` go in.
    """

    new_entities: dict[int, EntityRow] = field(default_factory=dict)
    deleted_entities: list[int] = field(default_factory=list)
    rows: dict[Key, AspectRow | None] = field(default_factory=dict)
    stored: set[Key] = field(default_factory=set)
    history: list[AspectRow] = field(default_factory=list)
    edges: dict[Key, Edges] = field(default_factory=dict)
    series: list[Key] = field(default_factory=list)
    events: dict[tuple[Key, Moment], EventRow] = field(default_factory=dict)

    def empty_series(self, key: Key) -> None:
        """Take away all events of a series, those too that were to be written."""
        self.series.append(key)
        self.events = {place: row for place, row in self.events.items() if place[0] != key}

    def delete_entity(self, entity_id: int) -> None:
        """Drop everything that was to be written of one entity."""
        self.new_entities.pop(entity_id, None)
        self.history = [row for row in self.history if row.entity_id != entity_id]
        self.series = [key for key in self.series if key[0] != entity_id]
        self.rows = {key: row for key, row in self.rows.items() if key[0] != entity_id}
        self.edges = {key: targets for key, targets in self.edges.items() if key[0] != entity_id}
        self.events = {at: row for at, row in self.events.items() if at[0][0] != entity_id}


def write_changes(connection: Connection, changes: RowChanges) -> None:
    """Put `changes` into the tables.

    Cost: a handful of SQL statements, whatever their number.
    """
    run_many(connection, "DELETE FROM entity WHERE id = ?", [*zip(changes.deleted_entities)])
    _insert(connection, entity, changes.new_entities.values())
    _insert(connection, aspect_history, changes.history)
    put = [row for row in changes.rows.values() if row is not None]
    _insert(connection, aspect, [row for row in put if row[:2] not in changes.stored])
    _insert(connection, aspect, [row for row in put if row[:2] in changes.stored], replace=True)
    gone = [key for key, row in changes.rows.items() if row is None and key in changes.stored]
    run_many(connection, _DELETE_ASPECT, gone)
    old = {key for key in changes.edges if key in changes.stored}
    stored = held_edges(connection, (key[0] for key in old), {key[1] for key in old})
    replace_edges(connection, changes.edges, stored)
    run_many(connection, _DELETE_SERIES, changes.series)
    _insert(connection, timeseries, changes.events.values(), replace=True)


def _insert(
    connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], *, replace: bool = False
) -> None:
    """Insert `rows`, whose values are in the order of the columns of `table`."""
    verb, names = "INSERT OR REPLACE" if replace else "INSERT", table.c.keys()
    marks = ", ".join("?" * len(names))
    statement = f"{verb} INTO {table} ({', '.join(names)}) VALUES ({marks})"
    run_many(connection, statement, list(rows))


def held_edges(
    connection: Connection, ids: Iterable[int], names: Collection[str] | None = None
) -> dict[Key, set[tuple[str, str]]]:
    """Return the edges in the table that leave these entities, all of them or those of aspects."""
    stored: dict[Key, set[tuple[str, str]]] = defaultdict(set)
    for chunk in distinct_chunks(ids):
        query = select(edge).where(edge.c.source_id.in_(chunk))
        if names is not None:
            query = query.where(edge.c.aspect.in_(names))
        for destination, relationship, entity_id, name in connection.execute(query):
            stored[entity_id, name].add((relationship, destination))
    return stored


def replace_edges(
    connection: Connection, edges: Mapping[Key, Edges], stored: Mapping[Key, set[tuple[str, str]]]
) -> tuple[int, int]:
    """Write `edges` in the place of the `stored` ones; return how many were added and deleted.

    Cost: a row for each edge that differs: long lists change by few entries at a time.
    """
    added = [
        (destination, relationship, *key)
        for key, targets in edges.items()
        for relationship, destination in dict.fromkeys(targets)
        if (relationship, destination) not in stored.get(key, ())
    ]
    gone = [
        (destination, relationship, *key)
        for key, targets in edges.items()
        for relationship, destination in stored.get(key, set()).difference(targets)
    ]
    run_many(connection, _DELETE_EDGE, gone)
    _insert(connection, edge, added)
    return len(added), len(gone)
