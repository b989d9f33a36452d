"""What a run remembers: what did not change is passed over, what was refused comes again."""

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mlcat_ingest.client.base import CatalogFacts, Evaluation
from mlcat_ingest.errors import (
    AspectChangedError,
    AspectRejectedError,
    CatalogUnavailableError,
    NotAuthorizedError,
    RecipeError,
    RecipeLockedError,
    RecordError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note, Proposal
from mlcat_ingest.pipeline.report.report import EntityCounts, Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state import records
from mlcat_ingest.pipeline.state import session as session_module
from mlcat_ingest.pipeline.state.entities import failing_tests
from mlcat_ingest.pipeline.state.inspection import PartitionSummary, summary
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest, RecordVersion
from mlcat_ingest.sql import database
from mlcat_ingest.sql.database import SqliteEngine
from support.fakes import FakeRecord, FakeSink, FakeSource, group_urn, model_urn
from support.recipes import a_recipe

PLACE = "fake://catalog"
NEVER = {"If-Version-Match": "999999999"}
DAY_S = 86_400.0


@dataclass(frozen=True)
class Record:
    """A thing with a name and a value; `digest` is None where the entities tell it."""

    name: str
    value: str = "1"
    digest: str | None = ""
    mark: str = ""
    joined: str = ""
    leads: bool = False

    @property
    def record_version(self) -> RecordVersion | None:
        if not self.name:
            return None
        digest = self.value if self.digest == "" else self.digest
        return RecordVersion("thing", self.name, digest, self.mark, self.joined, self.leads)


@dataclass
class Remembering(FakeSource):
    """Reads `records` of one part, and remembers each under its name."""

    records: Sequence[Record] = ()
    key: str = "fake:1:default"
    instance: str = ""
    identity: Mapping[str, str] = field(default_factory=lambda: {"thing": model_urn("0")})
    settings: str = ""
    complete: bool = True
    page_size: int = 100_000
    checkpoints: list[Any] = field(default_factory=list)
    dirty: list[str] = field(default_factory=list)

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(
            Partition(self.key, self.instance, self.identity, self.settings)
        )
        self.checkpoints.append(partition.checkpoint)
        self.dirty += partition.dirty("thing")
        listed = [FakeRecord(one, one.record_version) for one in self.records]
        for start in range(0, max(1, len(listed)), self.page_size):
            yield Page(listed[start : start + self.page_size], partition)
        if self.error is not None:
            raise self.error
        yield Finished(partition, {"read": len(self.records)}, complete=self.complete)

    def map(self, record: FakeRecord) -> list[Entity]:
        thing = record.value
        if thing.value == "bad":
            raise RecordError("cannot be used", record_ref=thing.name)
        if thing.value == "gone":
            return [Entity(model_urn(thing.name), {"status": {"removed": True}})]
        return [Entity(model_urn(thing.name), {"mlModelProperties": {"name": thing.value}})]


@dataclass
class World:
    """One recipe, its state and its catalog."""

    url: str
    sink: FakeSink = field(default_factory=lambda: FakeSink(place=PLACE))

    def run(self, *sources: Remembering, evaluate: bool = False, **options: Any) -> Report:
        state = StateSession(self.url, StateOptions("r", ("id",), **options))
        run_options = RunOptions(a_recipe("r", evaluate={"enabled": evaluate}), state=state)
        return PipelineRun(list(sources), self.sink, run_options).execute()

    def ingest(self, *records: Record, **options: Any) -> Report:
        return self.run(Remembering(records=records), **options)

    def sql(self, statement: str) -> list[Any]:
        """Execute a statement on the state database, and return its rows."""
        file = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file)) as connection, connection:
            return connection.execute(statement).fetchall()

    def part(self) -> PartitionSummary:
        (part,) = summary(self.url, "r").parts
        return part


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(f"sqlite:///{tmp_path}/state.db")


def things(count: int, value: str = "1") -> list[Record]:
    return [Record(f"t{n}", value) for n in range(count)]


@pytest.mark.parametrize("passes", [1, 2])
def test_a_batch_costs_the_state_two_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    begun: list[object] = []
    begin = SqliteEngine.transaction

    def counted(engine: SqliteEngine, *, write: bool = False) -> Any:
        begun.extend([engine] if write else [])
        return begin(engine, write=write)

    monkeypatch.setattr(SqliteEngine, "transaction", counted)
    counts = []
    for batches in (3, 8):
        world = World(f"sqlite:///{tmp_path}/{batches}.db")
        world.sink.batch_size = 10
        for value in range(passes):
            begun.clear()
            report = world.ingest(*things(10 * batches, str(value)))
            assert report.entities["mlModel"].written == 10 * batches
        counts.append(len(begun))
    assert counts[1] - counts[0] == 2 * (8 - 3)


def test_what_did_not_change_is_neither_read_nor_written(world: World) -> None:
    assert world.ingest(*things(450)).entities == {"mlModel": EntityCounts(450, created=450)}
    world.sink.reads.clear()
    world.sink.writes.clear()
    report = world.ingest(*things(449), Record("t449", "2"))
    assert report.entities == {"mlModel": EntityCounts(450, updated=1, unchanged=449)}
    assert report.records == 450
    sampled, changed, read_back = world.sink.reads
    assert (len(sampled), changed) == (session_module.SAMPLE, [model_urn("t449")])
    assert read_back == changed
    # The first write of a run is also sent under a condition that cannot hold.
    assert [len(batch) for batch in world.sink.writes] == [1, 1]


def test_a_digest_may_be_taken_from_the_entities(world: World) -> None:
    reported = [Record("a", digest=None), Record("b", digest=None)]
    world.ingest(*reported)
    world.sink.reads.clear()
    report = world.ingest(reported[0], Record("b", "2", digest=None))
    assert report.entities == {"mlModel": EntityCounts(2, updated=1, unchanged=1)}
    # To be merged, and to see that it is stored.
    assert world.sink.reads[1:] == [[model_urn("b")]] * 2


@pytest.mark.parametrize("changed", [Record("a", mark="open"), Record("a", joined="versions")])
def test_a_changed_mark_or_join_is_a_change(world: World, changed: Record) -> None:
    world.ingest(Record("a"))
    world.sink.reads.clear()
    world.ingest(changed)
    assert [model_urn("a")] in world.sink.reads[1:]
    world.sink.reads.clear()
    world.ingest(changed)
    assert len(world.sink.reads) == 1


