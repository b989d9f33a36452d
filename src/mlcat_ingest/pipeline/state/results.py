"""The last results of metadata tests: which tests each entity passed and failed, and before."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, update

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import IN_LIST, in_lists
from mlcat_ingest.pipeline.state.tables import record, result, tested
from mlcat_ingest.sql.engine import write_rows, write_transaction

REMOVED: Final = 0
"""The result of an entity that is marked as removed: its tests are not evaluated any more."""

_NOTHING: Final = TestOutcome()

_SAVE_RESULT: Final = (
    "INSERT INTO state_result (id, passing, failing) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

# The result of the run before stays `before`, however often this run evaluates the entity, and
# also where it had none in between.
_SAVE: Final = (
    "INSERT INTO state_tested (recipe, sink, urn, result, before, run_ms)"
    " VALUES (?, ?, ?, ?, NULL, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET result = excluded.result,"
    " before = CASE WHEN state_tested.run_ms = excluded.run_ms OR state_tested.result IS NULL"
    " THEN state_tested.before ELSE state_tested.result END, run_ms = excluded.run_ms"
)


_EVALUATED: Final = (tested.c.result.is_not(None), tested.c.result != REMOVED)


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

    @property
    def lasting(self) -> bool:
        """True if later runs can read them."""
        return self._database.lasting

    def save(self, outcomes: Mapping[str, TestOutcome], removed: Iterable[str] = ()) -> None:
        """Keep the results of this run's evaluation; `removed` entities have none."""
        # Most entities pass and fail the same tests.
        numbers = {outcome: _id(outcome) for outcome in set(outcomes.values())}
        ids = {urn: numbers[outcome] for urn, outcome in outcomes.items()}
        results = {ids[urn]: outcome for urn, outcome in outcomes.items()}
        ids.update(dict.fromkeys(removed, REMOVED))
        self._save(ids, results)

    def save_missing(self, urns: Iterable[str]) -> None:
        """Keep that this run has no results of entities."""
        self._save(dict.fromkeys(urns), {})

    def save_tests(self, parts: Iterable[PartitionPass], digest: str) -> None:
        """Keep that all entities of `parts` were evaluated under the tests of `digest`."""

        def save(engine: Engine) -> None:
            for part in parts:
                part.save_tests(engine, digest)

        self._database.attempt(save, None)

    def _save(self, ids: Mapping[str, int | None], results: Mapping[int, TestOutcome]) -> None:
        if not ids:
            return

        def save(engine: Engine) -> None:
            with write_transaction(engine) as connection:
                if results:
                    rows = ((number, *_texts(outcome)) for number, outcome in results.items())
                    write_rows(connection, _SAVE_RESULT, rows)
                write_rows(connection, _SAVE, self._rows(ids))

        self._database.attempt(save, None)

    def _rows(self, ids: Mapping[str, int | None]) -> Iterator[tuple[Any, ...]]:
        own = self._database
        # In one order, so that two writers never wait for each other.
        for urn in sorted(ids):
            yield own.recipe, own.sink, urn, ids[urn], own.run_ms

    def invalidate(self, urns: Collection[str]) -> None:
        """Mark results as stale before a write; they are kept for the comparison with new ones.

        A run that is killed before it evaluates the entities leaves no old result.
        """
        if urns:
            self._database.attempt(lambda engine: self._invalidate(engine, urns), None)

    def _invalidate(self, engine: Engine, urns: Iterable[str]) -> None:
        run_ms = self._database.run_ms
        with write_transaction(engine) as connection:
            for batch in in_lists(sorted(urns)):
                connection.execute(
                    update(tested)
                    .where(
                        self._of_recipe(),
                        tested.c.urn.in_(batch),
                        tested.c.run_ms != run_ms,
                        tested.c.result.is_not(None),
                    )
                    .values(before=tested.c.result, result=None, run_ms=run_ms)
                )

    def groups(self) -> list[tuple[EntityResult, int]]:
        """Return each result that entities have, and how many have it.

        Cost: one pass over the table; memory for each result that differs.
        """
        with self._database.connect() as connection:
            known = _test_outcomes(connection)
            rows = connection.execute(
                select(*self._columns(), func.count())
                .where(self._of_recipe(), *_EVALUATED)
                .group_by(tested.c.result, tested.c.before, "fresh")
            )
            return [(_result(known, *key), count) for *key, count in rows]

    def count_without_result(self) -> int:
        """Return how many entities this run has no result for."""
        with self._database.connect() as connection:
            return connection.scalar(select(func.count()).where(*self._without())) or 0

    def entities_without_result(self) -> Iterator[str]:
        """Yield the entities that this run has no result for, in the order of their URNs."""
        statement = select(tested.c.urn).where(*self._without()).order_by(tested.c.urn)
        with self._database.connect() as connection:
            options = {"yield_per": IN_LIST}
            yield from connection.execute(statement, execution_options=options).scalars()

    def _without(self) -> tuple[ColumnElement[bool], ...]:
        return self._of_recipe(), tested.c.result.is_(None), self._of_this_run()

    def entities(self, match: Callable[[TestOutcome], bool]) -> Iterator[tuple[str, EntityResult]]:
        """Yield the entities whose outcomes `match`, in the order of their URNs.

        Cost: one statement, streamed; memory for each result that differs.
        """
        with self._database.connect() as connection:
            known = _test_outcomes(connection)
            ids = {number for number, outcome in known.items() if match(outcome)}
            if not ids:
                return
            few = [tested.c.result.in_(sorted(ids))] if len(ids) <= IN_LIST else []
            statement = (
                select(tested.c.urn, *self._columns())
                .where(self._of_recipe(), *_EVALUATED, *few)
                .order_by(tested.c.urn)
                .execution_options(yield_per=IN_LIST)
            )
            for urn, now, before, fresh in connection.execute(statement):
                if now in ids:
                    yield urn, _result(known, now, before, fresh)

    def _columns(self) -> tuple[ColumnElement[Any], ...]:
        return tested.c.result, tested.c.before, self._of_this_run().label("fresh")

    def present(self, urns: Sequence[str]) -> Sequence[str]:
        """Return those of `urns` that are not known to be removed. Cost: a statement for 500."""
        removed = self._database.attempt(
            lambda engine: self._urns_where(engine, urns, tested.c.result == REMOVED), set[str]()
        )
        return [urn for urn in urns if urn not in removed]

    def _urns_where(
        self, engine: Engine, urns: Iterable[str], condition: ColumnElement[bool]
    ) -> set[str]:
        matching: set[str] = set()
        with engine.connect() as connection:
            for batch in in_lists(urns):
                matching.update(
                    connection.scalars(
                        select(tested.c.urn).where(
                            self._of_recipe(), tested.c.urn.in_(batch), condition
                        )
                    )
                )
        return matching

    def urns_without_result(
        self, part_ids: Iterable[int], *, again: bool = False
    ) -> Iterator[list[str]]:
        """Yield entities of acknowledged records that no run has a result for, this one included.

        With `again` those too whose result an earlier run found. Some hundred at a time; what this
        run was refused a result for is left out, and what is marked as removed.

        Cost: two statements for each 500 records.
        """
        known = tested.c.result == REMOVED if again else tested.c.result.is_not(None)
        asked = or_(known, self._of_this_run())
        for part_id in part_ids:
            look = partial(self._next_without_result, part_id, asked)
            batch = self._database.attempt(partial(look, ("", "")), None)
            while batch is not None:
                last, urns = batch
                if urns:
                    yield urns
                batch = self._database.attempt(partial(look, last), None)

    def _next_without_result(
        self, part_id: int, asked: ColumnElement[bool], after: tuple[str, str], engine: Engine
    ) -> tuple[tuple[str, str], list[str]] | None:
        """Return kind and id of the last of the next 500 records, and their entities not `asked`.

        None where there are no more.
        """
        statement = (
            select(record.c.kind, record.c.id, record.c.urns, record.c.reason)
            .where(
                record.c.part_id == part_id,
                or_(
                    record.c.kind > after[0],
                    and_(record.c.kind == after[0], record.c.id > after[1]),
                ),
            )
            .order_by(record.c.kind, record.c.id)
            .limit(IN_LIST)
        )
        with engine.connect() as connection:
            rows = connection.execute(statement).all()
        if not rows:
            return None
        several = (row.urns.split("\n") for row in rows if row.urns and not row.reason)
        urns = list(dict.fromkeys(urn for joined in several for urn in joined))
        evaluated = self._urns_where(engine, urns, asked)
        return (rows[-1].kind, rows[-1].id), [urn for urn in urns if urn not in evaluated]

    def _of_recipe(self) -> ColumnElement[bool]:
        own = self._database
        return and_(tested.c.recipe == own.recipe, tested.c.sink == own.sink)

    def _of_this_run(self) -> ColumnElement[bool]:
        return tested.c.run_ms == self._database.run_ms


def failing_tests(engine: Engine, recipe: str, sink: str) -> dict[str, tuple[str, ...]]:
    """Return the tests that entities failed when they were last evaluated, by URN.

    Cost: memory for every entity that fails one.
    """
    with engine.connect() as connection:
        rows = connection.execute(
            select(tested.c.urn, result.c.failing)
            .join(result, result.c.id == tested.c.result)
            .where(tested.c.recipe == recipe, tested.c.sink == sink, result.c.failing != "[]")
        )
        return {urn: tuple(json.loads(tests)) for urn, tests in rows}


def _test_outcomes(connection: Connection) -> dict[int, TestOutcome]:
    return {
        number: TestOutcome(tuple(json.loads(passing)), tuple(json.loads(failing)))
        for number, passing, failing in connection.execute(select(result))
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
