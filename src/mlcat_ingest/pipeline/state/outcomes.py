"""The last results of metadata tests: which tests each entity passed and failed, and before."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, update

from mlcat_ingest.pipeline.state.tables import record, result, tested
from mlcat_ingest.sinks.base import TestOutcome
from mlcat_ingest.sql.engine import write_rows, write_transaction

IN_LIST: Final = 500
"""Most values in one IN list."""

REMOVED: Final = 0
"""The result of an entity that is marked as removed: nobody asks for its tests any more."""

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
class Result:
    """What an entity passed and failed, and what before; `fresh` if this run evaluated it."""

    outcome: TestOutcome
    before: TestOutcome
    fresh: bool

    @property
    def newly_failing(self) -> frozenset[str]:
        """The tests that it fails in this run, and did not fail in the one before."""
        if not self.fresh:
            return frozenset()
        return frozenset(self.outcome.failing) - frozenset(self.before.failing)


class Outcomes:
    """The results of one recipe in one catalog, as one run keeps and reads them."""

    def __init__(self, engine: Engine, recipe: str, sink: str, run_ms: int) -> None:
        """Keep them in `engine`; `run_ms` tells this run from others."""
        self._engine = engine
        self._recipe = recipe
        self._sink = sink
        self._run_ms = run_ms

    def save(self, outcomes: Mapping[str, TestOutcome], removed: Iterable[str] = ()) -> None:
        """Keep the results of this run's evaluation; what is `removed` fails nothing any more."""
        # Most entities pass and fail the same tests.
        numbers = {outcome: _id(outcome) for outcome in set(outcomes.values())}
        ids = {urn: numbers[outcome] for urn, outcome in outcomes.items()}
        results = {ids[urn]: outcome for urn, outcome in outcomes.items()}
        ids.update(dict.fromkeys(removed, REMOVED))
        if not ids:
            return
        with write_transaction(self._engine) as connection:
            if results:
                rows = ((number, *_texts(outcome)) for number, outcome in results.items())
                write_rows(connection, _SAVE_RESULT, rows)
            write_rows(connection, _SAVE, self._rows(ids))

    def without_result(self, urns: Iterable[str]) -> None:
        """Keep that this run asked for results of entities, or should have, and got none."""
        with write_transaction(self._engine) as connection:
            write_rows(connection, _SAVE, self._rows(dict.fromkeys(urns)))

    def _rows(self, ids: Mapping[str, int | None]) -> Iterator[tuple[Any, ...]]:
        # In one order, so that two writers never wait for each other.
        for urn in sorted(ids):
            yield self._recipe, self._sink, urn, ids[urn], self._run_ms

    def outdate(self, urns: Iterable[str]) -> None:
        """Forget what earlier runs found of entities, but for what is compared with."""
        with write_transaction(self._engine) as connection:
            for some in _pieces(sorted(set(urns))):
                connection.execute(
                    update(tested)
                    .where(
                        self._own(),
                        tested.c.urn.in_(some),
                        tested.c.run_ms != self._run_ms,
                        tested.c.result.is_not(None),
                    )
                    .values(before=tested.c.result, result=None, run_ms=self._run_ms)
                )

    def groups(self) -> list[tuple[Result, int]]:
        """Return each result that entities have, and how many have it.

        Cost: one pass over the table; memory for each result that differs.
        """
        with self._engine.connect() as connection:
            known = _known(connection)
            rows = connection.execute(
                select(*self._columns(), func.count())
                .where(self._own(), *_EVALUATED)
                .group_by(tested.c.result, tested.c.before, "fresh")
            )
            return [(_result(known, *key), count) for *key, count in rows]

    def unevaluated(self) -> int:
        """Return how many entities this run has no result for."""
        with self._engine.connect() as connection:
            return connection.scalar(select(func.count()).where(*self._without())) or 0

    def unevaluated_entities(self) -> Iterator[str]:
        """Yield the entities that this run has no result for, in the order of their URNs."""
        statement = select(tested.c.urn).where(*self._without()).order_by(tested.c.urn)
        with self._engine.connect() as connection:
            options = {"yield_per": IN_LIST}
            yield from connection.execute(statement, execution_options=options).scalars()

    def _without(self) -> tuple[ColumnElement[bool], ...]:
        return self._own(), tested.c.result.is_(None), tested.c.run_ms == self._run_ms

    def entities(self, wanted: Callable[[TestOutcome], bool]) -> Iterator[tuple[str, Result]]:
        """Yield the entities whose outcome is `wanted`, in the order of their URNs.

        Cost: one statement, streamed; memory for each result that differs.
        """
        with self._engine.connect() as connection:
            known = _known(connection)
            ids = {number for number, outcome in known.items() if wanted(outcome)}
            if not ids:
                return
            few = [tested.c.result.in_(sorted(ids))] if len(ids) <= IN_LIST else []
            statement = (
                select(tested.c.urn, *self._columns())
                .where(self._own(), *_EVALUATED, *few)
                .order_by(tested.c.urn)
                .execution_options(yield_per=IN_LIST)
            )
            for urn, now, before, fresh in connection.execute(statement):
                if now in ids:
                    yield urn, _result(known, now, before, fresh)

    def _columns(self) -> tuple[ColumnElement[Any], ...]:
        return tested.c.result, tested.c.before, (tested.c.run_ms == self._run_ms).label("fresh")

    def removed(self, urns: Sequence[str]) -> set[str]:
        """Return those of `urns` that are marked as removed."""
        return self._where(urns, tested.c.result == REMOVED)

    def _where(self, urns: Sequence[str], condition: ColumnElement[bool]) -> set[str]:
        found: set[str] = set()
        with self._engine.connect() as connection:
            for some in _pieces(urns):
                found.update(
                    connection.scalars(
                        select(tested.c.urn).where(self._own(), tested.c.urn.in_(some), condition)
                    )
                )
        return found

    def untested(self, part_ids: Iterable[int], *, again: bool = False) -> Iterator[list[str]]:
        """Yield entities of acknowledged records that no run has a result for, this one included.

        With `again` those too whose result an earlier run found. Some hundred at a time; what this
        run was refused a result for is left out, and what is marked as removed.

        Cost: two statements for each 500 records.
        """
        known = tested.c.result == REMOVED if again else tested.c.result.is_not(None)
        asked = or_(known, tested.c.run_ms == self._run_ms)
        for part_id in part_ids:
            for urns in self._acknowledged(part_id):
                found = self._where(urns, asked)
                without = [urn for urn in urns if urn not in found]
                if without:
                    yield without

    def _acknowledged(self, part_id: int) -> Iterator[list[str]]:
        """Yield the entities of a part's records, those of 500 records at a time."""
        after = ("", "")
        while True:
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
            with self._engine.connect() as connection:
                rows = connection.execute(statement).all()
            if not rows:
                return
            after = (rows[-1].kind, rows[-1].id)
            urns = (row.urns.split("\n") for row in rows if row.urns and not row.reason)
            yield list(dict.fromkeys(urn for some in urns for urn in some))

    def _own(self) -> ColumnElement[bool]:
        return and_(tested.c.recipe == self._recipe, tested.c.sink == self._sink)


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


def _known(connection: Connection) -> dict[int, TestOutcome]:
    return {
        number: TestOutcome(tuple(json.loads(passing)), tuple(json.loads(failing)))
        for number, passing, failing in connection.execute(select(result))
    }


def _result(
    known: Mapping[int, TestOutcome], now: int, before: int | None, fresh: object
) -> Result:
    earlier = _NOTHING if before is None else known.get(before, _NOTHING)
    return Result(known.get(now, _NOTHING), earlier, bool(fresh))


def _id(outcome: TestOutcome) -> int:
    """Return the number of a result: 63 bits of a hash, and never that of what is removed."""
    digest = hashlib.sha256(json.dumps(_texts(outcome)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1


def _texts(outcome: TestOutcome) -> tuple[str, str]:
    return json.dumps(sorted(set(outcome.passing))), json.dumps(sorted(set(outcome.failing)))


def _pieces(urns: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(urns), IN_LIST):
        yield urns[start : start + IN_LIST]