def test_unchanged_entities_are_evaluated_where_the_scope_is_all(world: World) -> None:
    world.ingest(Record("a"))
    source = Remembering(records=[Record("a")])
    state = StateSession(world.url, StateOptions("r"))
    options = RunOptions(a_recipe("r", evaluate={"scope": "all"}), state=state)
    PipelineRun([source], world.sink, options).execute()
    assert world.sink.evaluations == [[model_urn("a")]]


@pytest.mark.parametrize("left", ["nothing", "one batch"])
def test_what_a_run_that_broke_off_did_not_evaluate_is_evaluated_by_the_next(
    world: World, left: str
) -> None:
    class Dying(FakeSink):
        def evaluate_batch(
            self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
        ) -> Evaluation:
            if self.evaluations or left == "nothing":
                raise KeyboardInterrupt
            return super().evaluate_batch(urns, should_push=should_push, test_urns=test_urns)

    world.sink = Dying(place=PLACE)
    assert world.run(Remembering(records=things(250)), evaluate=True).interrupted
    done = {urn for batch in world.sink.evaluations for urn in batch}
    assert len(done) == (0 if left == "nothing" else 200)
    alive = world.sink = FakeSink(stored=world.sink.stored, place=PLACE)
    again = world.run(Remembering(records=things(250)), evaluate=True)
    counts = again.entities["mlModel"]
    assert (counts.read, counts.created + counts.unchanged) == (250, 250)
    late = [urn for batch in alive.evaluations for urn in batch]
    assert sorted(late) == sorted({model_urn(f"t{n}") for n in range(250)} - done)
    alive.evaluations.clear()
    world.run(Remembering(records=things(250)), evaluate=True, full=True)
    assert alive.evaluations == []


def test_full_compares_everything_with_the_catalog_and_repairs_it(world: World) -> None:
    world.ingest(*things(3))
    world.sink.stored[model_urn("t1")]["mlModelProperties"] = {"name": "wiped"}
    assert world.ingest(*things(3)).entities["mlModel"].unchanged == 3
    report = world.ingest(*things(3), full=True)
    assert report.entities["mlModel"] == EntityCounts(3, updated=1, unchanged=2)


def test_state_is_believed_for_so_long_only(world: World) -> None:
    source = Remembering(records=things(1))
    for every_s in (DAY_S, DAY_S, 0.0):
        world.run(source, full_every_s=every_s)
    assert source.checkpoints == [None, {"read": 1}, None]
    world.sql("UPDATE state_part SET full_at_ms = full_at_ms + 3600000")
    world.run(source)
    assert source.checkpoints[-1] is None, "the clock went back: nothing is known of how old it is"


@pytest.mark.parametrize("what", ["source", "recipe"])
def test_other_settings_are_a_full_pass_until_it_comes_to_its_end(world: World, what: str) -> None:
    world.ingest(*things(2))
    other = Remembering(records=things(2), settings="x" if what == "source" else "")
    options: dict[str, Any] = {"settings": "x" if what == "recipe" else ""}
    other.error = SourceUnavailableError("broke off")
    assert world.run(other, **options).exit_code == 1
    other.error = None
    world.run(other, **options)
    world.run(other, **options)
    assert other.checkpoints == [None, None, {"read": 2}]


def test_a_pass_that_breaks_off_keeps_what_was_acknowledged_and_no_checkpoint(
    world: World,
) -> None:
    source = Remembering(records=things(2), error=SourceUnavailableError("broke off"))
    assert world.run(source).exit_code == 1
    assert world.part().records == {"thing": 2}
    assert (world.part().checkpoint, world.part().passed_at_ms) == (None, None)
    source.error = None
    world.run(source)
    assert source.checkpoints == [None, None]
    assert world.part().checkpoint == {"read": 2}


def test_an_incomplete_pass_is_no_full_one(world: World) -> None:
    source = Remembering(records=things(1), complete=False)
    world.run(source)
    world.run(source)
    assert source.checkpoints == [None, None]
    assert world.part().full_at_ms is None


def test_what_was_refused_is_dirty_and_merged_again(world: World) -> None:
    world.sink.refuse = [model_urn("t1")]
    assert world.ingest(*things(3)).exit_code == 4
    assert (world.part().records, world.part().dirty) == ({"thing": 3}, {"thing": 1})
    source = Remembering(records=things(3))
    assert world.run(source).exit_code == 4
    assert world.sql("SELECT id FROM state_record WHERE reason <> ''") == [("t1",)]
    world.sink.refuse = []
    assert world.ingest(*things(3)).entities["mlModel"] == EntityCounts(3, created=1, unchanged=2)
    assert world.part().dirty == {}


def test_what_cannot_be_mapped_is_dirty_with_its_reason_and_keeps_its_entities(
    world: World,
) -> None:
    world.ingest(*things(2))
    assert world.ingest(Record("t0"), Record("t1", "bad")).exit_code == 4
    [row] = world.sql("SELECT digest, urns, reason FROM state_record WHERE id = 't1'")
    assert row == ("", model_urn("t1"), "cannot be used")
    assert world.ingest(*things(2)).exit_code == 0


def test_too_many_dirty_records_make_a_full_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "DIRTY", 1)
    source = Remembering(records=[Record("a", "bad"), Record("b", "bad")])
    world.run(source)
    world.run(source)
    assert source.checkpoints == [None, None]


@pytest.mark.parametrize("before", [0, 1], ids=["a full pass", "one over changes"])
def test_a_refused_reference_makes_the_next_pass_full_after(world: World, before: int) -> None:
    tag = Entity("urn:li:tag:t", {"tagProperties": {"name": "t"}}, only_if_absent=True)

    class Tagging(Remembering):
        def map(self, record: FakeRecord) -> list[Entity]:
            return [tag, *super().map(record)]

    for _ in range(before):
        world.ingest(*things(1))
    world.sink.refuse = [tag.urn]
    source = Tagging(records=things(2))
    assert world.run(source).exit_code == 4
    assert world.run(source).exit_code == 4
    world.sink.refuse = []
    assert world.run(source).exit_code == 0
    assert tag.urn in world.sink.stored
    world.run(source)
    assert source.checkpoints == [{"read": 1} if before else None, None, None, {"read": 2}]


