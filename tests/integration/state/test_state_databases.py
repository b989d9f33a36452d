"""State on the databases that may hold it: the same on SQLite and on PostgreSQL."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping

import pytest

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.errors import RecipeError, RecipeLockedError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.state import locks, partitions, records
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.entities import EntityResult, KnownEntities, failing_tests
from mlcat_ingest.pipeline.state.inspection import reset, state_findings, summary
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import Counts, PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.sql.database import Engine, SqlConnection
from mlcat_ingest.sql.filelock import FileLock

KEY = PartitionKey("r", "http://catalog", "mlflow:0123:default", "")


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_state(url)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine) -> Iterator[SqlConnection]:
    with engine.transaction(write=True) as connection:
        yield connection


def row(part_id: int, one: str, *, digest: str = "d", kind: str = "run", **more: str) -> RecordRow:
    facts = {"urns": f"urn:li:mlModel:{one}", "reason": "", **more}
    facts = {"fingerprint": "", "joined_fingerprint": "", **facts}
    return RecordRow(part_id, kind, one, digest, **facts, seen_in_pass=1)


def read(
    connection: SqlConnection, part_id: int, kind: str, ids: Iterable[str]
) -> dict[str, RecordRow]:
    rows = connection.execute(records.KNOWN, part_id, kind, [*ids])
    return {one.id: one for one in (RecordRow(*row) for row in rows)}


def test_opening_twice_changes_nothing(url: str, engine: Engine) -> None:
    with engine.transaction(write=True) as connection:
        partitions.begin(connection, KEY, "s", {})
    again = open_state(url)
    with again.transaction() as connection:
        assert [found.key for found in partitions.partitions_of(connection, "r")] == [KEY]
    again.dispose()


def test_the_doctor_sees_whether_a_run_may_begin(url: str, engine: Engine) -> None:
    assert [one.outcome for one in state_findings(url, "r")] == ["ok", "ok"]
    held = locks.acquire(engine, url, "r")
    try:
        assert [one.outcome for one in state_findings(url, "r")] == ["ok", "warning"]
        assert [one.outcome for one in state_findings(url, "other")] == ["ok", "ok"]
    finally:
        held.release()


def test_a_part_is_found_as_it_was_left(connection: SqlConnection) -> None:
    first = partitions.begin(connection, KEY, "s", {})
    assert (first.pass_number, first.checkpoint, first.full_at_ms) == (1, None, None)
    partitions.save_checkpoint(connection, KEY, {"since": 5}, 1_000, full=True)
    partitions.save_checkpoint(connection, KEY, {"since": 6}, 2_000, full=False)
    second = partitions.begin(connection, KEY, "s", {})
    assert (second.pass_number, second.checkpoint) == (2, {"since": 6})
    assert (second.passed_at_ms, second.full_at_ms) == (2_000, 1_000)


def test_changed_settings_drop_the_checkpoint_for_good(connection: SqlConnection) -> None:
    partitions.begin(connection, KEY, "s", {})
    partitions.save_checkpoint(connection, KEY, {}, 1_000, full=True)
    assert partitions.begin(connection, KEY, "other", {}).checkpoint is None
    assert partitions.begin(connection, KEY, "other", {}).checkpoint is None


def test_rows_are_kept_by_kind_and_id_and_replaced(connection: SqlConnection) -> None:
    part_id = partitions.begin(connection, KEY, "s", {}).key.id
    many = [row(part_id, f"r{n}") for n in range(1_200)]
    connection.execute_many(records.SAVE, [*many, row(part_id, "r1", kind="experiment", urns="")])
    connection.execute_many(records.SAVE, [row(part_id, "r0", digest="e", urns="urn:a\nurn:b")])
    found = read(connection, part_id, "run", [*(f"r{n}" for n in range(1_200)), "unknown"])
    assert len(found) == 1_200
    assert found["r0"] == row(part_id, "r0", digest="e", urns="urn:a\nurn:b")
    assert found["r0"].entities == ["urn:a", "urn:b"]
    [experiment] = read(connection, part_id, "experiment", ["r1"]).values()
    assert (experiment.digest, experiment.entities) == ("d", ())
    assert partitions.counts(connection, KEY) == {
        "experiment": Counts(1, 0),
        "run": Counts(1_200, 0),
    }
    assert read(connection, part_id, "run", []) == {}
    connection.execute_many(records.SAVE, [])


def test_fingerprints_and_reasons_are_found_by_kind(connection: SqlConnection) -> None:
    part_id = partitions.begin(connection, KEY, "s", {}).key.id
    connection.execute_many(
        records.SAVE,
        [
            row(part_id, "a", fingerprint="open"),
            row(part_id, "b", joined_fingerprint="versions"),
            row(part_id, "c", digest="", reason="422 not liked"),
            row(part_id, "a", kind="experiment", fingerprint="active"),
        ],
    )
    assert records.read_columns(connection, part_id, frozenset()) == {
        "fingerprint": {"run": {"a": "open"}, "experiment": {"a": "active"}},
        "joined_fingerprint": {"run": {"b": "versions"}},
        "reason": {"run": {"c": "422 not liked"}},
    }
    assert partitions.counts(connection, KEY)["run"] == Counts(3, 1)


def test_what_is_still_listed_is_noted(connection: SqlConnection) -> None:
    part_id = partitions.begin(connection, KEY, "s", {}).key.id
    connection.execute_many(records.SAVE, [row(part_id, f"r{n}") for n in range(700)])
    records.touch(connection, part_id, 7, {"run": [f"r{n}" for n in range(600)]})
    seen = connection.scalar("SELECT count(*) FROM state_record WHERE seen_in_pass = 7")
    assert seen == 600


def test_a_sample_holds_acknowledged_entities_from_a_digest_on(connection: SqlConnection) -> None:
    part_id = partitions.begin(connection, KEY, "s", {}).key.id
    connection.execute_many(
        records.SAVE,
        [
            row(part_id, "a", digest="1"),
            row(part_id, "b", digest="2", urns="urn:x\nurn:y"),
            row(part_id, "c", digest="3"),
            row(part_id, "none", digest="9", urns=""),
            row(part_id, "refused", digest="", reason="422: no"),
        ],
    )
    assert records.sample(connection, part_id, "2", 2) == ["urn:x", "urn:y", "urn:li:mlModel:c"]
    assert records.sample(connection, part_id, "", 1) == ["urn:li:mlModel:a"]


def test_what_is_removed_is_forgotten_with_its_record_and_others_of_it_are_merged_again(
    connection: SqlConnection,
) -> None:
    part_id = partitions.begin(connection, KEY, "s", {}).key.id
    held = {
        "one": "urn:a",
        "both": "urn:a\nurn:b",
        "part": "urn:a\nurn:c",
        "other": "urn:aa\nurn:d",
    }
    connection.execute_many(
        records.SAVE, [row(part_id, one, urns=urns) for one, urns in held.items()]
    )
    records.delete_entities(connection, part_id, iter(["urn:a", "urn:b"]))
    assert read(connection, part_id, "run", held) == {
        "part": row(part_id, "part", digest="", urns="urn:c"),
        "other": row(part_id, "other", urns="urn:aa\nurn:d"),
    }


def test_names_are_pinned_for_every_instance(connection: SqlConnection) -> None:
    other = PartitionKey(KEY.recipe, KEY.sink, KEY.source, "elsewhere")
    partitions.begin(connection, KEY, "s", {"run": "urn:1", "experiment": "urn:2"})
    partitions.begin(connection, other, "s", {"run": "urn:3"})
    names = [found.identity for found in partitions.partitions_of(connection, KEY.recipe)]
    assert names == [{"run": "urn:3"}, {"run": "urn:3"}]


def run_of(engine: Engine, run_ms: int, recipe: str = "r", sink: str = "s") -> RunDatabase:
    database = RunDatabase()
    database.start(engine, recipe, sink)
    database.run_ms = run_ms
    return database


def outcomes(engine: Engine, run_ms: int, recipe: str = "r", sink: str = "s") -> KnownEntities:
    return KnownEntities(run_of(engine, run_ms, recipe, sink))


def written(urn: str, aspects: Mapping[str, Aspect] = NOTHING) -> Outcome:
    return Outcome(MergedEntity(Entity(urn, aspects), NOTHING, "updated"))


def failures_of(engine: Engine, recipe: str) -> dict[str, tuple[str, ...]]:
    with engine.transaction() as connection:
        return failing_tests(connection, recipe, "s")


def failing(*tests: str) -> TestOutcome:
    return TestOutcome(failing=tests)


def test_the_last_outcome_of_each_entity_is_kept(engine: Engine) -> None:
    kept = outcomes(engine, 1)
    kept.save_results({"a": failing("t1", "t2"), "b": failing(), "c": failing("t1")})
    assert failures_of(engine, "r") == {"a": ("t1", "t2"), "c": ("t1",)}
    kept.save_results({"a": failing(), "b": failing("t3")})
    assert failures_of(engine, "r") == {"b": ("t3",), "c": ("t1",)}
    assert failures_of(engine, "other") == {}


def test_results_of_a_run_are_distinguished_from_those_before(engine: Engine) -> None:
    first, second = outcomes(engine, 1), outcomes(engine, 2)
    first.save_results({"a": failing("t"), "b": failing(), "c": failing("t"), "d": failing("t")})
    KnownEntities(run_of(engine, 2)).settle([*map(written, "abd")], ())
    assert len(list(second.without_result())) == 3
    second.save_results({"a": failing("t"), "b": failing("t")})
    second.save_results({"b": failing("t", "u")})  # a second time in the same run
    second.save_results({}, ["d", "e"])
    new = EntityResult(failing("t", "u"), failing(), fresh=True)
    assert dict(second.results()) == {
        EntityResult(failing("t"), failing("t"), fresh=True): 1,
        new: 1,
        EntityResult(failing("t"), failing(), fresh=False): 1,
    }
    assert new.newly_failing == {"t", "u"}
    assert list(second.with_result(lambda found: "u" in found.failing)) == [("b", new)]
    assert list(second.without_result()) == ["d", "e"]
    third = outcomes(engine, 3)
    third.save_results({"d": failing("t")})
    # It failed before it had no result, so it is not new.
    assert dict(third.results())[EntityResult(failing("t"), failing("t"), fresh=True)] == 1
    assert list(third.without_result()) == []


def test_what_is_removed_fails_nothing(engine: Engine) -> None:
    kept = outcomes(engine, 1)
    kept.save_results({"a": failing("t"), "b": failing("t")})
    KnownEntities(run_of(engine, 2)).settle([written("b", {STATUS: {"removed": True}})], ())
    assert [count for _, count in kept.results()] == [1]
    assert kept.removed(["a", "b", "c"]) == {"b"}
    assert failures_of(engine, "r") == {"a": ("t",)}


def test_entities_without_a_result_are_found_among_the_records(engine: Engine) -> None:
    with engine.transaction(write=True) as connection:
        part_id = partitions.begin(connection, KEY, "s", {}).key.id
        rows = [row(part_id, f"{n:04}") for n in range(1201)]
        connection.execute_many(
            records.SAVE, [*rows, row(part_id, "z", digest="", reason="refused")]
        )
    urns = [one.urns for one in rows]
    kept = outcomes(engine, 1)
    kept.save_results(dict.fromkeys(urns[:1000], failing()))
    kept.save_results({}, urns[1000:1100])
    found = list(kept.urns_without_result(part_id))
    assert [urn for some in found for urn in some] == urns[1100:]
    later = outcomes(engine, 2)
    assert sum(map(len, later.urns_without_result(part_id))) == 201


def test_resetting_one_recipe_leaves_the_others(url: str, engine: Engine) -> None:
    for recipe in ("r", "other"):
        key = PartitionKey(recipe, KEY.sink, KEY.source, "")
        with engine.transaction(write=True) as connection:
            part_id = partitions.begin(connection, key, "s", {"run": "urn:1"}).key.id
            refused = row(part_id, "b", digest="", reason="no")
            connection.execute_many(records.SAVE, [row(part_id, "a"), refused])
        outcomes(engine, 1, recipe, KEY.sink).save_results({"a": failing("t")})
    assert reset(url, "r") is True
    assert reset(url, "r") is False
    assert summary(url, "r").parts == ()
    (left,) = summary(url, "other").parts
    assert (left.records, left.dirty, left.names) == ({"run": 2}, {"run": 1}, {"run": "urn:1"})
    assert left.failing_entities == 1


def test_one_run_of_a_recipe_at_a_time(url: str, engine: Engine) -> None:
    assert locks.holder(engine, url, "r") is None
    held = locks.acquire(engine, url, "r")
    holder = locks.holder(engine, url, "r")
    assert holder is not None
    assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    assert summary(url, "r").holder == holder
    expected = rf"another run of 'r' is in progress: process {os.getpid()} on \S+, since 20.* UTC"
    with pytest.raises(RecipeLockedError, match=expected):
        locks.acquire(engine, url, "r")
    with pytest.raises(RecipeLockedError):
        reset(url, "r")
    locks.acquire(engine, url, "another recipe/of the same database").release()
    held.release()
    held.release()
    assert locks.holder(engine, url, "r") is None
    locks.acquire(engine, url, "r").release()


HOLD = """
import sys, time
from mlcat_ingest.pipeline.state import locks
from mlcat_ingest.pipeline.state.opening import open_state
url = sys.argv[1]
locks.acquire(open_state(url), url, "r")
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_killed_run_is_free(url: str, engine: Engine) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(RecipeLockedError, match=f"process {child.pid} on"):
            locks.acquire(engine, url, "r")
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    _soon(engine, url).release()


def _soon(engine: Engine, url: str) -> "FileLock | locks._AdvisoryLock":
    """Take the lock, once the server has seen that its holder is gone."""
    until = time.monotonic() + 30
    while True:
        try:
            return locks.acquire(engine, url, "r")
        except RecipeLockedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def test_the_database_of_a_newer_version_is_reported_with_the_cure(
    url: str, engine: Engine
) -> None:
    with engine.transaction(write=True) as connection:
        connection.execute(
            "INSERT INTO mlcat_migration (component, position, name, applied_at_ms)"
            " VALUES ('state', 99, 'from the future', 1)"
        )
    with pytest.raises(RecipeError, match=r"newer version .* 'from the future'.*\(upgrade"):
        open_state(url)


def test_processes_that_begin_at_once_make_the_tables_once(url: str) -> None:
    code = "import sys; from mlcat_ingest.pipeline.state.opening import open_state; "
    code += "open_state(sys.argv[1]).dispose()"
    children = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
