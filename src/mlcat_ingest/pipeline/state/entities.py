"""The entities that state knows: of each partition, their bases, and their unfinished writes."""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of
from mlcat_ingest.pipeline.merge.applied import applied_key, decode, encode, writer_id_of
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of
from mlcat_ingest.pipeline.merge.provenance import CUSTOM, custom_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.outcome import Outcome, Stamps
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import RecordRow, delete_entities, in_lists, put
from mlcat_ingest.pipeline.state.results import KEEPS_BEFORE, REMOVED
from mlcat_ingest.pipeline.state.stamps import is_before
from mlcat_ingest.sql.database import SqlConnection

_OWN: Final = "FROM state_entity WHERE recipe = ? AND sink = ?"
_BEGIN: Final = (
    "INSERT INTO state_entity (recipe, sink, urn, begun) VALUES (?, ?, ?, 1)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET begun = 1"
)
_END: Final = "UPDATE state_entity SET begun = 0 WHERE recipe = ? AND sink = ? AND urn IN ?"
_SAVE_BASE: Final = (
    "INSERT INTO state_entity (recipe, sink, urn, base) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET base = excluded.base"
)

# The run of an entity that is new, or was never evaluated, stays 0: this run was refused no result.
_SETTLE: Final = (
    "INSERT INTO state_entity (recipe, sink, urn, base, stamps, begun, result, run_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (recipe, sink, urn) DO UPDATE SET"
    " base = CASE WHEN excluded.base = '' THEN state_entity.base ELSE excluded.base END,"
    " stamps = CASE WHEN excluded.base = '' THEN state_entity.stamps ELSE excluded.stamps END,"
    f" begun = excluded.begun, result = excluded.result,{KEEPS_BEFORE},"
    " run_ms = CASE WHEN state_entity.result IS NULL AND excluded.result IS NULL"
    " THEN state_entity.run_ms ELSE excluded.run_ms END"
)
_PRESENT: Final = "UPDATE state_entity SET absent_from = NULL WHERE absent_from = ?"
_SAVE_ABSENT: Final = (
    "INSERT INTO state_entity (recipe, sink, urn, absent_from) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET absent_from = excluded.absent_from"
)