def test_a_record_with_many_entities_is_known_once_all_of_them_are_there(world: World) -> None:
    class Twofold(Remembering):
        def map(self, record: FakeRecord) -> list[Entity]:
            return [
                *super().map(record),
                Entity(group_urn("g"), {"mlModelGroupProperties": {"name": "g"}}),
            ]

    world.sink.refuse = [group_urn("g")]
    world.run(Twofold(records=[Record("a")]))
    assert world.part().dirty == {"thing": 1}
    world.sink.refuse = []
    report = world.run(Twofold(records=[Record("a")]))
    assert report.entities["mlModelGroup"].created == 1
    assert world.run(Twofold(records=[Record("a")])).entities == {
        "mlModel": EntityCounts(1, unchanged=1),
        "mlModelGroup": EntityCounts(1, unchanged=1),
    }


def test_two_records_of_one_entity_are_never_passed_over_halfway(world: World) -> None:
    class Shared(Remembering):
        def map(self, record: FakeRecord) -> list[Entity]:
            thing = record.value
            return [Entity(model_urn("one"), {"mlModelProperties": {thing.name: thing.value}})]

    pair = [Record("a"), Record("b")]
    world.run(Shared(records=pair))
    world.run(Shared(records=[Record("a", "2"), Record("b")]))
    stored = world.sink.stored[model_urn("one")]["mlModelProperties"]
    assert (stored["a"], stored["b"]) == ("2", "1")


def test_records_without_a_trace_are_merged_every_time(world: World) -> None:
    source = Remembering(records=[Record("", digest=None)])
    source.mapping = None
    world.run(source)
    world.sink.reads.clear()
    world.run(source)
    assert world.sink.reads == [[model_urn("")]]


def test_a_catalog_that_was_emptied_is_filled_again(world: World) -> None:
    world.ingest(*things(150))
    world.sink.stored.clear()
    assert world.ingest(*things(150)).entities["mlModel"].created == 150


def test_other_catalogs_are_remembered_apart(world: World) -> None:
    world.ingest(*things(2))
    world.sink = FakeSink(place="fake://other")
    assert world.ingest(*things(2)).entities["mlModel"].created == 2
    assert len(summary(world.url, "r").parts) == 2


@dataclass
class Announcing(Remembering):
    """Tells its key before it is read."""

    unreachable: SourceUnavailableError | None = None

    def keys(self) -> list[str]:
        if self.unreachable is not None:
            raise self.unreachable
        return [self.key]


@pytest.mark.parametrize("instances", [("", ""), ("", "b")])
def test_two_sources_with_one_identity_are_refused_before_either_is_read(
    world: World, instances: tuple[str, str]
) -> None:
    both = [Announcing(records=[Record("a")], instance=instance) for instance in instances]
    for i, source in enumerate(both):
        source.place = f"sources[{i}]"
    report = world.run(*both)
    assert report.exit_code == 2
    assert isinstance(report.error, RecipeError)
    assert report.error.message == (
        "sources[0] and sources[1] have the same identity, fake:1:default"
    )
    assert "server_id" in str(report.error.hint)
    assert [source.checkpoints for source in both] == [[], []]
    assert (world.sink.reads, world.sink.writes) == ([], [])


def test_two_sources_that_announce_no_identity_are_refused_when_the_second_is_read(
    world: World,
) -> None:
    report = world.run(Remembering(records=[Record("a")]), Remembering(records=[Record("b")]))
    assert isinstance(report.error, RecipeError)
    assert "two sources have the same identity, fake:1:default" in report.error.message
    assert world.sink.stored.keys() == {model_urn("a")}


def test_a_source_whose_identity_is_not_known_now_hides_none_before_it(world: World) -> None:
    gone = SourceUnavailableError("gone")
    report = world.run(
        Announcing(records=[Record("a")]), Announcing(key="fake:2:default", unreachable=gone)
    )
    assert report.error is gone
    assert world.sink.stored.keys() == {model_urn("a")}


def test_other_names_are_refused_with_the_number_of_new_urns_until_accepted(world: World) -> None:
    world.ingest(*things(3))
    renamed = Remembering(records=things(3), identity={"thing": model_urn("dev.0")})
    report = world.run(renamed)
    assert report.exit_code == 2
    assert isinstance(report.error, RecipeError)
    mine = next(iter(world.sink.stored))
    theirs = mine.replace("mlflow,", "mlflow,dev.")
    assert f"{theirs} instead of {mine};" in report.error.message
    assert "3 entities would be duplicated" in report.error.message
    assert "--accept-renaming" in str(report.error.hint)
    assert len(world.sink.stored) == 3
    assert world.run(renamed, accept_renaming=True).exit_code == 0
    assert world.run(renamed).exit_code == 0
    assert renamed.checkpoints == [None, {"read": 3}]


def test_other_names_are_taken_where_nothing_has_the_first_ones(world: World) -> None:
    """Else nobody could do what a clash of two servers asks for: set `instance`."""
    assert world.run(Remembering(error=SourceUnavailableError("broke off"))).exit_code == 1
    renamed = Remembering(records=things(3), identity={"thing": model_urn("dev.0")})
    assert world.run(renamed).exit_code == 0
    assert world.ingest(*things(3)).exit_code == 2


def test_another_instance_is_another_name(world: World) -> None:
    world.ingest(*things(3))
    moved = Remembering(records=things(3), instance="eu", identity={"thing": model_urn("eu.0")})
    assert world.run(moved).exit_code == 2
    assert world.run(moved, accept_renaming=True).exit_code == 0
    assert [part.instance for part in summary(world.url, "r").parts] == ["", "eu"]


def test_last_outcomes_of_metadata_tests_are_kept(world: World) -> None:
    world.sink.failing_tests = {model_urn("t1"): ("urn:li:test:owned",)}
    world.ingest(*things(3), evaluate=True)
    engine = open_state(world.url)
    with engine.transaction() as connection:
        assert failing_tests(connection, "r", PLACE) == {model_urn("t1"): ("urn:li:test:owned",)}
    engine.dispose()


def test_two_runs_of_a_recipe_exclude_each_other(world: World) -> None:
    first = StateSession(world.url, StateOptions("r"))
    first.open(world.sink)
    report = world.ingest(*things(1))
    first.close()
    assert isinstance(report.error, RecipeLockedError)
    assert (report.exit_code, world.sink.stored) == (1, {})
    assert world.ingest(*things(1)).exit_code == 0


def test_a_sink_that_holds_nothing_keeps_no_state(world: World, tmp_path: Path) -> None:
    world.sink.place = None
    assert world.ingest(*things(1)).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_state_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    world = World(f"sqlite:///{tmp_path}/file/state.db")
    for _ in range(2):
        caplog.clear()
        assert world.ingest(*things(2)).exit_code == 0
        warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert "running: no state, so reading everything" in warnings[0]


def sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return damage


def bytes_at_random(seed: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        chance, content = Random(seed), bytearray(path.read_bytes())
        for _ in range(len(content) // 50):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)

    return damage


DAMAGES = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a text": lambda path: path.write_text("no database, but a text of some length\n" * 99),
    "a few bytes": lambda path: path.write_bytes(b"\xe4" * 40),
    "no UTF-8": sql("UPDATE state_record SET urns = CAST(x'75e4' AS TEXT)"),
    "another type": sql("UPDATE state_record SET urns = x'00'"),
    "no number": sql("UPDATE state_part SET pass_number = 'x'"),
    "no JSON": sql("UPDATE state_part SET checkpoint = '{'"),
    "no URN": sql("UPDATE state_record SET urns = 'urn:li'"),
    "no table": sql("DROP TABLE state_record"),
    "no column": sql("ALTER TABLE state_part RENAME COLUMN tests TO others"),
    "no steps": sql("DELETE FROM mlcat_migration"),
    "other steps": sql("UPDATE mlcat_migration SET name = 'x'"),
    **{f"random bytes, {seed}": bytes_at_random(seed) for seed in range(8)},
}


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.levelno == logging.WARNING]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_database_is_set_aside_and_everything_is_read_again(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    world.ingest(*things(60))
    DAMAGES[kind](tmp_path / "state.db")
    damaged = (tmp_path / "state.db").read_bytes()
    report = world.ingest(*things(59), Record("t59", "2"))
    assert (report.exit_code, report.entities["mlModel"].updated) == (0, 1)
    [problem] = warnings_in(caplog)
    assert (report.state_failures, report.note_examples["state_failed"]) == (1, (problem,))
    aside = tmp_path / "state.db.damaged"
    assert "is damaged" in problem
    assert f"kept as {aside}, and everything is read again" in problem
    assert aside.read_bytes()[:40] == damaged[:40]
    caplog.clear()
    world.sink.reads.clear()
    again = world.ingest(*things(59), Record("t59", "2"))
    assert (again.state_failures, again.entities["mlModel"].unchanged) == (0, 60)
    assert (len(world.sink.reads), warnings_in(caplog)) == (1, [])


def test_a_second_damaged_file_does_not_replace_the_first(world: World, tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        (tmp_path / "state.db").write_text(text * 99)
        assert world.ingest(*things(1)).exit_code == 0
    names = ("state.db.damaged", "state.db.damaged-2", "state.db.damaged-3")
    assert [(tmp_path / name).read_text()[:3] for name in names] == ["one", "two", "thr"]


def test_an_emptied_file_is_used_with_a_warning(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.ingest(*things(2))
    os.truncate(tmp_path / "state.db", 0)
    report = world.ingest(*things(2))
    assert (report.exit_code, report.state_failures) == (0, 1)
    [problem] = warnings_in(caplog)
    assert "is empty: everything is read again" in problem
    assert world.ingest(*things(2)).state_failures == 0


def test_the_database_of_another_program_is_shared(world: World) -> None:
    world.sql("CREATE TABLE theirs AS SELECT 7")
    assert world.ingest(*things(2)).state_failures == 0
    assert world.sql("SELECT * FROM theirs") == [(7,)]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_path_that_is_no_file_stays_as_it_is(
    world: World, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "state.db")
    report = world.ingest(*things(2))
    assert (report.exit_code, len(world.sink.stored), report.state_failures) == (0, 2, 1)
    [problem] = report.note_examples["state_failed"]
    assert "state.db is not a file" in problem
    assert not (tmp_path / "state.db.damaged").exists()


def test_a_damaged_file_that_another_recipe_uses_stays(world: World, tmp_path: Path) -> None:
    other = StateSession(world.url, StateOptions("other"))
    other.open(world.sink)
    DAMAGES["no steps"](tmp_path / "state.db")
    report = world.ingest(*things(2))
    assert (report.exit_code, report.state_failures) == (0, 1)
    [problem] = report.note_examples["state_failed"]
    assert "another recipe uses it now" in problem
    other.close()
    assert not (tmp_path / "state.db.damaged").exists()


def test_a_database_that_is_damaged_in_the_middle_costs_no_run(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def damage(_: object) -> None:
        world.sink.before_write = lambda _: None
        DAMAGES["no table"](tmp_path / "state.db")

    world.sink.before_write = damage
    report = world.ingest(*things(900))
    assert (report.exit_code, len(world.sink.stored), report.state_failures) == (0, 900, 1)
    problem, aside = warnings_in(caplog)
    assert "is damaged" in problem
    assert "continues without state" in problem
    assert f"kept as {tmp_path / 'state.db.damaged'}" in aside
    assert world.ingest(*things(900)).state_failures == 0


@dataclass
class Asking(Remembering):
    """Asks what is remembered of its records, as a source does that reads changes."""

    known: Mapping[str, str] = field(default_factory=dict)

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(Partition(self.key, "", self.identity, ""))
        self.checkpoints.append(partition.checkpoint)
        changed = self.records if partition.checkpoint is None else []
        self.known = known = partition.fingerprints("thing")
        changed = changed or [one for one in self.records if one.mark != known.get(one.name)]
        yield Page([FakeRecord(one, one.record_version) for one in changed], partition)
        yield Finished(partition, {}, complete=partition.checkpoint is None)


def test_a_source_that_cannot_learn_what_is_known_reads_everything(world: World) -> None:
    source = Asking(records=[Record(f"t{n}", mark="open") for n in range(150)])
    world.run(source)
    # The sample that is looked at first does not have the last record.
    world.sql("UPDATE state_record SET fingerprint = CAST(x'e4' AS TEXT) WHERE id = 't9'")
    report = world.run(source)
    assert (report.exit_code, report.state_failures, report.records) == (0, 1, 150)
    assert source.checkpoints == [None, None]
    assert world.run(source).state_failures == 0


@dataclass
class AskingLate(Asking):
    """Asks what is remembered once all of its records are written, and the state is lost."""

    lose: Callable[[], object] = str
    lost: bool = False

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(Partition(self.key, "", self.identity, ""))
        self.checkpoints.append(partition.checkpoint)
        yield Page([FakeRecord(one, one.record_version) for one in self.records], partition)
        if partition.checkpoint is not None and not self.lost:
            self.lose()
            self.lost = True
        self.known = partition.fingerprints("thing")
        yield Finished(partition, {}, complete=True)


@pytest.mark.parametrize("kind", ["no table", "cut"])
def test_a_state_that_is_lost_while_a_source_is_read_costs_no_second_reading(
    world: World, tmp_path: Path, kind: str
) -> None:
    records = [Record(f"t{n}", mark="open") for n in range(150)]
    source = AskingLate(records=records, lose=lambda: DAMAGES[kind](tmp_path / "state.db"))
    world.run(source)
    source.records = [*records[:149], Record("t149", "2", mark="open")]
    report = world.run(source)
    assert (report.exit_code, report.records) == (0, 150)
    assert report.entities == {"mlModel": EntityCounts(150, updated=1, unchanged=149)}
    assert source.checkpoints == [None, {}]
    assert source.known == {one.name: "open" for one in records}
    # Whether anybody reads what was damaged before it is written anew is left to the threads.
    assert report.state_failures + world.run(source).state_failures <= 1


@pytest.mark.parametrize("pages", [1, 30, 60])
def test_a_full_disk_costs_no_run(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    limit = f"PRAGMA max_page_count={pages}"
    monkeypatch.setattr(database, "_SQLITE_PRAGMAS", (*database._SQLITE_PRAGMAS, limit))
    report = world.ingest(*things(900))
    assert (report.exit_code, len(world.sink.stored), report.state_failures) == (0, 900, 1)
    [problem] = warnings_in(caplog)
    assert "database or disk is full" in problem
    monkeypatch.undo()
    assert world.ingest(*things(900)).state_failures == 0


@dataclass
class Unreachable(FakeSource):
    """Is gone before it asks what is remembered of it."""

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        del request
        raise SourceUnavailableError("gone")


def test_a_report_says_up_to_when_the_catalog_has_what_each_place_says(world: World) -> None:
    good = world.ingest(*things(3))
    [read] = good.passes
    assert read.current_at_ms is not None
    assert good.started_at_ms <= read.current_at_ms <= good.finished_at_ms
    broken = world.run(Remembering(records=things(3), error=SourceUnavailableError("half")))
    assert [one.current_at_ms for one in broken.passes] == [read.current_at_ms]
    # Also where the run never came as far, or lags would vanish when somebody needs them.
    state = StateSession(world.url, StateOptions("r"))
    gone = PipelineRun(
        [Unreachable()], world.sink, RunOptions(a_recipe("r"), state=state)
    ).execute()
    assert gone.exit_code == 1
    failed, unread = gone.passes
    assert (failed.label, failed.why) == ("Unreachable", "failed: gone")
    assert (unread.source, unread.current_at_ms) == ("fake:1:default", read.current_at_ms)
    assert unread.why == "not read: the run ended at Unreachable"
    state = StateSession(world.url, StateOptions("r"))
    fresh = PipelineRun(
        [Unreachable()], FakeSink(place="fake://other"), RunOptions(a_recipe("r"), state=state)
    )
    assert [one.why for one in fresh.execute().passes] == ["failed: gone"]


def test_each_source_of_a_recipe_says_what_became_of_it(world: World) -> None:
    first, second, third = (
        Remembering(records=[Record(f"t{n}")], key=f"fake:{n}:default") for n in range(3)
    )
    changes, at = "changes since the last run", "not read: the run ended at"
    # Sources of one class are asked for their keys; these have none to tell.
    assert world.run(first, second, third).exit_code == 0
    second.error = SourceUnavailableError("half")
    report = world.run(first, second, third)
    assert (report.exit_code, report.records) == (1, 2)
    assert {one.source: one.why for one in report.passes} == {
        "fake:0:default": changes,
        "fake:1:default": f"{changes}; failed: half",
        "fake:2:default": f"{at} Remembering",
    }
    gone = Unreachable()
    gone.place, gone.address = "sources[1]", "http://second"
    report = world.run(first, gone, third)  # type: ignore[arg-type]
    assert {one.source: (one.label, one.why) for one in report.passes} == {
        "sources[1]": ("http://second", "failed: gone"),
        "fake:0:default": ("fake:0:default", changes),
        "fake:1:default": ("", f"{at} http://second"),
        "fake:2:default": ("", f"{at} http://second"),
    }
    second.error = None
    assert {one.why for one in world.run(first, second, third).passes} == {changes}


# --- writes without an acknowledgement -----------------------------------------------------------


def written(world: World) -> list[str]:
    return [one.entity_urn for batch in world.sink.writes for one in batch]


class Dying(FakeSink):
    """A catalog that is killed after it stored what it was sent."""

    def write(self, proposals: Sequence[Proposal]) -> Any:
        answer = super().write(proposals)
        if proposals[0].headers != NEVER:
            raise CatalogUnavailableError("killed before its index had the change")
        return answer


def test_what_may_be_stored_and_not_found_is_written_again_by_the_next_run(world: World) -> None:
    world.ingest(Record("calm"))
    sink, world.sink = world.sink, Dying(place=PLACE, stored=world.sink.stored)
    assert world.ingest(Record("calm"), Record("a"), Record("b")).exit_code == 1
    world.sink = sink
    sink.writes.clear()
    report = world.ingest(Record("calm"), Record("a"), Record("b"))
    assert report.entities == {"mlModel": EntityCounts(3, unchanged=3)}
    sent = [one for batch in sink.writes for one in batch if one.headers != NEVER]
    assert report.proposals_sent == len(sent)
    again = {urn: [] for urn in map(model_urn, "ab")}  # type: dict[str, list[str]]
    for one in sink.writes[-1]:
        again[one.entity_urn].append(one.aspect_name)
    assert set(map(tuple, again.values())) == {("mlModelKey", "mlModelProperties")}
    sink.writes.clear()
    assert world.ingest(Record("calm"), Record("a"), Record("b"), full=True).exit_code == 0
    assert written(world) == []


def test_a_change_that_was_undone_before_its_write_was_acknowledged_is_undone(world: World) -> None:
    world.ingest(Record("a"), Record("calm"))
    sink, world.sink = world.sink, Dying(place=PLACE, stored=world.sink.stored)
    assert world.ingest(Record("a", "2"), Record("calm")).exit_code == 1
    world.sink = sink
    undone = Remembering(records=[Record("a"), Record("calm")])
    assert world.run(undone).entities == {"mlModel": EntityCounts(2, updated=1, unchanged=1)}
    assert undone.dirty == ["a"]
    assert sink.stored[model_urn("a")]["mlModelProperties"]["name"] == "1"
    calm = Remembering(records=undone.records)
    assert world.run(calm).entities == {"mlModel": EntityCounts(2, unchanged=2)}
    assert calm.dirty == []


def kill(world: World, tmp_path: Path, *records: Record, at: int) -> None:
    """Run until the write of that number, as a process that is killed before it."""
    sink = world.sink = FakeSink(place=PLACE, stored=world.sink.stored, batch_size=1)
    kept: list[dict[str, Any]] = []

    def keep(_: object) -> None:
        if len(sink.writes) + 1 == at:
            kept.append(copy_of(sink))
            for end in ("", "-wal"):
                shutil.copy(tmp_path / f"state.db{end}", tmp_path / f"killed.db{end}")

    sink.before_write = keep
    world.ingest(*records)
    restore(sink, *kept)
    sink.before_write = lambda _: None
    world.url = f"sqlite:///{tmp_path}/killed.db"


@dataclass
class Pairs(Remembering):
    """Each of its things is two models."""

    def map(self, record: FakeRecord) -> list[Entity]:
        thing = record.value
        properties = {"mlModelProperties": {"name": thing.value}}
        return [Entity(model_urn(f"{thing.name}{n}"), properties) for n in (1, 2)]


def test_a_change_that_was_undone_after_a_kill_is_undone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remembering, "map", Pairs.map)
    world.ingest(Record("a"), Record("calm"))
    # One write shows that versions are checked, one arrives.
    kill(world, tmp_path, Record("a", "2"), Record("calm"), at=3)
    assert world.sink.stored[model_urn("a1")]["mlModelProperties"]["name"] == "2"
    assert world.part().dirty == {"thing": 1}
    undone = Remembering(records=[Record("a"), Record("calm")])
    world.run(undone)
    assert undone.dirty == ["a"]
    assert world.sink.stored[model_urn("a1")]["mlModelProperties"]["name"] == "1"
    assert world.part().dirty == {}


def test_what_a_record_leads_to_is_read_again_after_a_kill(world: World, tmp_path: Path) -> None:
    lead = Record("lead", mark="before", leads=True)
    world.ingest(lead, Record("a"), Record("b"))
    # There is nothing to write of it, and much of what it leads to.
    kill(world, tmp_path, replace(lead, mark="now"), Record("a", "2"), Record("b", "2"), at=3)
    asking = Asking(records=[lead, Record("a"), Record("b")])
    world.run(asking)
    assert asking.known == {}
    assert world.run(asking).exit_code == 0
    assert asking.known == {"lead": "before"}


@dataclass
class Renaming(Remembering):
    """Its entities have the names of the values."""

    def map(self, record: FakeRecord) -> list[Entity]:
        return [Entity(model_urn(record.value.value), {"mlModelProperties": {"name": "x"}})]


def test_an_entity_that_a_killed_run_wrote_under_another_name_is_known(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remembering, "map", Renaming.map)
    world.ingest(Record("r", "old"))
    kill(world, tmp_path, Record("r", "new"), at=2)
    both = f"{model_urn('old')}\n{model_urn('new')}"
    assert world.sql("SELECT urns, seen_in_pass FROM state_record") == [(both, 0)]


def test_a_soft_delete_does_not_end_an_earlier_write_that_nobody_saw_the_end_of(
    world: World,
) -> None:
    world.ingest(Record("a"))
    sink, world.sink = world.sink, Dying(place=PLACE, stored=world.sink.stored)
    assert world.ingest(Record("a", "2")).exit_code == 1
    world.sink = sink
    assert world.ingest(Record("a", "gone")).entities["mlModel"].removed == 1
    sink.writes.clear()
    world.ingest(Record("a", "2"))
    back = {one.aspect_name for one in sink.writes[-1] if one.entity_urn == model_urn("a")}
    assert back == {"mlModelKey", "mlModelProperties"}
    sink.writes.clear()
    world.ingest(Record("a", "2"), full=True)
    assert written(world) == []


@pytest.mark.parametrize("status", [500, 503, 422])
def test_an_entity_that_was_stored_and_then_refused_is_written_again(
    world: World, status: int
) -> None:
    class Failing(FakeSink):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            super().write(proposals)
            return [
                AspectRejectedError(
                    urn=one.entity_urn, aspect=one.aspect_name, status=status, reason="failed"
                )
                for one in proposals
            ]

    world.sink = Failing(place=PLACE)
    assert world.ingest(Record("a")).exit_code == 4
    world.sink = FakeSink(place=PLACE, stored=world.sink.stored)
    world.ingest(Record("a"))
    assert model_urn("a") in written(world)


def test_what_was_refused_after_a_write_without_an_answer_is_written_again(world: World) -> None:
    class LosingAReply(FakeSink):
        def write(self, proposals: Sequence[Proposal]) -> Any:
            is_first = proposals[0].headers != NEVER and not self.stored
            if is_first:
                super().write(proposals)
            error = AspectChangedError if is_first else AspectRejectedError
            return [
                error(urn=one.entity_urn, aspect=one.aspect_name, status=422, reason="no")
                for one in proposals
            ]

    world.sink = LosingAReply(place=PLACE)
    assert world.ingest(Record("a")).exit_code == 4
    world.sink = FakeSink(place=PLACE, stored=world.sink.stored)
    world.ingest(Record("a"))
    assert [one.aspect_name for one in world.sink.writes[-1]] == ["mlModelKey", "mlModelProperties"]


def test_a_run_leaves_no_mark_of_what_was_acknowledged(world: World) -> None:
    world.ingest(*things(450))
    assert world.sql("SELECT urn FROM state_entity WHERE begun <> 0") == []


# --- full passes by stamps -----------------------------------------------------------------------

A = model_urn("a")
TAG = "urn:li:tag:t"


@dataclass
class Whole(Remembering):
    """Its things are models with a status, tags, and a tag that they refer to."""

    def map(self, record: FakeRecord) -> list[Entity]:
        thing = record.value
        tag = Entity(TAG, {"tagProperties": {"name": "t"}}, only_if_absent=True)
        aspects: dict[str, Aspect] = {
            "status": {"removed": False},
            "globalTags": {"tags": [{"tag": TAG}]},
            "mlModelProperties": {"name": thing.value},
        }
        return [tag, Entity(model_urn(thing.name), aspects)]


def whole(*values: str, digest: str | None = "") -> Whole:
    named = zip("abc", values, strict=False)
    return Whole(records=[Record(name, value, digest) for name, value in named])


def full(world: World, source: Remembering, **options: Any) -> Report:
    for requests in (world.sink.reads, world.sink.stamp_reads, world.sink.writes):
        requests.clear()
    return world.run(source, full=True, **options)


def is_passed_over(world: World) -> bool:
    return not world.sink.reads and not world.sink.writes


def test_a_full_pass_over_what_did_not_change_asks_for_stamps_and_reads_no_value(
    world: World,
) -> None:
    world.ingest(*things(450))
    report = full(world, Remembering(records=things(450)))
    assert report.entities == {"mlModel": EntityCounts(450, unchanged=450)}
    assert is_passed_over(world)
    assert [len(urns) for urns in world.sink.stamp_reads] == [450]
    assert full(world, Remembering(records=[*things(449), Record("t449", "2")])).exit_code == 0
    assert world.sink.reads[0] == [model_urn("t449")]


@dataclass
class Trained(Whole):
    """Its things are models of one dataset, of which a full pass reports whether it is there.

    `how` has further fields of these entities.
    """

    how: Mapping[str, Any] = field(default_factory=dict)

    def map(self, record: FakeRecord) -> list[Entity]:
        tag, model = super().map(record)
        notes = (Note("truncated", "a parameter"),)
        aspects = {**TRAINED, **model.aspects}
        return [tag, replace(model, aspects=aspects, notes=notes, **self.how)]


def trained(*values: str, **how: Any) -> Trained:
    return Trained(records=whole(*values).records, how=how)


DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/part-0,PROD)"
TRAINED: dict[str, Aspect] = {"mlModelTrainingData": {"trainingData": [{"dataset": DATASET}]}}


def test_a_full_pass_over_models_of_datasets_reads_no_value_and_reports_as_one_that_does(
    world: World,
) -> None:
    first = world.run(trained("1", "2", "3"))
    report = full(world, trained("1", "2", "3"))
    assert report.entities == {
        "mlModel": EntityCounts(3, unchanged=3),
        "tag": EntityCounts(1, unchanged=1),
    }
    assert (report.notes, report.lineage) == (first.notes, first.lineage)
    assert (report.notes, report.lineage.dangling[0].models) == ({"truncated": 3}, 3)
    assert (world.sink.reads, world.sink.writes) == ([[DATASET]], [])


def test_a_pass_over_changes_reports_only_what_it_merges(world: World) -> None:
    world.run(trained("1", "2", "3"))
    report = world.run(trained("1", "2", "changed"))
    assert report.entities["tag"] == EntityCounts(1, unchanged=1)
    assert (report.notes, report.lineage.dangling[0].models) == ({"truncated": 1}, 1)


def test_models_of_datasets_that_did_not_change_cost_a_page_one_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(trained("1", "2", "3"))
    touched: list[Mapping[str, Iterable[str]]] = []
    monkeypatch.setattr(records, "touch", lambda *values: touched.append(values[-1]))
    full(world, trained("1", "2", "3"))
    assert touched == [{"thing": ["a", "b", "c"]}]


@pytest.mark.parametrize(
    "how",
    [
        {"adds_only": frozenset({"globalTags"})},
        {"formerly": {"globalTags": {"tags": []}}},
    ],
    ids=lambda how: next(iter(how)),
)
def test_what_was_merged_in_another_way_is_merged_again(
    world: World, how: Mapping[str, Any]
) -> None:
    world.run(trained("1", **how))
    full(world, trained("1"))
    assert [A] in world.sink.reads


def test_a_pass_over_changes_does_not_ask_for_stamps(world: World) -> None:
    world.ingest(*things(3))
    world.ingest(*things(3))
    assert world.sink.stamp_reads == []


def copy_of(sink: FakeSink) -> dict[str, Any]:
    stored = {urn: dict(aspects) for urn, aspects in sink.stored.items()}
    return {"stored": stored, "versions": dict(sink.versions), "_written": dict(sink._written)}


def restore(sink: FakeSink, copy: Mapping[str, Any]) -> None:
    for name, value in copy.items():
        setattr(sink, name, value)


def drops(name: str) -> Callable[[FakeSink], object]:
    return lambda sink: sink.stored[A].pop(name)


EDITS: Mapping[str, Callable[[FakeSink], object]] = {
    "a field of ours": lambda sink: sink.put(A, "mlModelProperties", {"name": "theirs"}),
    "an entry of ours": lambda sink: sink.put(A, "globalTags", {"tags": []}),
    "a soft deletion": lambda sink: sink.put(A, "status", {"removed": True}),
    "an aspect that is deleted": drops("globalTags"),
    "the properties and base that are deleted": drops("mlModelProperties"),
    "an entity that is deleted": lambda sink: sink.stored.pop(A),
    "a reference that is deleted": lambda sink: sink.stored.pop(TAG),
    "a value that was put into the database": lambda sink: sink.stored[A].update(
        mlModelProperties={"name": "theirs"}
    ),
}


@pytest.mark.parametrize("digest", ["", None], ids=["of the record", "of the entities"])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_full_pass_finds_what_others_changed(
    world: World, edit: Callable[[FakeSink], object], digest: str | None
) -> None:
    world.run(whole("1", "2", digest=digest))
    edit(world.sink)
    full(world, whole("1", "2", digest=digest))
    stored = world.sink.stored
    assert stored[A]["mlModelProperties"]["name"] == "1"
    assert stored[A]["globalTags"]["tags"] == [{"tag": TAG}]
    assert stored[A].get("status", {"removed": False}) == {"removed": False}
    assert TAG in stored
    # What it found unchanged, or has written itself, the next one passes over.
    full(world, whole("1", "2", digest=digest))
    full(world, whole("1", "2", digest=digest))
    assert is_passed_over(world)


def test_an_aspect_that_somebody_adds_is_looked_at_once(world: World) -> None:
    world.run(whole("1"))
    world.sink.put(A, "domains", {"domains": ["urn:li:domain:d"]})
    full(world, whole("1"))
    assert ([A] in world.sink.reads, world.sink.writes) == (True, [])
    full(world, whole("1"))
    assert is_passed_over(world)


@pytest.mark.parametrize("writer", ["another", "nobody"])
def test_a_catalog_restored_from_a_copy_is_compared_though_its_versions_are_the_same(
    world: World, writer: str
) -> None:
    world.run(whole("1"))
    copy = copy_of(world.sink)
    world.run(whole("2"))
    if writer == "another":
        world.sink.put(A, "mlModelProperties", {**world.sink.stored[A]["mlModelProperties"]})
    versions = dict(world.sink.versions)
    restore(world.sink, copy)
    if writer == "another":
        before = world.sink.stored[A]["mlModelProperties"]
        world.sink.put(A, "mlModelProperties", {**before, "name": "theirs"})
        assert world.sink.versions == versions
    full(world, whole("2"))
    assert world.sink.stored[A]["mlModelProperties"]["name"] == "2"


def test_what_a_person_wrote_at_the_version_of_another_persons_write_is_found(
    world: World,
) -> None:
    world.run(whole("1"))
    copy = copy_of(world.sink)
    before = world.sink.stored[A]["mlModelProperties"]
    world.sink.put(A, "mlModelProperties", {**before, "description": "first"})
    full(world, whole("1"))  # whose stamp is that of a writer who names no run
    restore(world.sink, copy)
    world.sink.put(A, "mlModelProperties", {**before, "name": "second"})
    full(world, whole("1"))
    assert world.sink.stored[A]["mlModelProperties"]["name"] == "1"


def test_a_source_restored_from_a_copy_is_read_again(world: World) -> None:
    world.run(whole("1"))
    world.run(whole("2"))
    full(world, whole("1"))
    assert world.sink.stored[A]["mlModelProperties"]["name"] == "1"
    full(world, whole("2"))
    assert world.sink.stored[A]["mlModelProperties"]["name"] == "2"


@pytest.mark.parametrize("what", ["source", "recipe"])
def test_a_pass_after_a_change_of_settings_maps_everything_even_if_the_first_one_broke_off(
    world: World, what: str
) -> None:
    world.run(whole("1", "2"))
    other = whole("1", "2")
    other.settings = "x" if what == "source" else ""
    options: dict[str, Any] = {"settings": "x" if what == "recipe" else ""}
    other.error = SourceUnavailableError("before it listed anything")
    listed, other.records = other.records, []
    world.run(other, **options)
    other.error, other.records = None, listed
    full(world, other, **options)
    assert sorted(world.sink.reads[-1]) == [model_urn("a"), model_urn("b")]


@dataclass
class Dropping(FakeSink):
    """May drop what it acknowledges."""

    @property
    def facts(self) -> CatalogFacts:
        return replace(super().facts, may_drop=True)


@pytest.mark.parametrize(
    "sink", [FakeSink(place=PLACE, checks_versions=False), Dropping(place=PLACE)]
)
def test_stamps_are_read_where_an_acknowledgement_does_not_tell_them(
    world: World, sink: FakeSink
) -> None:
    world.sink = sink
    world.run(whole("1"))
    full(world, whole("1"))
    assert world.sink.stamp_reads == []
    assert not is_passed_over(world)
    full(world, whole("1"))
    assert is_passed_over(world)


def test_a_catalog_that_tells_no_stamps_is_compared_by_values(world: World) -> None:
    world.sink.tells_versions = False
    world.run(whole("1"))
    for _ in range(2):
        report = full(world, whole("1"))
        assert report.entities["mlModel"] == EntityCounts(1, unchanged=1)
        assert not is_passed_over(world)


def test_where_stamps_may_not_be_read_values_are_compared(world: World) -> None:
    class Silent(FakeSink):
        def read_stamps(self, *_: Any) -> Any:
            raise NotAuthorizedError("not for you")

    world.run(whole("1"))
    world.sink = Silent(place=PLACE, stored=world.sink.stored, _written=world.sink._written)
    report = full(world, whole("1"))
    assert (report.exit_code, report.entities["mlModel"].unchanged) == (0, 1)
    assert not is_passed_over(world)


def test_a_record_that_is_listed_twice_ends_as_it_was_listed_last(world: World) -> None:
    """As a run that turns out to be a parent after its page."""

    def read(*records: Record, **options: Any) -> None:
        source = Whole(records=records)
        source.page_size = 1
        world.run(source, **options)
        assert world.sink.stored[A]["mlModelProperties"]["name"] == records[-1].value

    for is_full in (True, False):
        read(Record("a", "1"), Record("a", "2"), full=is_full)
        read(Record("a", "1"), Record("a", "2"), full=is_full)


def test_an_entity_of_two_records_is_never_passed_over(world: World) -> None:
    class Shared(Remembering):
        def map(self, record: FakeRecord) -> list[Entity]:
            tags = {"tags": [{"tag": f"urn:li:tag:{record.value.name}"}]}
            aspects: dict[str, Aspect] = {
                "globalTags": tags,
                "mlModelProperties": {"name": "one"},
            }
            adds_only = frozenset({"globalTags"})
            return [Entity(model_urn("one"), aspects, adds_only=adds_only)]

    pair = [Record("a"), Record("b")]
    for _ in range(3):
        full(world, Shared(records=pair))
        assert not is_passed_over(world)


def test_a_removed_entity_that_is_alive_in_a_restored_catalog_is_removed_again(
    world: World,
) -> None:
    world.ingest(Record("a"), Record("b"))
    copy = copy_of(world.sink)
    world.ingest(Record("a", "gone"), Record("b"))
    full(world, Remembering(records=[Record("a", "gone"), Record("b")]))
    restore(world.sink, copy)
    full(world, Remembering(records=[Record("a", "gone"), Record("b")]))
    assert world.sink.stored[A]["status"] == {"removed": True}


def test_an_entity_that_the_catalog_never_had_is_removed_once_it_has_it(world: World) -> None:
    gone = [Record("a", "gone")]
    world.ingest(*gone)
    full(world, Remembering(records=gone))
    world.sink.put(A, "mlModelProperties", {"name": "from a copy"})
    full(world, Remembering(records=gone))
    assert world.sink.stored[A]["status"] == {"removed": True}


@pytest.mark.parametrize("full", [False, True])
def test_what_stays_removed_counts_so_in_every_pass(world: World, *, full: bool) -> None:
    world.ingest(Record("a"), Record("b"))
    gone = [Record("a"), Record("b", "gone")]
    removed = world.ingest(*gone, full=full).entities["mlModel"]
    assert removed == EntityCounts(2, removed=1, unchanged=1)
    for again in range(6):
        counts = world.ingest(*gone, full=full).entities["mlModel"]
        assert counts == EntityCounts(2, still_removed=1, unchanged=1)
        if again == 2:  # a state that was lost learns it of the catalog
            Path(world.url.removeprefix("sqlite:///")).unlink()
