"""Retractions over fakes: what is listed, what stays when they end early, what is forgotten."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.base import SourceEntities
from mlcat_ingest.errors import (
    CatalogRequestError,
    CatalogUnavailableError,
    ProtocolMismatchError,
    RecipeError,
    RecipeLockedError,
    StateUnavailableError,
)
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.inspection import summary
from mlcat_ingest.pipeline.state.locks import acquire
from mlcat_ingest.pipeline.state.opening import lock_file, open_state
from mlcat_ingest.pipeline.state.partitions import PartitionKey
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.pipeline.write.incidents import _state_of, after, incident_of, new_incident
from mlcat_ingest.pipeline.write.searchable import UrnList, in_chunks
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest
from mlcat_ingest.workflows.retract import Retraction
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn

PLACE = "fake://catalog"
KEY = PartitionKey("r", PLACE, "fake:0:default", "")
HOME = "mlModelProperties"


class Unsearchable(FakeSink):
    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        del entity_type, source, removed
        raise CatalogRequestError("no search here", status=404)


class Named(FakeSource):
    """A source that says what it is called, as it does when it is read."""

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        request.state.partition(Partition(KEY.source, "", {}, "s"))
        yield Page([])
        self.requests += 1


@dataclass
class World:
    folder: Path
    sink: FakeSink = field(default_factory=lambda: FakeSink(place=PLACE))
    source: FakeSource = field(default_factory=Named)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/state.db"

    @property
    def letters(self) -> Path:
        return self.folder / "dead.jsonl"

    def ingest(self, *names: str, remember: bool = True) -> None:
        for name in names:
            fresh = {"name": name, "customProperties": {"mlcat.source": KEY.source}}
            tags = {"tags": [{"tag": "urn:li:tag:t"}]}
            entity = Entity(model_urn(name), {HOME: fresh, "globalTags": tags})
            self.sink.write(
                [
                    Proposal(one.entity_urn, one.aspect_name, one.aspect)
                    for one in merge_entity(entity, None, MergeRules(Writer("r"))).proposals
                ]
            )
        self.sink.writes.clear()
        if remember:
            self.remember(*names)

    def remember(self, *names: str, key: PartitionKey = KEY) -> None:
        engine = open_state(self.url)
        rows = [
            RecordRow(key.id, "run", name, "d", model_urn(name), "", "", "", 1) for name in names
        ]
        with engine.transaction(write=True) as connection:
            partitions.begin(connection, key, "s", {})
            partitions.save_checkpoint(connection, key, {"at": 1}, 1_000, full=True)
            connection.execute_many(records.SAVE, rows)
        engine.dispose()

    def retraction(self) -> Retraction:
        return Retraction("r", [self.source], self.sink, self.url, self.letters)

    def run(self) -> Any:
        with self.retraction() as retraction:
            retraction.plan()
            return retraction.execute()

    def removed(self) -> set[str]:
        return {
            urn
            for urn, aspects in self.sink.stored.items()
            if aspects.get("status", {}).get("removed")
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def urns(*names: str) -> set[str]:
    return {model_urn(name) for name in names}


def test_what_is_remembered_is_taken_back_and_forgotten(world: World) -> None:
    world.sink = Unsearchable(place=PLACE)
    world.ingest(*(f"r{n}" for n in range(450)))
    elsewhere = PartitionKey("r", "another catalog", KEY.source, "")
    world.remember("r1", key=elsewhere)
    report = world.run()
    assert report.exit_code == 0
    assert report.entities["mlModel"].removed == 450
    assert len(world.removed()) == 450
    assert [part.catalog for part in summary(world.url, "r").parts] == ["another catalog"]
    assert max(map(len, world.sink.reads)) == 200


def test_what_is_not_remembered_is_listed_by_the_catalog(world: World) -> None:
    world.ingest("a", "b", remember=False)
    world.run()
    assert world.removed() == urns("a", "b")
    assert world.source.requests == 1
    assert not Path(world.folder / "state.db").exists()


def test_what_a_run_removed_and_forgot_has_nothing_of_ours_when_it_comes_back(world: World) -> None:
    world.ingest("a")
    world.ingest("renamed", remember=False)
    gone = world.sink.stored[model_urn("renamed")]
    gone["status"] = {"removed": True}
    assert world.run().exit_code == 0
    assert world.removed() == urns("a", "renamed")
    assert gone["globalTags"] == {"tags": []}
    assert "mlcat.applied.r" not in gone[HOME]["customProperties"]


def test_with_neither_nothing_is_done(world: World) -> None:
    world.sink = Unsearchable(place=PLACE)
    world.ingest("a", remember=False)
    with (
        world.retraction() as retraction,
        pytest.raises(ProtocolMismatchError, match="cannot be listed, so nothing was changed"),
    ):
        retraction.plan()
    assert world.sink.writes == []
    assert world.sink.closed == 1


def test_a_plan_writes_nothing(world: World) -> None:
    world.ingest("a")
    before = summary(world.url, "r")
    with world.retraction() as retraction:
        (entity,) = retraction.plan().entities()
    assert (entity.urn, entity.action) == (model_urn("a"), "remove")
    assert world.sink.writes == []
    assert summary(world.url, "r") == before


def test_what_was_written_since_the_plan_stays(world: World) -> None:
    world.ingest("a")
    with world.retraction() as retraction:
        retraction.plan()
        world.sink.put(model_urn("a"), "editableMlModelProperties", {"description": "theirs"})
        report = retraction.execute()
    assert report.entities["mlModel"].updated == 1
    assert world.removed() == set()


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("checked", [True, False])
def test_a_write_at_the_same_moment_stays(world: World, *, checked: bool, seen: bool) -> None:
    world.ingest("a")
    world.sink.checks_versions = checked
    tags = {"tags": [*({"tag": "urn:li:tag:t"} for _ in range(seen)), {"tag": "urn:li:tag:theirs"}]}
    edits = iter([tags])

    def somebody(proposals: Sequence[Proposal]) -> None:
        # The first write only asks whether versions are checked.
        if len(proposals) > 1 and (edit := next(edits, None)) is not None:
            world.sink.put(model_urn("a"), "globalTags", edit)

    world.sink.before_write = somebody
    report = world.run()
    assert report.conflicts == 1
    assert world.sink.stored[model_urn("a")]["globalTags"] == {
        "tags": [{"tag": "urn:li:tag:theirs"}]
    }
    assert world.removed() == set()
    assert (report.entities["mlModel"].updated, report.entities["mlModel"].removed) == (1, 0)


@pytest.mark.parametrize("checked", [True, False])
def test_an_aspect_that_somebody_adds_at_the_same_moment_keeps_the_entity_visible(
    world: World, *, checked: bool
) -> None:
    world.ingest("a", "b")
    world.sink.checks_versions = checked
    owners = {"owners": [{"owner": "urn:li:corpuser:ada", "type": "NONE"}]}

    def somebody(proposals: Sequence[Proposal]) -> None:
        # Nobody's version changes: what we write names no version of an aspect that we leave alone.
        if len(proposals) > 1 and "ownership" not in world.sink.stored[model_urn("a")]:
            world.sink.put(model_urn("a"), "ownership", owners)

    world.sink.before_write = somebody
    report = world.run()
    assert world.removed() == urns("b")
    assert report.conflicts == 1
    assert (report.entities["mlModel"].updated, report.entities["mlModel"].removed) == (1, 1)
    left = world.sink.stored[model_urn("a")]
    assert left["ownership"] == owners
    assert left["globalTags"] == {"tags": []}
    assert "mlcat.applied.r" not in left[HOME].get("customProperties", {})


@pytest.mark.parametrize("checked", [True, False])
def test_an_entity_whose_properties_are_deleted_with_the_base_stays_removed(
    world: World, *, checked: bool
) -> None:
    world.sink.checks_versions = checked
    run, aspect = "urn:li:dataProcessInstance:r", "dataProcessInstanceProperties"
    stamp = {"time": 1, "actor": "urn:li:corpuser:ada"}
    fresh = {"name": "r", "created": stamp, "customProperties": {"mlcat.source": KEY.source}}
    merged = merge_entity(Entity(run, {aspect: fresh}), None, MergeRules(Writer("r")))
    world.sink.write([Proposal(run, aspect, one.aspect) for one in merged.proposals])
    assert world.run().entities["dataProcessInstance"].removed == 1
    assert world.sink.stored[run] == {"status": {"removed": True}}


def test_what_is_refused_is_kept_as_a_dead_letter_and_not_forgotten(world: World) -> None:
    world.ingest("a", "b")
    world.sink.refuse = {(model_urn("a"), "globalTags")}
    report = world.run()
    assert (report.exit_code, report.rejected) == (4, 1)
    assert report.entities["mlModel"].removed == 1
    letters = [json.loads(line) for line in world.letters.read_text().splitlines()]
    assert {one["urn"] for one in letters} == urns("a")
    (part,) = summary(world.url, "r").parts
    assert part.checkpoint is None
    world.sink.refuse = ()
    assert world.run().exit_code == 0
    assert summary(world.url, "r").parts == ()
    assert not world.letters.exists()


def test_a_catalog_that_goes_away_ends_it_and_the_next_run_reads_everything(world: World) -> None:
    world.ingest("a")

    def gone(_: Sequence[Proposal]) -> None:
        raise CatalogUnavailableError("the catalog is gone")

    world.sink.before_write = gone
    report = world.run()
    assert report.exit_code == 1
    assert report.failure.message == "the catalog is gone"
    (part,) = summary(world.url, "r").parts
    assert part.checkpoint is None


def test_ctrl_c_is_in_the_report(world: World) -> None:
    world.ingest("a")

    def stop(_: Sequence[Proposal]) -> None:
        raise KeyboardInterrupt

    world.sink.before_write = stop
    assert world.run().exit_code == 130


def test_state_that_cannot_be_used_ends_it_before_anything_is_taken_back(world: World) -> None:
    world.ingest("a")
    lock = lock_file(world.url, "r")
    assert lock is not None
    lock.mkdir()
    with pytest.raises(StateUnavailableError, match="the lock file"), world.retraction():
        pass
    assert not world.sink.writes


def test_a_run_at_work_is_not_disturbed(world: World) -> None:
    world.ingest("a")
    engine = open_state(world.url)
    held = acquire(engine, world.url, "r")
    with pytest.raises(RecipeLockedError), world.retraction():
        pass
    held.release()
    engine.dispose()
    assert world.run().exit_code == 0


def test_a_sink_that_keeps_nothing_has_nothing_to_take_back(world: World) -> None:
    world.sink = FakeSink()
    with pytest.raises(RecipeError, match="keeps no entities to retract"):
        world.retraction()


def test_urns_come_once_and_by_type() -> None:
    listed = UrnList()
    listed.add(["urn:li:tag:b", model_urn("z"), "urn:li:tag:a"])
    listed.add([f"urn:li:tag:{n:03}" for n in range(300)] + ["urn:li:tag:a"])
    chunks = list(in_chunks(listed))
    listed.close()
    assert [len(chunk) for chunk in chunks] == [1, 200, 102]
    assert chunks[0] == [model_urn("z")]


def test_a_retraction_that_is_cut_off_leaves_no_incident_open(world: World) -> None:
    world.ingest("a")
    urn, incident = model_urn("a"), incident_of(model_urn("a"), "urn:li:test:t")
    info = after(None, "fails", "r", new_incident(urn, "urn:li:test:t", "t", ""))
    assert info is not None
    world.sink.put(incident, "incidentInfo", info)
    world.sink.put(urn, "incidentsSummary", {"activeIncidentDetails": [{"urn": incident}]})

    def cut_off(proposals: Sequence[Proposal]) -> None:
        if proposals[0].entity_urn == incident:
            raise KeyboardInterrupt

    world.sink.before_write = cut_off
    world.run()
    world.sink.before_write = lambda _: None
    assert world.run().exit_code == 0
    assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "resolved"
    assert world.removed() == urns("a")
