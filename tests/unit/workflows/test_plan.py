"""A plan goes through a run's stages and writes nothing: no proposal, no row, no file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import AspectRejectedError, CatalogUnavailableError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.report.report import TestVerdict, Verdict
from mlcat_ingest.pipeline.state.inspection import summary
from mlcat_ingest.pipeline.state.locks import acquire
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest, RecordVersion
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_diff import diff_merged
from mlcat_ingest.workflows.plan_render import change_data, summary_data
from support.fakes import FakeRecord, FakeSink, FakeSource, group_urn, model_urn
from support.sides import resolved_recipe

GROUP = group_urn("g")


@dataclass
class Sides:
    """One recipe with its sides, in a folder."""

    folder: Path
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    source: Any = field(default_factory=FakeSource)
    limits: str = ""

    @property
    def state(self) -> Path:
        return self.folder / "state.db"

    def pipeline(self, *pages: list[Entity]) -> Pipeline:
        if pages:
            self.source = FakeSource(pages)
        text = f"{self.limits} state: {{url: 'sqlite:///{self.state}'}}"
        return Pipeline(resolved_recipe(text, self.sink, self.source))

    def fingerprint(self) -> dict[str, str]:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.iterdir()
            if not path.name.endswith(("-shm", "-wal"))
        }


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


def report_of(plan: Plan) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    with plan:
        for entity in plan.entities():
            changes += change_data(entity)
    return changes, summary_data(plan)


def group(**properties: object) -> Entity:
    return Entity(GROUP, {"mlModelGroupProperties": {"name": "g", **properties}})


def model(name: str, **properties: object) -> Entity:
    return Entity(
        model_urn(name), {"mlModelProperties": {"name": name, "groups": [GROUP], **properties}}
    )


def actions(entities: list[dict[str, Any]]) -> dict[str, str]:
    return {one["urn"]: one["action"] for one in entities}


def test_an_empty_catalog_gets_everything_and_nothing_is_written(sides: Sides) -> None:
    pages = [[group()], [model(f"r{n}") for n in range(450)]]
    entities, summary_ = report_of(sides.pipeline(*pages).plan())
    assert list(actions(entities))[:2] == [GROUP, model_urn("r0")]
    assert set(actions(entities).values()) == {"create"}
    assert summary_["entities"]["mlModel"]["create"] == 450
    assert (summary_["proposals"], summary_["write_requests"]) == (451, 3)
    assert summary_["source_requests"] == 2
    assert summary_["catalog_requests"] == len(sides.sink.reads) == 4
    assert summary_["pending"]
    assert sides.sink.writes == []
    assert sides.sink.evaluations == []
    assert sides.fingerprint() == {}


def test_a_plan_says_what_the_run_after_it_does(sides: Sides) -> None:
    sides.pipeline([group(), model("a"), model("b"), model("c")]).run()
    sides.sink.put(model_urn("b"), "status", {"removed": True})
    people = {**sides.sink.stored[model_urn("a")]["mlModelProperties"], "description": "theirs"}
    sides.sink.put(model_urn("a"), "mlModelProperties", people)
    before = sides.fingerprint()
    writes = len(sides.sink.writes)
    gone = Entity(model_urn("c"), {"status": {"removed": True}})
    back = {"status": {"removed": False}, **model("b").aspects}
    pages = [group(), model("a", trainingJobs=["j"]), Entity(model_urn("b"), back), gone]
    entities, summary_ = report_of(sides.pipeline(pages).plan())
    assert actions(entities) == {
        model_urn("a"): "update",
        model_urn("b"): "revive",
        model_urn("c"): "remove",
    }
    assert entities[0] == {
        "kind": "change",
        "urn": model_urn("a"),
        "name": "a (g)",
        "action": "update",
        "aspect": "mlModelProperties",
        "field": "trainingJobs",
        "entry": "j",
        "after": "j",
    }
    assert len(sides.sink.writes) == writes
    assert sides.fingerprint() == before
    report = sides.pipeline(pages).run()
    assert report.proposals_sent == summary_["proposals"]
    assert report.entities["mlModel"].updated == 2
    assert report.entities["mlModel"].removed == 1
    entities, summary_ = report_of(sides.pipeline(pages).plan())
    assert entities == []
    assert not summary_["pending"]
    assert summary_["entities"]["mlModel"]["unchanged"] == 2
    assert summary_["entities"]["mlModel"]["still_removed"] == 1


class Killed(FakeSink):
    """A catalog that is killed after it stored what it was sent."""

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        if not (refused := super().write(proposals)):
            raise CatalogUnavailableError("killed")
        return refused


def test_what_a_killed_run_has_stored_is_no_change(sides: Sides) -> None:
    sides.pipeline([group(), model("a")]).run()
    sink, pages = sides.sink, [group(), model("a", description="new")]
    sides.sink = Killed(place=sink.place, stored=sink.stored, versions=sink.versions)
    assert sides.pipeline(pages).run().exit_code == 1
    sides.sink = sink
    changes, summary_ = report_of(sides.pipeline(pages).plan())
    assert (changes, summary_["pending"]) == ([], False)
    written = list[MergedEntity]()
    report = sides.pipeline(pages).run(changes=written.extend)
    assert report.entities["mlModel"].unchanged == len(written) == 1
    assert list(map(diff_merged, written)) == [None]


def test_an_entity_that_is_reported_twice_is_one_change(sides: Sides) -> None:
    first, again = group(customProperties={"a": "1"}), group(description="d")
    # Two pages of other entities between them, so that they are merged apart.
    between = [model(f"r{n}") for n in range(300)]
    sides.limits = "limits: {max_new_entities: 301},"
    entities, summary_ = report_of(sides.pipeline([first], between, [again]).plan())
    assert summary_["failure"] is None
    of_group = (one for one in entities if one["urn"] == GROUP)
    assert {(one["field"], one.get("entry")): one["after"] for one in of_group} == {
        ("name", None): "g",
        ("customProperties", "a"): "1",
        ("description", None): "d",
    }
    sides.pipeline([first], between, [again]).run()
    stored = sides.sink.stored[GROUP]["mlModelGroupProperties"]
    assert stored["description"] == "d"


def test_a_limit_is_what_would_stop_the_run(sides: Sides) -> None:
    sides.limits = "limits: {max_new_entities: 2},"
    plan = sides.pipeline([model("a"), model("b"), model("c")]).plan()
    assert plan.exit_code(tell_pending=True) == 2
    _, summary_ = report_of(plan)
    assert "more than 2 new entities" in summary_["failure"]


def test_records_that_cannot_be_used_or_sent_are_counted(sides: Sides) -> None:
    nan = model("nan", trainingMetrics=[{"name": "m", "value": float("nan")}])
    source = FakeSource([[model("a"), nan, "no entity"]])
    sides.source = source
    plan = sides.pipeline().plan()
    assert plan.exit_code(tell_pending=False) == 0
    entities, summary_ = report_of(plan)
    assert actions(entities) == {model_urn("a"): "create"}
    assert (summary_["failed_records"], summary_["rejected"]) == (1, 1)
    assert sides.fingerprint() == {}


def test_failed_metadata_tests_count_where_the_run_would_be_partial(sides: Sides) -> None:
    with sides.pipeline([model("a")]).plan() as plan:
        pass
    failed = Verdict("owner", (TestVerdict("urn:li:test:owner", "owner", 0, 1, 1),))
    plan.report = replace(plan.report, failed_records=1, gate=failed)
    assert plan.report.exit_code == 4
    assert plan.exit_code(tell_pending=False) == 3


def test_a_run_at_work_is_not_in_the_way(sides: Sides) -> None:
    url = f"sqlite:///{sides.state}"
    engine = open_state(url)
    held = acquire(engine, url, "test")
    entities, _ = report_of(sides.pipeline([model("a")]).plan())
    assert actions(entities) == {model_urn("a"): "create"}
    held.release()
    engine.dispose()


@dataclass
class Checkpointed(FakeSource):
    """A source that reads `records` and tells each by its name."""

    records: list[Entity] = field(default_factory=list)
    checkpoints: list[Any] = field(default_factory=list)

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(Partition("fake:0:default", "", {"thing": "urn"}, "s"))
        self.checkpoints.append(partition.checkpoint)
        records = [FakeRecord(one, RecordVersion("thing", one.urn)) for one in self.records]
        yield Page(records, partition)
        yield Finished(partition, {"at": len(self.records)}, complete=True)


def test_a_plan_reads_what_the_next_run_would_read_and_remembers_nothing(sides: Sides) -> None:
    sides.source = Checkpointed(records=[model("a"), model("b")])
    sides.pipeline().run()
    remembered = summary(f"sqlite:///{sides.state}", "test")
    sides.source.records = [model("a"), model("b", description="new"), model("c")]
    for _ in range(2):
        entities, summary_ = report_of(sides.pipeline().plan())
        assert actions(entities) == {model_urn("b"): "update", model_urn("c"): "create"}
        assert summary_["entities"]["mlModel"]["unchanged"] == 1
    assert sides.source.checkpoints[1:] == [{"at": 2}, {"at": 2}]
    assert summary(f"sqlite:///{sides.state}", "test") == remembered
    report_of(sides.pipeline().plan(full=True))
    assert sides.source.checkpoints[-1] is None
    sides.pipeline().run()
    assert sides.source.checkpoints[-1] == {"at": 2}
