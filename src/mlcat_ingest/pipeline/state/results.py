"""The last results of metadata tests: which tests each entity passed and failed, and before."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.records import IN_LIST, in_lists
from mlcat_ingest.sql.database import SqlConnection

REMOVED: Final = 0
"""The result of an entity that is marked as removed: its tests are not evaluated any more."""

_NOTHING: Final = TestOutcome()

_SAVE_RESULT: Final = (
    "INSERT INTO state_result (id, passing, failing) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

KEEPS_BEFORE: Final = (
    " before = CASE WHEN state_entity.run_ms = excluded.run_ms OR state_entity.result IS NULL"
    " THEN state_entity.before ELSE state_entity.result END"
)
"""The result of the run before stays `before`, however often this run writes or evaluates the
entity, and also where it had none in between."""

_SAVE: Final = (
    "INSERT INTO state_entity (recipe, sink, urn, result, run_ms) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET result = excluded.result,"
    f"{KEEPS_BEFORE}, run_ms = excluded.run_ms"
)
_EVALUATED: Final = (
    f"FROM state_entity WHERE recipe = ? AND sink = ? AND result <> {REMOVED} AND begun = 0"
)
_WITHOUT: Final = (
    "FROM state_entity WHERE recipe = ? AND sink = ? AND result IS NULL AND run_ms = ?"
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


class EvaluationResults:
    """The results of one recipe in one catalog, as one run keeps and reads them, from any thread.

    A result that cannot be kept is lost with the database, not the run. A database that fails
    while the results are read is the caller's error.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Keep them in `database` once it is started."""
        self._database = database

    def save(self, outcomes: Mapping[str, TestOutcome], missing: Iterable[str] = ()) -> None:
        """Keep the results of this run's evaluation, and that it has none of `missing` entities.

        Cost: one transaction if there are any.
        """
        own = self._database
        # Most entities pass and fail the same tests.
        numbers = {outcome: _id(outcome) for outcome in set(outcomes.values())}
        ids: dict[str, int | None] = dict.fromkeys(missing)
        ids.update((urn, numbers[outcome]) for urn, outcome in outcomes.items())

        def save(connection: SqlConnection) -> None:
            rows = ((number, *_texts(outcome)) for outcome, number in numbers.items())
            connection.execute_many(_SAVE_RESULT, rows)
            # In one order, so that two writers never wait for each other.
            connection.execute_many(
                _SAVE, ((own.recipe, own.sink, urn, ids[urn], own.run_ms) for urn in sorted(ids))
            )

        if ids:
            own.change(save)

    def groups(self) -> list[tuple[EntityResult, int]]:
        """Return each result that entities have, and how many have it.

        Cost: one pass over the table; memory for each result that differs.
        """
        own = self._database
        statement = (
            f"SELECT result, before, run_ms = ? AS fresh, count(*) {_EVALUATED}"
            " GROUP BY result, before, fresh"
        )
        with own.transaction() as connection:
            known = _test_outcomes(connection)
            rows = connection.execute(statement, own.run_ms, own.recipe, own.sink)
            return [(_result(known, *key), count) for *key, count in rows]

    def count_without_result(self) -> int:
        """Return how many entities this run has no result for."""
        with self._database.transaction() as connection:
            return int(connection.scalar(f"SELECT count(*) {_WITHOUT}", *self._own_run))

    def entities_without_result(self) -> Iterator[str]:
        """Yield the entities that this run has no result for, in the order of their URNs."""
        statement = f"SELECT urn {_WITHOUT} ORDER BY urn"
        with self._database.transaction() as connection:
            yield from connection.scalars(statement, *self._own_run, stream=True)

    @property
    def _own_run(self) -> tuple[str, str, int]:
        return self._database.recipe, self._database.sink, self._database.run_ms

    def entities(self, match: Callable[[TestOutcome], bool]) -> Iterator[tuple[str, EntityResult]]:
        """Yield the entities whose outcomes `match`, in the order of their URNs.

        Cost: one statement, streamed; memory for each result that differs.
        """
        own = self._database
        with own.transaction() as connection:
            known = _test_outcomes(connection)
            ids = {number for number, outcome in known.items() if match(outcome)}
            if not ids:
                return
            few = [sorted(ids)] if len(ids) <= IN_LIST else []
            statement = (
                f"SELECT urn, result, before, run_ms = ? {_EVALUATED}"
                f"{' AND result IN ?' if few else ''} ORDER BY urn"
            )
            values = own.run_ms, own.recipe, own.sink, *few
            for urn, now, before, fresh in connection.execute(statement, *values, stream=True):
                if now in ids:
                    yield urn, _result(known, now, before, fresh)

    def removed(self, urns: Sequence[str]) -> set[str]:
        """Return those of `urns` that are known to be removed. Cost: a statement for each 500."""
        return self._database.read(
            lambda connection: self._urns_where(connection, urns, f"result = {REMOVED}"), set[str]()
        )

    def _urns_where(
        self, connection: SqlConnection, urns: Iterable[str], condition: str
    ) -> set[str]:
        own = self._database
        statement = (
            "SELECT urn FROM state_entity WHERE recipe = ? AND sink = ? AND urn IN ?"
            f" AND ({condition})"
        )
        matching: set[str] = set()
        for batch in in_lists(urns):
            matching.update(connection.scalars(statement, own.recipe, own.sink, batch))
        return matching

    def urns_without_result(
        self, part_ids: Iterable[int], *, again: bool = False
    ) -> Iterator[list[str]]:
        """Yield entities of acknowledged records that no run has a result for, this one included.

        With `again` those too whose result an earlier run found. Some hundred at a time; what this
        run was refused a result for is left out, and what is marked as removed.

        Cost: two statements for each 500 records.
        """
        known = f"result = {REMOVED}" + ("" if again else " OR begun = 0 AND result IS NOT NULL")
        asked = f"{known} OR run_ms = {self._database.run_ms}"
        for part_id in part_ids:
            look = partial(self._next_without_result, part_id, asked)
            batch = self._database.read(partial(look, ("", "")), None)
            while batch is not None:
                last, urns = batch
                if urns:
                    yield urns
                batch = self._database.read(partial(look, last), None)

    def _next_without_result(
        self, part_id: int, asked: str, after: tuple[str, str], connection: SqlConnection
    ) -> tuple[tuple[str, str], list[str]] | None:
        """Return kind and id of the last of the next 500 records, and their entities not `asked`.

        None where there are no more.
        """
        kind, last = after
        rows = list(connection.execute(_NEXT_RECORDS, part_id, kind, kind, last, IN_LIST))
        if not rows:
            return None
        several = (joined.split("\n") for _, _, joined, reason in rows if joined and not reason)
        urns = list(dict.fromkeys(urn for joined in several for urn in joined))
        evaluated = self._urns_where(connection, urns, asked)
        kind, last, *_ = rows[-1]
        return (kind, last), [urn for urn in urns if urn not in evaluated]


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
