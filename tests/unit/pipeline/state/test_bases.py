"""The state is the base of an entity whose base another tool's upsert dropped."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession
from mlcat_ingest.workflows.retract import Retraction
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

HOME = "mlModelProperties"
OURS, PEOPLES = "urn:li:tag:ours", "urn:li:tag:theirs"
URN = model_urn("r1")


@dataclass
class World:
    """A recipe with state, and a catalog in which another tool upserts properties."""

    folder: Path
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    writer_ids: Sequence[str] | None = None

    @property
    def database(self) -> Path:
        return self.folder / "state.db"

    def ingest(self, tags: Sequence[str], *, full: bool = True) -> Report:
        entity = Entity(
            URN,
            {
                "globalTags": {"tags": [{"tag": one} for one in tags]},
                HOME: {"name": "r1", "customProperties": {"k": "v", "mlcat.source": "s"}},
            },
        )
        state = StateSession(
            f"sqlite:///{self.database}", StateOptions("r", self.writer_ids, full=full)
        )
        options = RunOptions(a_recipe("r", evaluate={"enabled": False}), state=state)
        report = PipelineRun([FakeSource([[entity]])], self.sink, options).execute()
        assert report.exit_code == 0
        return report

    def replace_properties(self) -> None:
        """Upsert the properties as another source does, which knows nothing of ours."""
        self.sink.put(URN, HOME, {"name": "r1", "customProperties": {"theirs": "x"}})

    def add_tag(self, tag: str) -> None:
        before = self.sink.stored[URN]["globalTags"]["tags"]
        self.sink.put(URN, "globalTags", {"tags": [*before, {"tag": tag}]})

    def tags(self) -> list[str]:
        return [one["tag"] for one in self.sink.stored[URN]["globalTags"]["tags"]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.ingest([OURS])
    world.add_tag(PEOPLES)
    world.replace_properties()
    return world


def test_an_entry_that_the_source_drops_goes_by_the_base_of_the_state(world: World) -> None:
    report = world.ingest([])
    assert world.tags() == [PEOPLES]
    assert report.without_base == 0
    assert world.sink.stored[URN][HOME]["customProperties"].keys() > {"k", "theirs"}
    assert "mlcat.applied.r" in world.sink.stored[URN][HOME]["customProperties"]


def test_after_a_rollback_the_newer_base_of_the_state_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.ingest([])
    world.ingest([OURS])
    world.add_tag(PEOPLES)
    world.sink.roll_back(URN, HOME)
    world.ingest([])
    assert world.tags() == [PEOPLES]


def test_after_a_restore_the_base_that_came_back_counts_for_what_changed_since(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.ingest([OURS, "urn:li:tag:stays"])
    sink = world.sink
    backup = deepcopy((sink.stored, sink.versions, sink._written))
    world.ingest(["urn:li:tag:stays"])
    sink.stored, sink.versions, sink._written = backup
    world.add_tag(PEOPLES)
    world.ingest(["urn:li:tag:stays"])
    assert world.tags() == ["urn:li:tag:stays", PEOPLES]


def test_a_rollback_of_a_run_finds_each_aspect_that_it_wrote(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.ingest([])
    before = deepcopy(world.sink.stored)
    report = world.ingest([OURS])
    assert "globalTags" in world.sink.stored[URN]
    world.sink.roll_back_run(report.run_id)
    assert world.sink.stored == before
    world.sink.roll_back_run(first.run_id)
    assert world.sink.stored == {URN: {}}


def test_a_base_of_an_entity_that_was_made_anew_counts(tmp_path: Path) -> None:
    world = World(tmp_path, writer_ids=["one"])
    for tags in ([], [OURS], []):
        world.ingest(tags)
    del world.sink.stored[URN]
    world.sink.versions.clear()
    World(tmp_path / "elsewhere", world.sink, ["one"]).ingest([OURS])
    world.ingest([])
    assert world.tags() == []


def test_without_state_nothing_goes_and_the_entity_is_counted(world: World) -> None:
    world.database.unlink()
    report = world.ingest([])
    assert world.tags() == [OURS, PEOPLES]
    assert report.without_base == 1


def test_a_base_that_is_stored_wins_over_the_state(world: World) -> None:
    world.ingest([OURS])
    older = world.sink.stored[URN][HOME]
    world.ingest([])
    world.add_tag(OURS)  # by a person
    world.sink.put(URN, HOME, older)
    world.ingest([])
    assert world.tags() == [PEOPLES]


def test_a_state_that_lost_its_bases_takes_those_of_unchanged_entities(world: World) -> None:
    world.ingest([OURS])
    with closing(sqlite3.connect(world.database)) as connection, connection:
        connection.execute("DELETE FROM state_entity")
    assert world.ingest([OURS]).proposals_sent == 0
    world.replace_properties()
    world.ingest([])
    assert world.tags() == [PEOPLES]


def test_a_refused_entity_has_the_base_that_was_acknowledged(world: World) -> None:
    world.ingest([OURS])
    world.sink.refuse = {URN}
    with pytest.raises(AssertionError):
        world.ingest([PEOPLES])
    world.sink.refuse = ()
    world.replace_properties()
    world.ingest([])
    assert world.tags() == [PEOPLES]


def test_retract_leaves_nothing_of_ours_and_all_of_others(world: World) -> None:
    url = f"sqlite:///{world.database}"
    stored = world.sink.stored[URN][HOME]
    # The source of these tests has no records, so nothing but the search lists its entity.
    listed = {**stored["customProperties"], "mlcat.source": "s"}
    world.sink.put(URN, HOME, {**stored, "customProperties": listed})
    with Retraction("r", [], world.sink, url, None) as retraction:
        assert [one.urn for one in retraction.plan().entities()] == [URN]
        assert retraction.execute().exit_code == 0
    assert world.tags() == [PEOPLES]
    with closing(sqlite3.connect(world.database)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM state_entity").fetchone() == (0,)


def test_a_plan_merges_with_the_base_of_the_state(world: World) -> None:
    state = StateSession(f"sqlite:///{world.database}", StateOptions("r"), StatePolicy.COPY)
    state.open(world.sink)
    assert state.entities.base(URN)
    state.close()
