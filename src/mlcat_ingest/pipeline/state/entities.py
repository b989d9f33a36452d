"""The entities that state knows: of each partition, their bases, and their unfinished writes."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from mlcat_ingest.metadata.urn import PREFIX
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import RecordRow, delete_entities, put
from mlcat_ingest.sql.database import Engine, write_transaction

_SAVE_ABSENT: Final = "INSERT INTO state_absent (part_id, urn) VALUES (?, ?)"
_SAVE_BASE: Final = (
    "INSERT INTO state_base (recipe, sink, urn, text) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET text = excluded.text"
)
_SAVE_WRITE: Final = (
    "INSERT INTO state_write (recipe, sink, id, urns) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, id) DO UPDATE SET urns = excluded.urns"
)
_DELETE_WRITE: Final = "DELETE FROM state_write WHERE recipe = ? AND sink = ? AND id = ?"


class KnownEntities:
    """The entities that are remembered of each partition, for the removal of missing ones.

    A database that fails while they are listed is an error: removals depend on it.
    """

    def __init__(self, database: RunDatabase, flush: Callable[[], object]) -> None:
        """Read from `database`, once `flush` has written what waits for its transaction."""
        self._database = database
        self._flush = flush
        self._renamed: dict[PartitionPass, list[str]] = {}

    def listed_urns(self, part: PartitionPass) -> Iterator[str]:
        """Yield the entities that this pass over `part` listed; all of it is acknowledged.

        Raises:
            StateUnavailableError: the database fails.
        """
        return self._urns(part, "seen_in_pass = ?")

    def unlisted_urns(self, part: PartitionPass) -> Iterator[str]:
        """Yield the entities that an earlier pass over `part` listed, and this one did not.

        Raises:
            StateUnavailableError: the database fails.
        """
        return self._urns(part, "seen_in_pass <> ?")

    def _urns(self, part: PartitionPass, condition: str) -> Iterator[str]:
        self._flush()
        statement = (
            f"SELECT urns FROM state_record WHERE part_id = ? AND urns <> '' AND {condition}"
        )
        with self._database.connect() as connection:
            for urns in connection.scalars(statement, part.part_id, part.number, stream=True):
                yield from urns.split("\n")

    def add_renamed(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Take note that records of `part` are other entities now than `urns`."""
        self._renamed.setdefault(part, []).extend(urns)

    def renamed_urns(self, part: PartitionPass) -> Sequence[str]:
        """Return entities whose records are other entities since this pass over `part`."""
        return self._renamed.get(part, ())

    def record_count(self, part: PartitionPass) -> int:
        """Return how many records of `part` are known."""
        self._flush()
        statement = "SELECT count(*) FROM state_record WHERE part_id = ?"
        return self._database.read(
            lambda connection: int(connection.scalar(statement, part.part_id)), 0
        )

    def absent_urns(self, part: PartitionPass) -> set[str]:
        """Return the entities that the last complete pass over `part` lacked."""
        self._flush()
        statement = "SELECT urn FROM state_absent WHERE part_id = ?"
        return self._database.read(
            lambda connection: set(connection.scalars(statement, part.part_id)), set[str]()
        )

    def replace_absent(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Keep that this complete pass over `part` lacked `urns`, and no others."""
        rows = [(part.part_id, urn) for urn in dict.fromkeys(urns)]

        def replace(engine: Engine) -> None:
            with write_transaction(engine) as connection:
                connection.execute("DELETE FROM state_absent WHERE part_id = ?", part.part_id)
                if rows:
                    connection.execute_many(_SAVE_ABSENT, rows)

        self._database.attempt(replace, None)

    def delete(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Delete what is known of entities that are removed, so that they can come back."""
        self._database.attempt(lambda engine: delete_entities(engine, part.part_id, urns), None)


class AppliedBases:
    """The bases that one recipe wrote to one catalog, from any thread.

    A base that cannot be kept or read is one that the state does not know.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Keep them in `database` once it is started."""
        self._database = database
        self.is_new = False
        """True where an earlier run kept none: then those of unchanged entities are missing too."""

    def start(self) -> None:
        """Look if there are any; the database is started."""
        own = self._database
        statement = "SELECT 1 FROM state_base WHERE recipe = ? AND sink = ? LIMIT 1"
        self.is_new = own.read(
            lambda connection: connection.scalar(statement, own.recipe, own.sink) is None, False
        )

    def get(self, urn: str) -> str | None:
        """Return the base of an entity as it was last written. Cost: one statement."""
        own = self._database
        statement = "SELECT text FROM state_base WHERE recipe = ? AND sink = ? AND urn = ?"
        text: str | None = own.read(
            lambda connection: connection.scalar(statement, own.recipe, own.sink, urn), None
        )
        return text

    def urns(self, entity_type: str) -> list[str]:
        """Return the entities of a type that have a base. Cost: one statement."""
        own = self._database
        statement = "SELECT urn FROM state_base WHERE recipe = ? AND sink = ? AND urn LIKE ?"
        like = f"{PREFIX}{entity_type}:%"
        return own.read(
            lambda connection: list(connection.scalars(statement, own.recipe, own.sink, like)),
            list[str](),
        )

    def save(self, texts: Mapping[str, str]) -> None:
        """Keep bases by URN, once the catalog has acknowledged them."""
        if not texts:
            return
        own = self._database
        # In one order, so that two writers never wait for each other.
        rows = ((own.recipe, own.sink, urn, texts[urn]) for urn in sorted(texts))

        def save(engine: Engine) -> None:
            with write_transaction(engine) as connection:
                connection.execute_many(_SAVE_BASE, rows)

        own.attempt(save, None)


@dataclass(slots=True)
class _BegunWrites:
    """A batch of writes that have not ended, and whether the database has the same."""

    urns: set[str]
    is_saved: bool = False


class UnacknowledgedWrites:
    """The entities whose writes are under way, of one recipe in one catalog; from any thread.

    A service may fail after its database took a write and before its search index learns of it.
    Then an entity is stored and never found, until it is written again, with the same values too.

    Attributes:
        earlier: entities whose writes an earlier run began, whose end no run has seen, and that
            are not written again yet.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Keep them in `database` once it is started."""
        self._database = database
        self._lock = threading.Lock()
        self._batches: dict[str, _BegunWrites] = {}
        self.earlier: set[str] = set()

    def load(self) -> None:
        """Find what earlier runs left."""
        own = self._database
        statement = "SELECT id, urns FROM state_write WHERE recipe = ? AND sink = ?"
        rows = own.read(
            lambda connection: list(connection.execute(statement, own.recipe, own.sink)),
            list[tuple[Any, ...]](),
        )
        self._batches = {
            key: _BegunWrites({*urns.split("\n")}, is_saved=True) for key, urns in rows
        }
        self.earlier.update(self._unended())

    def _unended(self) -> set[str]:
        return set[str]().union(*(batch.urns for batch in self._batches.values()))

    def begin(self, urns: Collection[str], rows: Sequence[RecordRow] = ()) -> set[str]:
        """Keep that `urns` are about to be written, and `rows`; a run that is killed leaves them.

        Return those that no earlier write left, whose end is not known.

        Cost: one transaction, which also deletes those whose writes have ended since the last one.
        """
        with self._lock:
            new = set(urns).difference(self._unended())
            if urns:
                self._batches[uuid4().hex] = _BegunWrites(set(urns))
            # In one order, so that two writers never wait for each other.
            changed = {
                key: "\n".join(sorted(batch.urns))
                for key, batch in sorted(self._batches.items())
                if not batch.is_saved
            }
            self._database.attempt(lambda engine: self._save(engine, changed, rows), None)
            for key, text in changed.items():
                self._batches[key].is_saved = True
                if not text:
                    del self._batches[key]
        return new

    def end(self, urns: Collection[str]) -> None:
        """Take note that the catalog took or refused `urns`; the next `begin` deletes them."""
        with self._lock:
            for batch in self._batches.values():
                if not batch.urns.isdisjoint(urns):
                    batch.urns.difference_update(urns)
                    batch.is_saved = False
            self.earlier.difference_update(urns)

    def _save(self, engine: Engine, changed: Mapping[str, str], rows: Sequence[RecordRow]) -> None:
        own = self._database
        with write_transaction(engine) as connection:
            put(connection, rows)
            for key, text in changed.items():
                if text:
                    connection.execute(_SAVE_WRITE, own.recipe, own.sink, key, text)
                else:
                    connection.execute(_DELETE_WRITE, own.recipe, own.sink, key)
