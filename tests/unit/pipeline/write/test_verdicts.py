"""Verdicts as tags: given and taken by the test, apart from what sources and people say."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.base import Evaluation, StoredAspect
from mlcat_ingest.errors import AspectRejectedError, LimitError, NotAuthorizedError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.pipeline.write.incidents import _claims_of, _state_of, incident_of
from mlcat_ingest.pipeline.write.verdicts import _tag_of
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import (
    Everything,
    Finished,
    Page,
    Partition,
    ReadRequest,
    RecordVersion,
)
from mlcat_ingest.workflows.explain import explain
from mlcat_ingest.workflows.plan import Plan, make_plan
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

OWNED, NAMED, TAGGED = (f"urn:li:test:{name}" for name in ("has-owner", "named", "tagged"))
FAILS_OWNED, FAILS_NAMED = "urn:li:tag:fails.has-owner", "urn:li:tag:fails.named"
OF_SOURCE, OF_PEOPLE = "urn:li:tag:ours", "urn:li:tag:theirs"
A, B = model_urn("a"), model_urn("b")
SHOWN = {"tag": [".*"], "incident": [".*"]}


def exists(name: str, path: str) -> dict[str, Any]:
    """Return a metadata test of models: `path` has a value."""
    rules = {"property": path, "operator": "exists"}
    definition = {"on": {"types": ["mlModel"]}, "rules": rules}
    json = {"type": "JSON", "json": dumps(definition).decode()}
    return {"name": name, "category": "x", "definition": json}


@dataclass
class Models(FakeSource):
    """Reads two models, or those of `names`; those of `tagged` have the tags of the source."""

    tags: tuple[str, ...] = (OF_SOURCE,)
    names: str = "ab"
    tagged: str = "a"
    is_gone: bool = False
    """True if the source marks the first model as removed."""

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        partition = request.state.partition(Partition("fake:1", "", {}, ""))
        version = f"{self.tags} {self.is_gone}"
        records = [FakeRecord(name, RecordVersion("thing", name, version)) for name in self.names]
        yield Page(records, partition)
        yield Finished(partition, {"read": True}, complete=True)

    def map(self, record: FakeRecord) -> list[Entity]:
        tags = [{"tag": tag} for tag in self.tags if str(record.value) in self.tagged]
        properties = {"name": record.value, "customProperties": {"mlcat.source": "fake:1:"}}
        aspects: dict[str, Any] = {"globalTags": {"tags": tags}, "mlModelProperties": properties}
        if self.is_gone and record.value == "a":
            aspects["status"] = {"removed": True}
        return [Entity(model_urn(str(record.value)), aspects)]


class Catalog(FakeSink):
    unevaluated: tuple[str, ...] = ()

    def evaluate_batch(self, *args: Any, **options: Any) -> Evaluation:
        found = super().evaluate_batch(*args, **options)
        reasons = dict.fromkeys(self.unevaluated, "its definition is malformed")
        return Evaluation(found.outcomes, unevaluated=reasons)

    def metadata_tests(self) -> Iterator[list[str]]:
        yield [urn for urn in self.stored if urn.startswith("urn:li:test:")]

    def drop_tags(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Acknowledge tags, and store none."""
        write = self.write

        def drop(proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
            return write([one for one in proposals if one.aspect_name != "globalTags"])

        monkeypatch.setattr(self, "write", drop)
        monkeypatch.setattr("mlcat_ingest.pipeline.write.read_back.PAUSE_S", 0)

    def tags(self, urn: str = A) -> list[str]:
        return [entry["tag"] for entry in self.stored[urn].get("globalTags", {}).get("tags", ())]


@dataclass
class World:
    folder: Path
    sink: Catalog = field(default_factory=lambda: Catalog(place="fake://catalog"))
    source: Models = field(default_factory=Models)
    evaluate: dict[str, Any] = field(default_factory=lambda: {"where": "service"})

    def ingest(self, *tag: str, name: str = "one", **options: Any) -> Report:
        report = self.run(*tag, name=name, **options)
        report.raise_for_failure()
        return report

    def run(self, *tag: str, name: str = "one", **options: Any) -> Report:
        """Return the report of a run that may fail."""
        state = StateSession(f"sqlite:///{self.folder / name}.db", StateOptions(name, full=True))
        recipe = self.recipe(name, tag, options)
        run = RunOptions(recipe, state=state, scope=Everything())
        return PipelineRun([self.source], self.sink, run).execute()

    def recipe(self, name: str, tag: Sequence[str], options: Mapping[str, Any]) -> Recipe:
        evaluate = {**self.evaluate, "verdicts": {"tag": list(tag)}, **options}
        return a_recipe(name, evaluate=evaluate)

    def plan(self, *tag: str, **options: Any) -> Plan:
        recipe = self.recipe("one", tag, options)
        return make_plan(recipe, [self.source], self.sink, StateSession())

    def fail(self, *tests: str) -> None:
        """Have the first model fail `tests`, and evaluate all models with each run."""
        self.sink.failing_tests = {A: tests}
        self.evaluate["scope"] = "all"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.fail(OWNED)
    return world


def test_a_tag_comes_with_a_failure_stays_with_it_and_goes_with_it(world: World) -> None:
    report = world.ingest("has-.*")
    assert world.sink.tags() == [OF_SOURCE, FAILS_OWNED]
    assert not world.sink.tags(B)
    shown = {"name": "fails: has-owner", "colorHex": "#5d78c6"}
    assert world.sink.stored[FAILS_OWNED]["tagProperties"] == shown
    assert report.verdicts_shown == {"tags added": 1}
    assert report.entities["mlModel"].created == 2
    for _ in range(2):
        assert world.ingest("has-.*").proposals_sent == 0
    world.fail()
    assert world.ingest("has-.*").verdicts_shown == {"tags removed": 1}
    assert world.sink.tags() == [OF_SOURCE]
    assert world.ingest("has-.*").proposals_sent == 0


def test_mapping_and_verdicts_change_only_their_own_tags(world: World) -> None:
    world.ingest(OWNED)
    entries = world.sink.stored[A]["globalTags"]["tags"]
    world.sink.put(A, "globalTags", {"tags": [*entries, {"tag": OF_PEOPLE}]})
    world.source.tags = ("urn:li:tag:next",)
    world.ingest(OWNED)
    assert set(world.sink.tags()) == {"urn:li:tag:next", FAILS_OWNED, OF_PEOPLE}
    world.fail(NAMED)
    world.ingest(OWNED, NAMED)
    assert set(world.sink.tags()) == {"urn:li:tag:next", FAILS_NAMED, OF_PEOPLE}
    world.source.tags = ()
    world.fail()
    world.ingest(OWNED, NAMED)
    assert world.sink.tags() == [OF_PEOPLE]


@pytest.mark.parametrize("scope", ["written", "all"])
def test_a_test_that_is_named_no_more_loses_its_tags(world: World, scope: str) -> None:
    world.fail(OWNED, NAMED)
    world.ingest(OWNED, "named")
    assert set(world.sink.tags()) == {OF_SOURCE, FAILS_OWNED, FAILS_NAMED}
    world.ingest(NAMED, scope=scope)
    assert set(world.sink.tags()) == {OF_SOURCE, FAILS_NAMED}
    world.ingest(scope=scope)
    assert world.sink.tags() == [OF_SOURCE]
    assert not any(
        "verdicts" in key for key in world.sink.stored[A]["mlModelProperties"]["customProperties"]
    )
    assert world.ingest(scope=scope).proposals_sent == 0


def test_what_is_not_evaluated_keeps_its_tag(world: World) -> None:
    world.ingest(OWNED)
    world.fail()
    world.sink.unevaluated = (OWNED,)
    assert world.ingest(OWNED).proposals_sent == 0
    assert FAILS_OWNED in world.sink.tags()


def test_each_recipe_keeps_its_own_claim(world: World) -> None:
    world.ingest(OWNED)
    world.ingest(OWNED, name="two")
    assert world.ingest(name="two").verdicts_shown == {"tags removed": 1}
    assert FAILS_OWNED in world.sink.tags()
    world.fail()
    world.ingest(OWNED)
    assert FAILS_OWNED not in world.sink.tags()


@pytest.mark.parametrize("wiped", [("mlModelProperties",), ("globalTags",)])
def test_what_another_tool_wiped_is_put_right_by_the_next_run(
    world: World, wiped: tuple[str, ...]
) -> None:
    world.ingest(OWNED)
    for aspect in wiped:
        world.sink.put(A, aspect, {"name": "a"} if "Prop" in aspect else {"tags": []})
    world.ingest(OWNED)
    assert set(world.sink.tags()) == {OF_SOURCE, FAILS_OWNED}
    world.fail()
    world.ingest(OWNED)
    assert world.sink.tags() == [OF_SOURCE]
    assert world.ingest(OWNED).proposals_sent == 0


def test_a_test_of_tags_gets_none(world: World) -> None:
    world.sink.put(TAGGED, "testInfo", exists("Tagged", "globalTags.tags.tag"))
    world.fail(TAGGED)
    report = world.ingest("Tagged")
    assert world.sink.tags() == [OF_SOURCE]
    assert report.notes == {"verdict_not_shown": 1}


@pytest.mark.parametrize("name", ["a b, c)", "ü%", "x" * 500, "," * 160, "é" * 80])
def test_any_test_has_a_tag(world: World, name: str) -> None:
    test = f"urn:li:test:{name}"
    world.fail(test, OWNED)
    assert world.ingest(".*").verdicts_shown == {"tags added": 2}
    assert world.sink.tags() == [OF_SOURCE, *sorted((_tag_of(test), FAILS_OWNED))]
    assert world.ingest(".*").proposals_sent == 0
    world.fail()
    world.ingest(".*")
    assert world.sink.tags() == [OF_SOURCE]


def test_a_tag_that_is_refused_is_a_note_and_counts_as_none(world: World) -> None:
    world.source.tags = ()
    world.sink.refuse = {(A, "globalTags")}
    report = world.ingest(OWNED)
    assert (report.verdicts_shown, report.notes) == ({}, {"verdict_not_shown": 1})
    world.sink.refuse = ()
    assert world.ingest(OWNED).verdicts_shown == {"tags added": 1}


def deny(world: World, monkeypatch: pytest.MonkeyPatch, urn: str) -> None:
    read = world.sink.read_many

    def denying(urns: Sequence[str], aspects: Collection[str]) -> Any:
        if urn in urns:
            raise NotAuthorizedError("refused", context={"reason": "403 no"})
        return read(urns, aspects)

    monkeypatch.setattr(world.sink, "read_many", denying)


def test_what_may_not_be_read_is_a_note_and_shows_its_verdict_once_it_may(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = world.sink.evaluate_batch

    def then_deny(*args: Any, **options: Any) -> Evaluation:
        deny(world, monkeypatch, A)
        return evaluate(*args, **options)

    monkeypatch.setattr(world.sink, "evaluate_batch", then_deny)
    world.evaluate["scope"] = "written"
    report = world.ingest(OWNED)
    assert report.verdicts_shown == {}
    assert report.note_examples["verdict_not_shown"] == (f"{A}: 403 no",)
    monkeypatch.undo()
    assert world.ingest(OWNED).verdicts_shown == {"tags added": 1}


def test_a_tag_that_goes_after_the_source_wrote_is_not_taken_for_dropped(world: World) -> None:
    world.ingest(OWNED)
    world.source.tags = ()
    world.fail()
    report = world.ingest(OWNED)
    assert (world.sink.tags(), report.verdicts_shown) == ([], {"tags removed": 1})
    assert report.dropped == {}


def test_a_tag_that_the_catalog_drops_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.source.tags = ()
    world.sink.drop_tags(monkeypatch)
    assert world.ingest(OWNED).dropped == {"mlModel: globalTags": 1}


def test_tags_that_the_catalog_drops_are_reported_of_many_entities_with_tags_of_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "abcdefghij"
    world.source = Models(names=names, tagged=names)
    world.sink.failing_tests = {model_urn(name): (OWNED,) for name in names}
    world.sink.drop_tags(monkeypatch)
    assert "mlModel: globalTags" in world.ingest(OWNED).dropped


def test_a_tag_that_is_given_at_the_end_of_a_run_and_dropped_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.source.tags = ()
    world.evaluate["scope"] = "written"
    world.ingest()
    world.sink.drop_tags(monkeypatch)

    def refuse(*_: object) -> None:
        raise LimitError("too many would be removed")

    monkeypatch.setattr(PipelineRun, "_finish_source", refuse)
    report = world.run(OWNED)
    assert report.verdicts_shown == {"tags added": 1}
    assert report.dropped == {"mlModel: globalTags": 1}


def test_retract_and_explain_know_the_tag(world: World) -> None:
    world.ingest(OWNED)
    entries = explain(world.sink, A, ["globalTags", "mlModelProperties"]).entries
    assert [one.recipes for one in entries if one.entry == FAILS_OWNED] == [("one",)]
    stored = {name: StoredAspect(value) for name, value in world.sink.stored[A].items()}
    merged = retract_entity(whole_entity(A), stored, writer=Writer("one"))
    left = {proposal.aspect_name: proposal.aspect for proposal in merged.proposals}
    assert left["globalTags"] == {"tags": []}
    assert left["mlModelProperties"].get("customProperties", {}) == {}
    assert merged.change == "removed"


def test_a_plan_has_the_tags_that_a_run_would_give(world: World) -> None:
    world.sink.put(OWNED, "testInfo", exists("Owned", "ownership.owners"))
    world.evaluate["where"] = "client"
    with world.plan("Owned") as plan:
        planned = {one.urn: [aspect.aspect for aspect in one.aspects] for one in plan.entities()}
    assert "globalTags" in planned[B]
    assert FAILS_OWNED in planned
    world.ingest("Owned")
    assert [world.sink.tags(urn) for urn in (A, B)] == [[OF_SOURCE, FAILS_OWNED], [FAILS_OWNED]]
    with world.plan("Owned") as plan:
        assert not list(plan.entities())


def test_a_catalog_without_incidents_of_models_gets_none_and_a_note(world: World) -> None:
    report = world.ingest(verdicts={"incident": [OWNED]})
    assert report.note_examples["verdict_not_shown"] == (
        "mlModel: the catalog keeps no incidents of this entity type",
    )
    assert not any(urn.startswith("urn:li:incident:") for urn in world.sink.stored)
    assert world.ingest(verdicts={"incident": [OWNED]}).proposals_sent == 0


def test_a_recipe_leaves_the_incident_of_a_test_that_it_does_not_evaluate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "with_incidents", lambda _: ["mlModel"])
    every, incident = {"incident": [".*"]}, incident_of(A, OWNED)
    assert world.ingest(verdicts=every).verdicts_shown == {"incidents opened": 1}
    world.sink.put(A, "incidentsSummary", {"activeIncidentDetails": [{"urn": incident}]})
    world.fail()
    for _ in range(2):
        report = world.ingest(name="two", verdicts=every, test_urns=[NAMED])
        assert not report.verdicts_shown
    assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "open"
    assert world.ingest(verdicts=every).verdicts_shown == {"incidents resolved": 1}


def open_incident(world: World, *names: str) -> str:
    """Have recipes give a tag and an incident; return the incident."""
    incident = incident_of(A, OWNED)
    for name in names:
        world.ingest(name=name, verdicts=SHOWN)
        world.sink.put(A, "incidentsSummary", {"activeIncidentDetails": [{"urn": incident}]})
    return incident


def test_a_refused_removal_leaves_tag_and_incident(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "with_incidents", lambda _: ["mlModel"])
    incident = open_incident(world, "one")
    world.source.is_gone, world.source.tags = True, ("urn:li:tag:next",)
    world.sink.refuse = {(A, "status")}
    for _ in range(2):
        report = world.ingest(verdicts=SHOWN)
        assert (report.rejected, report.verdicts_shown) == (1, {})
        assert FAILS_OWNED in world.sink.tags()
        assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "open"
    world.sink.refuse = ()
    taken = {"tags removed": 1, "incidents resolved": 1}
    assert world.ingest(verdicts=SHOWN).verdicts_shown == taken


@pytest.mark.parametrize("failing", [(OWNED,), ()])
def test_an_incident_that_may_not_be_read_stays_with_a_note_until_it_may(
    world: World, monkeypatch: pytest.MonkeyPatch, failing: Sequence[str]
) -> None:
    monkeypatch.setattr(Catalog, "with_incidents", lambda _: ["mlModel"])
    incident = open_incident(world, "one")
    world.fail(*failing)
    world.evaluate["scope"] = "written"
    with monkeypatch.context() as denied:
        deny(world, denied, incident)
        report = world.ingest(verdicts={"incident": [".*"]})
    assert report.note_examples["verdict_not_shown"] == (f"{incident}: 403 no",)
    assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "open"
    resolved = {} if failing else {"incidents resolved": 1}
    assert world.ingest(verdicts={"incident": [".*"]}).verdicts_shown == resolved


def test_what_another_recipe_has_keeps_its_verdict_until_that_one_removes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "with_incidents", lambda _: ["mlModel"])
    incident = open_incident(world, "one", "two")
    world.source.is_gone = True
    for sent in (2, 0):
        report = world.ingest(verdicts=SHOWN)
        assert (report.proposals_sent, report.verdicts_shown) == (sent, {})
        assert FAILS_OWNED in world.sink.tags()
        assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "open"
        assert _claims_of(world.sink.stored[incident]["incidentInfo"]) == {"two"}
    world.ingest(name="two", verdicts=SHOWN)
    assert world.sink.stored[A]["status"] == {"removed": True}
    assert FAILS_OWNED not in world.sink.tags()
    assert _state_of(world.sink.stored[incident]["incidentInfo"]) == "resolved"
    assert not any(world.ingest(name=one, verdicts=SHOWN).proposals_sent for one in ("one", "two"))
