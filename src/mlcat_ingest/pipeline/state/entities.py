"""The entities that state knows: their bases, unfinished writes, absences and test results."""

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from mlcat_ingest.client.base import StoredEntity, TestOutcome
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import CUSTOM, custom_properties
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of
from mlcat_ingest.pipeline.merge.applied import applied_key, decode, encode, writer_id_of
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.state import records
from mlcat_ingest.pipeline.state.database import IN_LIST, RunDatabase
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.pipeline.state.stamps import has_forked, is_before
from mlcat_ingest.pipeline.state.tables import upsert
from mlcat_ingest.sql.database import SqlConnection

REMOVED: Final = 0
"""The result of an entity that is marked as removed: its tests are not evaluated any more."""

_NOTHING: Final = TestOutcome()

_OWN: Final = "FROM state_entity WHERE recipe = ? AND sink = ?"
_EVALUATED: Final = f"{_OWN} AND result <> {REMOVED} AND begun = 0"
_WITHOUT: Final = f"{_OWN} AND result IS NULL AND run_ms = ?"
_END: Final = "UPDATE state_entity SET begun = 0 WHERE recipe = ? AND sink = ? AND urn = ?"
_PRESENT: Final = "UPDATE state_entity SET absent_from = NULL WHERE absent_from = ?"

_save = partial(upsert, "state_entity", "recipe sink urn")
_BEGIN: Final = _save("begun")
_SAVE_BASE: Final = _save("base")
_SAVE_ABSENT: Final = _save("absent_from")

