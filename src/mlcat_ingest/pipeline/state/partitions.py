"""Partitions: the rows with the checkpoint of each, and the pass of a run over one of them.

A partition is all that a recipe reads of one place, for one catalog.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import islice
from typing import Any, Final

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.report.report import PassSummary
from mlcat_ingest.pipeline.state.database import Rows
from mlcat_ingest.pipeline.state.opening import (
    is_missing,
    printable_url,
    read_only,
    require_lasting,
)
from mlcat_ingest.pipeline.state.records import EQUALS_NOTHING, ColumnValues
from mlcat_ingest.sources.base import Partition, PartitionState
from mlcat_ingest.sql.database import Engine, SqlConnection

log = logging.getLogger(__name__)

_SELECT: Final = (
    "SELECT recipe, sink, source, instance, settings, identity, checkpoint, pass_number,"
    " passed_at_ms, full_at_ms, tests FROM state_part"
)
_INSERT: Final = (
    "INSERT INTO state_part (id, recipe, sink, source, instance, settings, identity, pass_number)"
    " VALUES (?, ?, ?, ?, ?, ?, '{}', 0)"
)
_COUNTS: Final = (
    "SELECT kind, count(*), sum(CASE WHEN reason <> '' THEN 1 ELSE 0 END) FROM state_record"
    " WHERE part_id = ? GROUP BY kind ORDER BY kind"
)

# Tables whose rows name their recipe and catalog.
_OF_RECIPE: Final = ("state_part", "state_entity")
_WRITER: Final = "state_writer"
SAVE_WRITER: Final = f"INSERT INTO {_WRITER} (recipe, id, adopted) VALUES (?, ?, ?)"

_COPY_TIMEOUT_S: Final = 60.0
_COPIED_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """The key of a partition: a recipe, its catalog, and the place that it reads."""

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
    """A partition as it was left: times are epoch milliseconds, None for never.

    `passed_at_ms` is when the last pass began that came to its end, `full_at_ms` when the last one
    did that read everything. `identity` is how URNs of each kind were made. `tests` is a digest of
    the metadata tests that the client evaluated on all of its entities.
    """

    key: PartitionKey
    settings: str
    identity: Mapping[str, str]
    checkpoint: Mapping[str, Any] | None
    pass_number: int
    passed_at_ms: int | None
    full_at_ms: int | None
    tests: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of one kind, and how many of them are dirty."""

    records: int
    dirty: int


def begin(
    connection: SqlConnection, key: PartitionKey, settings: str, identity: Mapping[str, str]
) -> PartitionRow:
    """Return the partition with its pass number raised, and `identity` kept for its source.

    If settings changed it has no checkpoint, and its records equal nothing: a digest of a record
    does not have what all records of the partition share.
    """
    stored = connection.first(f"{_SELECT} WHERE id = ?", key.id)
    if stored is None:
        connection.execute(_INSERT, key.id, *astuple(key), settings)
        row = PartitionRow(key, settings, identity, None, 0, None, None)
    else:
        row = _row(stored)
    if row.settings != settings:
        row = replace(row, settings=settings, checkpoint=None)
        _update(connection, key, {"checkpoint": None})
        forget = f"UPDATE state_record SET {EQUALS_NOTHING} WHERE part_id = ?"
        connection.execute(forget, key.id)
    row = replace(row, identity=identity, pass_number=row.pass_number + 1)
    _update(connection, key, {"settings": settings, "pass_number": row.pass_number})
    # For every instance of the source.
    connection.execute(
        "UPDATE state_part SET identity = ? WHERE recipe = ? AND sink = ? AND source = ?",
        *(json.dumps(dict(identity)), key.recipe, key.sink, key.source),
    )
    return row


def save_checkpoint(
    connection: SqlConnection,
    key: PartitionKey,
    checkpoint: Mapping[str, Any],
    began_at_ms: int,
    *,
    full: bool,
) -> None:
    """Save a checkpoint: the pass that began at `began_at_ms` came to its end."""
    values = {"checkpoint": json.dumps(dict(checkpoint)), "passed_at_ms": began_at_ms}
    if full:
        values["full_at_ms"] = began_at_ms
    _update(connection, key, values)


def partitions_of(connection: SqlConnection, recipe: str) -> list[PartitionRow]:
    """Return all partitions of a recipe, for whichever catalog."""
    rows = connection.execute(f"{_SELECT} WHERE recipe = ? ORDER BY sink, source, instance", recipe)
    return [_row(row) for row in rows]


def counts(connection: SqlConnection, key: PartitionKey) -> dict[str, Counts]:
    """Return the numbers of records of a partition, by kind."""
    rows = connection.execute(_COUNTS, key.id)
    return {kind: Counts(number, int(dirty)) for kind, number, dirty in rows}


def writer_ids(connection: SqlConnection, recipe: str) -> list[str]:
    """Return the writer ids of a recipe, its own first, then those that it took over."""
    statement = f"SELECT id FROM {_WRITER} WHERE recipe = ? ORDER BY adopted, id"
    return list(connection.scalars(statement, recipe))


def writer_rows(writer: Writer) -> tuple[Rows, Rows]:
    """Return what to save of the ids of a recipe's writer; they outlive `delete_recipe`."""
    ids = {**dict.fromkeys(writer.adopted, 1), writer.id: 0}
    return (
        (f"DELETE FROM {_WRITER} WHERE recipe = ?", [(writer.name,)]),
        (SAVE_WRITER, [(writer.name, id_, adopted) for id_, adopted in ids.items()]),
    )