class KnownEntities:
    """The entities of one recipe in one catalog, as one run knows and keeps them, from any thread.

    A base that cannot be kept or read is one that the state does not know. A database that fails
    while entities are listed is an error: removals depend on it.

    A service may fail after its database took a write and before its search index learns of it.
    Then an entity is stored and never found, until it is written again, with the same values too.

    Attributes:
        earlier: entities whose writes an earlier run began, whose end no run has seen, and that
            are not written again yet.
        has_no_base: True where an earlier run kept none: then those of unchanged entities are
            missing too.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Find what earlier runs left, if `database` is started. Cost: two statements."""
        self._database = database
        self._lock = threading.Lock()
        self._renamed: dict[PartitionPass, list[str]] = {}
        self._begun = set(self._urns_of(f"SELECT urn {_OWN} AND begun <> 0"))
        self._ended: set[str] = set()
        self.earlier = set(self._begun)
        self.has_no_base = not self._urns_of(f"SELECT urn {_OWN} AND base <> '' LIMIT 1")

    def base(self, urn: str) -> str | None:
        """Return the base of an entity as it was last written. Cost: one statement."""
        texts = self._urns_of(f"SELECT base {_OWN} AND urn = ? AND base <> ''", urn)
        return texts[0] if texts else None

    def _stamped_bases(self, urns: Iterable[str]) -> dict[str, tuple[str, Stamps]]:
        """Return the bases of entities, with the stamps of their aspects when these were written.

        Cost: a statement for each 500.
        """
        statement = f"SELECT urn, base, stamps {_OWN} AND urn IN ? AND base <> '' AND stamps <> ''"

        def read(connection: SqlConnection) -> dict[str, tuple[str, Stamps]]:
            found = (connection.execute(statement, *self._own, batch) for batch in in_lists(urns))
            return {urn: (base, loads(text)) for urn, base, text in chain.from_iterable(found)}

        return self._database.read(read, {})

    def with_base(self, entity_type: str) -> list[str]:
        """Return the entities of a type that have a base. Cost: one statement."""
        like = f"{PREFIX}{entity_type}:%"
        return self._urns_of(f"SELECT urn {_OWN} AND urn LIKE ? AND base <> ''", like)

    def with_newest_bases(
        self, stored: dict[str, StoredEntity], writer: Writer
    ) -> dict[str, StoredEntity]:
        """Return `stored` entities with what the state knows of an older base of the writer.

        A rollback of a run brings the base back that was before, with the properties; entries of
        the newer one, in an aspect that a person has changed since, would count as the person's.
        Of an aspect that went back too, the base that came back is the right one.

        Cost: a statement for each 500 entities that have a base of the writer.
        """
        key = applied_key(writer.name)
        held = {
            urn: (name, main)
            for urn, entity in stored.items()
            if (main := entity.get(name := properties_aspect(entity_type_of(urn))))
            and key in (custom := custom_properties(main.value))
            and writer.is_own(writer_id_of(custom[key]))
        }
        known = self._stamped_bases(held) if held else {}
        for urn, (text, stamps) in known.items():
            name, main = held[urn]
            gone_back = {
                one for one, held_ in stored[urn].items() if is_before(held_.stamp, stamps.get(one))
            }
            if name in gone_back:
                custom = custom_properties(main.value)
                before, newer = decode(custom[key]) or {}, decode(text) or {}
                stays = stored[urn].keys() - gone_back
                base = {**before, **{one: newer[one] for one in newer if one in stays}}
                custom = {**custom, key: encode(base, writer_id_of(custom[key]))}
                stored[urn] = {
                    **stored[urn],
                    name: replace(main, value={**main.value, CUSTOM: custom}),
                }
        return stored

    def _urns_of(self, statement: str, *values: object) -> list[str]:
        return self._database.read(
            lambda connection: list(connection.scalars(statement, *self._own, *values)),
            list[str](),
        )

    @property
    def _own(self) -> tuple[str, str]:
        return self._database.recipe, self._database.sink

    def save_bases(self, unchanged: Iterable[MergedEntity]) -> None:
        """Keep the bases of entities that the catalog holds as they are."""
        if texts := bases_of(unchanged):
            self._database.change(
                lambda connection: self._put(connection, _SAVE_BASE, texts.items())
            )

    def _put(
        self, connection: SqlConnection, statement: str, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        # In one order, so that two writers never wait for each other.
        connection.execute_many(statement, ((*self._own, *row) for row in sorted(rows)))

    def begin(self, urns: Collection[str], rows: Sequence[RecordRow] = ()) -> set[str]:
        """Keep that `urns` are about to be written, and `rows`; a run that is killed leaves them.

        Return those that no earlier write left, whose end is not known.

        Cost: one transaction, which also saves which writes have ended since the last one.
        """
        with self._lock:
            new = set(urns).difference(self._begun)
            ended, self._ended = self._ended - new, set()
            self._begun |= new

            def begin(connection: SqlConnection) -> None:
                put(connection, rows)
                self._put(connection, _BEGIN, ((urn,) for urn in new))
                for batch in in_lists(ended):
                    connection.execute(_END, *self._own, batch)

            if new or ended or rows:
                self._database.change(begin)
        return new

    def end(self, urns: Iterable[str]) -> None:
        """Take note that the catalog took or refused `urns`; `settle` or `begin` saves it."""
        with self._lock:
            ended = self._begun.intersection(urns)
            self._begun -= ended
            self._ended |= ended
            self.earlier -= ended

    def settle(self, outcomes: Sequence[Outcome], rows: Sequence[RecordRow]) -> None:
        """Keep what became of a batch of writes, and `rows`.

        Removed entities are not evaluated any more, and earlier results of the others do not count.

        Cost: one transaction.
        """
        run_ms = self._database.run_ms
        arrived = [outcome for outcome in outcomes if not outcome.refusals]
        bases = bases_of(outcome.merged for outcome in arrived)
        removed = {outcome.urn for outcome in arrived if outcome.merged.is_removed}
        with self._lock:
            self._ended.difference_update(outcome.urn for outcome in outcomes)
            settled = [
                (
                    *(urn, bases.get(urn, ""), _text(stamps), int(urn in self._begun)),
                    *(REMOVED if urn in removed else None, run_ms),
                )
                for urn, stamps in ((outcome.urn, outcome.stamps) for outcome in outcomes)
            ]

            def settle(connection: SqlConnection) -> None:
                put(connection, rows)
                self._put(connection, _SETTLE, settled)

            self._database.change(settle)

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
        statement = (
            f"SELECT urns FROM state_record WHERE part_id = ? AND urns <> '' AND {condition}"
        )
        with self._database.transaction() as connection:
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
        statement = "SELECT count(*) FROM state_record WHERE part_id = ?"
        return self._database.read(
            lambda connection: int(connection.scalar(statement, part.part_id)), 0
        )

    def absent_urns(self, part: PartitionPass) -> set[str]:
        """Return the entities that the last complete pass over `part` lacked."""
        return set(self._urns_of(f"SELECT urn {_OWN} AND absent_from = ?", part.part_id))

    def replace_absent(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Keep that this complete pass over `part` lacked `urns`, and no others."""
        rows = [(urn, part.part_id) for urn in dict.fromkeys(urns)]

        def replace(connection: SqlConnection) -> None:
            connection.execute(_PRESENT, part.part_id)
            self._put(connection, _SAVE_ABSENT, rows)

        self._database.change(replace)

    def delete(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Delete what is known of entities that are removed, so that they can come back."""
        self._database.change(lambda connection: delete_entities(connection, part.part_id, urns))


def _text(stamps: Stamps | None) -> str:
    return dumps(stamps).decode() if stamps else ""