# The result of the run before stays `before`, however often this run writes or evaluates the
# entity, and also where it had none in between.
_KEEPS_BEFORE: Final = (
    "CASE WHEN state_entity.run_ms = excluded.run_ms OR state_entity.result IS NULL"
    " THEN state_entity.before ELSE state_entity.result END"
)
_SAVE_RESULT: Final = _save("result run_ms", before=_KEEPS_BEFORE)
_SAVE_OUTCOME: Final = (
    "INSERT INTO state_result (id, passing, failing) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

_WITH_BASE: Final = "CASE WHEN excluded.base = '' THEN state_entity.{0} ELSE excluded.{0} END"
_SETTLE: Final = _save(
    "base stamps begun result run_ms",
    base=_WITH_BASE.format("base"),
    stamps=_WITH_BASE.format("stamps"),
    before=_KEEPS_BEFORE,
    # Of an entity that is new, or was never evaluated, it stays 0: this run was refused no result.
    run_ms="CASE WHEN state_entity.result IS NULL AND excluded.result IS NULL"
    " THEN state_entity.run_ms ELSE excluded.run_ms END",
)
_NEXT_RECORDS: Final = (
    "SELECT kind, id, urns, reason FROM state_record WHERE part_id = ?"
    " AND (kind > ? OR (kind = ? AND id > ?)) ORDER BY kind, id LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class EntityResult:
    """The tests that an entity passed and failed, now and before; `fresh` if of this run."""

    outcome: TestOutcome
    before: TestOutcome
    fresh: bool

    @property
    def newly_failing(self) -> frozenset[str]:
        """The tests that it fails in this run, and did not fail in the one before."""
        if not self.fresh:
            return frozenset()
        return frozenset(self.outcome.failing) - frozenset(self.before.failing)


class KnownEntities:
    """The entities of one recipe in one catalog, as one run knows and keeps them, from any thread.

    A base or a result that cannot be kept or read is one that the state does not know. A database
    that fails while entities or results are listed is the caller's error: removals and the quality
    gate depend on it.

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
        self._begun = set(self._urns_of(f"SELECT urn {_OWN} AND begun <> 0"))
        self._ended: set[str] = set()
        self.earlier = set(self._begun)
        self.has_no_base = not self._urns_of(f"SELECT urn {_OWN} AND base <> '' LIMIT 1")

    def base(self, urn: str) -> str | None:
        """Return the base of an entity as it was last written. Cost: one statement."""
        texts = self._urns_of(f"SELECT base {_OWN} AND urn = ? AND base <> ''", urn)
        return texts[0] if texts else None

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
        Of an aspect that went back too, the base that came back is right, edited since or not.

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
        if not held:
            return stored
        stamped = f"SELECT urn, base, stamps {_OWN} AND base <> '' AND stamps <> '' AND urn IN ?"
        known = self._database.select(
            lambda urn, text, stamps: (urn, text, loads(stamps)),
            stamped,
            *self._database.key,
            among=held,
        )
        for urn, text, stamps in known:
            name, main = held[urn]
            if is_before(main.stamp, stamps.get(name)):
                custom = custom_properties(main.value)
                before, newer = decode(custom[key]) or {}, decode(text) or {}
                here = stored[urn]
                stays = {one for one in here if not has_forked(here[one].stamp, stamps.get(one))}
                base = {**before, **{one: newer[one] for one in newer if one in stays}}
                custom = {**custom, key: encode(base, writer_id_of(custom[key]))}
                stored[urn] = {**here, name: replace(main, value={**main.value, CUSTOM: custom})}
        return stored

    def _urns_of(
        self, statement: str, *values: object, among: Iterable[str] | None = None
    ) -> list[str]:
        return self._database.select(str, statement, *self._database.key, *values, among=among)

    def save_bases(self, unchanged: Iterable[MergedEntity]) -> None:
        """Keep the bases of entities that the catalog holds as they are."""
        if texts := bases_of(unchanged):
            self._database.save((_SAVE_BASE, self._rows(texts.items())))

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        # In one order, so that two writers never wait for each other.
        return [(*self._database.key, *row) for row in sorted(rows)]

    def begin(self, urns: Collection[str], rows: Sequence[RecordRow] = ()) -> set[str]:
        """Keep that `urns` are about to be written, and `rows`; a run that is killed leaves them.

        Return those that no earlier write left, whose end is not known.

        Cost: one transaction, which also saves which writes have ended since the last one.
        """
        with self._lock:
            new = set(urns).difference(self._begun)
            ended, self._ended = self._ended - new, set()
            self._begun |= new
            if new or ended or rows:
                self._database.save(
                    (records.SAVE, rows),
                    (_BEGIN, self._rows((urn, 1) for urn in new)),
                    (_END, self._rows((urn,) for urn in ended)),
                )
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
            settled = self._rows(
                (
                    one.urn,
                    bases.get(one.urn, ""),
                    dumps(one.stamps).decode() if one.stamps else "",
                    int(one.urn in self._begun),
                    REMOVED if one.urn in removed else None,
                    run_ms,
                )
                for one in outcomes
            )
            self._database.save((records.SAVE, rows), (_SETTLE, settled))

    def urns(
        self, part: PartitionPass, *, listed: bool = True, clean: bool = False
    ) -> Iterator[str]:
        """Yield the entities that this pass over `part` `listed`, or that only earlier ones did.

        All that it listed is acknowledged; of `clean` ones nothing was refused.

        Raises:
            StateUnavailableError: the database fails.
        """
        statement = (
            "SELECT urns FROM state_record WHERE part_id = ? AND urns <> ''"
            f" AND seen_in_pass {'=' if listed else '<>'} ?"
        )
        if clean:
            statement += " AND reason = ''"
        with self._database.transaction() as connection:
            for urns in connection.scalars(statement, part.part_id, part.number, stream=True):
                yield from urns.split("\n")

    def record_count(self, part: PartitionPass) -> int:
        """Return how many records of `part` are known."""
        statement = "SELECT count(*) FROM state_record WHERE part_id = ?"
        return sum(self._database.select(int, statement, part.part_id))

    def absent_urns(self, part: PartitionPass) -> set[str]:
        """Return the entities that the last complete pass over `part` lacked."""
        return set(self._urns_of(f"SELECT urn {_OWN} AND absent_from = ?", part.part_id))

    def replace_absent(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Keep that this complete pass over `part` lacked `urns`, and no others."""
        absent = self._rows((urn, part.part_id) for urn in set(urns))
        self._database.save((_PRESENT, [(part.part_id,)]), (_SAVE_ABSENT, absent))

    def delete(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Delete what is known of entities that are removed, so that they can come back."""
        self._database.change(partial(records.delete_entities, part_id=part.part_id, urns=urns))

    def save_results(
        self, outcomes: Mapping[str, TestOutcome], missing: Iterable[str] = ()
    ) -> None:
        """Keep the results of this run's evaluation, and that it has none of `missing` entities.

        Cost: one transaction if there are any.
        """
        # Most entities pass and fail the same tests.
        numbers = {outcome: _id(outcome) for outcome in set(outcomes.values())}
        ids: dict[str, int | None] = dict.fromkeys(missing)
        ids.update((urn, numbers[outcome]) for urn, outcome in outcomes.items())
        if ids:
            run_ms = self._database.run_ms
            self._database.save(
                (_SAVE_OUTCOME, [(id_, *_texts(outcome)) for outcome, id_ in numbers.items()]),
                (_SAVE_RESULT, self._rows((urn, ids[urn], run_ms) for urn in ids)),
            )

    def results(self) -> list[tuple[EntityResult, int]]:
        """Return each result that entities have, and how many have it.

        Cost: one pass over the table; memory for each result that differs.
        """
        statement = (
            f"SELECT result, before, run_ms = ? AS fresh, count(*) {_EVALUATED}"
            " GROUP BY result, before, fresh"
        )
        with self._database.transaction() as connection:
            known = _test_outcomes(connection)
            rows = connection.execute(statement, self._database.run_ms, *self._database.key)
            return [(_result(known, *key), count) for *key, count in rows]

    def count_without_result(self) -> int:
        """Return how many entities this run has no result for."""
        statement, run_ms = f"SELECT count(*) {_WITHOUT}", self._database.run_ms
        with self._database.transaction() as connection:
            return int(connection.scalar(statement, *self._database.key, run_ms))

    def without_result(self) -> Iterator[str]:
        """Yield the entities that this run has no result for, in the order of their URNs."""
        statement, run_ms = f"SELECT urn {_WITHOUT} ORDER BY urn", self._database.run_ms
        with self._database.transaction() as connection:
            yield from connection.scalars(statement, *self._database.key, run_ms, stream=True)

    def with_result(
        self, match: Callable[[TestOutcome], bool]
    ) -> Iterator[tuple[str, EntityResult]]:
        """Yield the entities whose outcomes `match`, in the order of their URNs.

        Cost: one statement, streamed; memory for each result that differs.
        """
        with self._database.transaction() as connection:
            known = _test_outcomes(connection)
            ids = {number for number, outcome in known.items() if match(outcome)}
            if not ids:
                return
            few = [sorted(ids)] if len(ids) <= IN_LIST else []
            statement = (
                f"SELECT urn, result, before, run_ms = ? {_EVALUATED}"
                f"{' AND result IN ?' if few else ''} ORDER BY urn"
            )
            values = self._database.run_ms, *self._database.key, *few
            for urn, now, before, fresh in connection.execute(statement, *values, stream=True):
                if now in ids:
                    yield urn, _result(known, now, before, fresh)

    def removed(self, urns: Iterable[str]) -> set[str]:
        """Return those of `urns` that are known to be removed. Cost: a statement for each 500."""
        statement = f"SELECT urn {_OWN} AND result = {REMOVED} AND urn IN ?"
        return set(self._urns_of(statement, among=urns))

    def urns_without_result(self, part_id: int, *, again: bool = False) -> Iterator[list[str]]:
        """Yield entities of acknowledged records that no run has a result for, this one included.

        With `again` those too whose result an earlier run found. Some hundred at a time; what this
        run was refused a result for is left out, and what is marked as removed.

        Cost: two statements for each 500 records of the part.
        """
        known = f"result = {REMOVED}" + ("" if again else " OR begun = 0 AND result IS NOT NULL")
        asked = f"SELECT urn {_OWN} AND (run_ms = ? OR {known}) AND urn IN ?"
        kind = last = ""
        while rows := self._database.select(
            _unrefused, _NEXT_RECORDS, part_id, kind, kind, last, IN_LIST
        ):
            urns = dict.fromkeys(urn for *_, several in rows for urn in several)
            known_urns = {*self._urns_of(asked, self._database.run_ms, among=urns)}
            left = [urn for urn in urns if urn not in known_urns]
            if left and self._database.engine is not None:
                yield left
            kind, last, _ = rows[-1]


def _unrefused(kind: str, id_: str, urns: str, reason: str) -> tuple[str, str, list[str]]:
    return kind, id_, urns.split("\n") if urns and not reason else []


def failing_tests(connection: SqlConnection, recipe: str, sink: str) -> dict[str, tuple[str, ...]]:
    """Return the tests that entities failed when they were last evaluated, by URN.

    Cost: memory for every entity that fails one.
    """
    rows = connection.execute(
        "SELECT urn, failing FROM state_entity JOIN state_result ON id = result"
        " WHERE recipe = ? AND sink = ? AND failing <> '[]' AND begun = 0",
        *(recipe, sink),
    )
    return {urn: tuple(json.loads(tests)) for urn, tests in rows}


def _test_outcomes(connection: SqlConnection) -> dict[int, TestOutcome]:
    return {
        number: TestOutcome(tuple(json.loads(passing)), tuple(json.loads(failing)))
        for number, passing, failing in connection.execute(
            "SELECT id, passing, failing FROM state_result"
        )
    }


def _result(
    known: Mapping[int, TestOutcome], now: int, before: int | None, fresh: object
) -> EntityResult:
    earlier = _NOTHING if before is None else known.get(before, _NOTHING)
    return EntityResult(known.get(now, _NOTHING), earlier, bool(fresh))


def _id(outcome: TestOutcome) -> int:
    """Return the number of a result: 63 bits of a hash, and never that of what is removed."""
    digest = hashlib.sha256(json.dumps(_texts(outcome)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1


def _texts(outcome: TestOutcome) -> tuple[str, str]:
    return json.dumps(sorted(set(outcome.passing))), json.dumps(sorted(set(outcome.failing)))