def invalidate(connection: SqlConnection, recipe: str, sink: str) -> None:
    """Delete the checkpoints of a recipe for one catalog, and the digests of its records."""
    own = "recipe = ? AND sink = ?"
    # As if no pass had ended: the catalog does not hold what the last one wrote.
    connection.execute(
        f"UPDATE state_part SET checkpoint = NULL, passed_at_ms = NULL WHERE {own}", recipe, sink
    )
    connection.execute(
        f"UPDATE state_record SET {EQUALS_NOTHING}"
        f" WHERE part_id IN (SELECT id FROM state_part WHERE {own})",
        *(recipe, sink),
    )


def delete_recipe(connection: SqlConnection, recipe: str, sink: str | None = None) -> bool:
    """Delete everything that is kept for a recipe, or only that for one catalog.

    Returns whether there was anything.
    """
    chosen = "recipe = ?" if sink is None else "recipe = ? AND sink = ?"
    values = (recipe,) if sink is None else (recipe, sink)
    connection.execute(
        f"DELETE FROM state_record WHERE part_id IN (SELECT id FROM state_part WHERE {chosen})",
        *values,
    )
    deleted = [
        connection.execute(f"DELETE FROM {table} WHERE {chosen}", *values).rowcount
        for table in _OF_RECIPE
    ]
    return any(deleted)


def copy_recipe(url: str, recipe: str, target: Engine) -> None:
    """Copy what the database at `url` keeps of a recipe to another, which has nothing.

    A database of an older version is not brought up to date for that: nothing is copied.

    Raises:
        NotAuthorizedError: the file may not be read.
        RecipeError: the database cannot hold state, or a newer version made it.
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be reached, or the copy cannot be made.

    Cost: a statement a table; memory for a thousand rows.
    """
    require_lasting(url)
    if is_missing(url):
        return
    with read_only(url, timeout_s=_COPY_TIMEOUT_S) as source:
        if source is None:
            log.warning("state of an older version in %s: planning without it", printable_url(url))
            return
        conditions = {
            **dict.fromkeys((*_OF_RECIPE, _WRITER), "recipe = ?"),
            "state_record": "part_id IN (SELECT id FROM state_part WHERE recipe = ?)",
            "state_result": "id IN (SELECT result FROM state_entity WHERE recipe = ? UNION"
            " SELECT before FROM state_entity WHERE recipe = ?)",
        }
        with target.transaction(write=True) as connection:
            for table, condition in conditions.items():
                # The same steps made both: their columns are in the same order.
                statement = f"SELECT * FROM {table} WHERE {condition}"
                values = [recipe] * condition.count("?")
                rows = iter(source.execute(statement, *values, stream=True))
                while batch := list(islice(rows, _COPIED_ROWS)):
                    places = ", ".join("?" * len(batch[0]))
                    insert = f"INSERT INTO {table} VALUES ({places})"
                    connection.execute_many(insert, map(tuple, batch))


def _row(row: Sequence[Any]) -> PartitionRow:
    recipe, sink, source, instance, settings, identity, checkpoint, *rest = row
    return PartitionRow(
        PartitionKey(recipe, sink, source, instance),
        settings,
        json.loads(identity),
        None if checkpoint is None else json.loads(checkpoint),
        *rest,
    )


def _update(connection: SqlConnection, key: PartitionKey, values: Mapping[str, Any]) -> None:
    columns = ", ".join(f"{name} = ?" for name in values)
    statement = f"UPDATE state_part SET {columns} WHERE id = ?"
    connection.execute(statement, *values.values(), key.id)


class PartitionPass(PartitionState):
    """One pass over a partition: its state, and how the partition is read."""

    def __init__(
        self, partition: Partition, row: PartitionRow, full: str | None, known: ColumnValues
    ) -> None:
        """Read everything if `full` gives a reason.

        `known` is of its records, read at once: the database may fail later.
        """
        self.known = known
        self.full = full
        self.why = "changes since the last run" if full is None else f"full pass ({full})"
        self.checkpoint = None if full else row.checkpoint
        self.key = row.key
        self.part_id = row.key.id
        self.number = row.pass_number
        self.label = partition.label or partition.key
        self._identity = partition.identity
        self.finished: tuple[Mapping[str, Any], bool] | None = None
        """The checkpoint, and whether every record was listed, from then on that all is read."""
        self.renamed: list[str] = []
        """Entities whose records are other entities since this pass."""
        self.current_at_ms = row.passed_at_ms
        self.tests = row.tests
        self._began_at_ms = now_ms()

    def summary(self) -> PassSummary:
        """Return how the partition is read, for the report."""
        full, place, at_ms = self.full is not None, self.key.instance, self.current_at_ms
        return PassSummary(self.key.source, full, self.why, place, at_ms, self.label)

    @property
    def entity_types(self) -> Sequence[str]:
        """The types of the entities that are made of its records."""
        return sorted(set(map(entity_type_of, self._identity.values())))

    @property
    def is_complete(self) -> bool:
        """True if this pass listed every record of the partition."""
        return self.finished is not None and self.finished[1]

    def commit(self, connection: SqlConnection) -> None:
        """Save the checkpoint: everything that was read is acknowledged."""
        if self.finished is not None:
            full = self.full is not None and self.is_complete
            save_checkpoint(connection, self.key, self.finished[0], self._began_at_ms, full=full)
            self.finished = None
            self.current_at_ms = self._began_at_ms

    def save_tests(self, connection: SqlConnection, digest: str) -> None:
        """Keep that the client evaluated the metadata tests of `digest` on all of its entities."""
        if self.tests != digest:
            _update(connection, self.key, {"tests": digest})
            self.tests = digest

    def reopen(self, connection: SqlConnection) -> None:
        """Drop the end of this pass: the next one has to read everything."""
        if self.finished is not None:
            _update(connection, self.key, {"full_at_ms": None})
            self.finished = None
