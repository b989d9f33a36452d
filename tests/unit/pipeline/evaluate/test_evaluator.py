"""Who evaluates, what is evaluated anew, and what the client knows without reading it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlcat_ingest.client.base import Evaluation
from mlcat_ingest.errors import NotAuthorizedError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.report.report import EvaluationSummary
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest, RecordVersion
from support.fakes import FakeRecord, FakeSink, FakeSource, group_urn, model_urn
from support.recipes import a_recipe, run

HOME = "mlModelProperties"
NAMED, OTHER = "urn:li:test:named", "urn:li:test:other"
MODELS = [model_urn(name) for name in "abc"]


@dataclass
class Models(FakeSource):
    """Reads models by name and aspects, and remembers each."""

    models: dict[str, dict[str, Aspect]] = field(
        default_factory=lambda: {name: {HOME: {"name": name}} for name in "abc"}
    )
    complete: bool = True

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"thing": model_urn("0")}
        partition = request.state.partition(Partition("fake:1", "", identity, ""))
        records = [
            FakeRecord(name, RecordVersion("thing", name, str(aspects)))
            for name, aspects in self.models.items()
        ]
        yield Page(records, partition)
        yield Finished(partition, {"read": True}, complete=self.complete)

    def map(self, record: FakeRecord) -> list[Entity]:
        return [Entity(model_urn(record.value), self.models[record.value])]


@dataclass
class World:
    folder: Path
    sink: FakeSink = field(default_factory=lambda: FakeSink(place="fake://catalog"))
    source: Models = field(default_factory=Models)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'state.db'}"

    def run(self, **evaluate: Any) -> EvaluationSummary:
        options = RunOptions(
            a_recipe("r", evaluate={**self.options, **evaluate}),
            state=StateSession(self.url, StateOptions("r")),
        )
        report = PipelineRun([self.source], self.sink, options).execute()
        assert report.failure is None
        return report.evaluation

    def test(self, urn: str, path: str) -> None:
        """Store a metadata test: models have something at `path`."""
        definition = {
            "on": {"types": ["mlModel"]},
            "rules": {"property": path, "operator": "exists"},
        }
        text = dumps(definition).decode()
        info = {"name": "n", "category": "c", "definition": {"type": "JSON", "json": text}}
        self.sink.put(urn, "testInfo", info)

    def test_file(self) -> Path:
        rules = {"property": f"{HOME}.name", "operator": "exists"}
        definition = {"on": {"types": ["mlModel"]}, "rules": rules}
        test = {"id": "named", "name": "n", "category": "c", "definition": definition}
        path = self.folder / "tests.yml"
        path.write_text(yaml.safe_dump([test]))
        return path

    def results(self, name: str) -> tuple[list[str], list[str]]:
        stored = self.sink.stored[model_urn(name)]["testResults"]
        passing, failing = ([one["test"] for one in stored[s]] for s in ("passing", "failing"))
        return passing, failing


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def by_client(world: World) -> World:
    """The client evaluates one test."""
    world.test(NAMED, f"{HOME}.name")
    world.options = {"where": "client", "test_urns": [NAMED]}
    return world


# --- who evaluates -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["auto", "service"])
def test_a_service_that_evaluates_is_asked(world: World, where: str) -> None:
    assert world.run(where=where, test_urns=[NAMED]).evaluated == 3
    assert [sorted(batch) for batch in world.sink.evaluations] == [MODELS]


def test_a_service_is_not_asked_where_the_client_evaluates(by_client: World) -> None:
    found = by_client.run()
    assert (found.evaluated, found.passing, found.where) == (3, 3, "client")
    assert by_client.sink.evaluations == []
    assert by_client.results("a") == ([NAMED], [])


def test_a_catalog_that_keeps_nothing_evaluates_by_itself_or_not_at_all(by_client: World) -> None:
    by_client.sink.place = None
    assert by_client.run().evaluated == 3
    assert len(by_client.sink.evaluations) == 1


@dataclass
class Silent(FakeSink):
    """Evaluates nothing."""

    lacks_call: bool = False

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        super().evaluate_batch(urns, should_push=should_push, test_urns=test_urns)
        return Evaluation(not_evaluated="no", lacks_call=self.lacks_call)


@pytest.mark.parametrize("lacks_call", [True, False])
def test_the_client_evaluates_from_when_a_service_lacks_the_call(
    by_client: World, *, lacks_call: bool
) -> None:
    by_client.source.models = {f"m{n}": {HOME: {"name": "m"}} for n in range(250)}
    stored = by_client.sink.stored
    by_client.sink = Silent(place="fake://catalog", stored=stored, lacks_call=lacks_call)
    found = by_client.run(where="auto")
    assert (found.evaluated, found.not_evaluated) == ((250, None) if lacks_call else (0, "no"))
    assert len(by_client.sink.evaluations) == 1


# --- tests of the recipe's files -----------------------------------------------------------------


def test_tests_of_files_are_created_and_evaluated(world: World) -> None:
    found = world.run(where="client", test_files=[world.test_file()], test_urns=[NAMED])
    assert (found.evaluated, found.passing) == (3, 3)
    assert world.sink.stored[NAMED]["testInfo"]["name"] == "n"


def test_tests_of_files_are_evaluated_before_the_search_finds_them(world: World) -> None:
    class Behind(FakeSink):
        """Finds no metadata test."""

        def metadata_tests(self) -> Iterator[list[str]]:
            return iter(())

    world.sink = Behind(place="fake://catalog")
    found = world.run(where="client", test_files=[world.test_file()])
    assert (found.evaluated, found.passing) == (3, 3)


def test_evaluation_that_is_switched_off_creates_no_tests(world: World) -> None:
    assert world.run(enabled=False, test_files=[world.test_file()]).evaluated == 0
    assert NAMED not in world.sink.stored


def test_a_catalog_that_keeps_nothing_gets_no_tests(world: World) -> None:
    world.sink.place = None
    assert world.run(test_files=[world.test_file()]).not_evaluated is None
    assert NAMED not in world.sink.stored


def test_a_test_that_is_refused_ends_the_evaluation_and_not_the_run(world: World) -> None:
    world.sink.refuse = {NAMED}
    found = world.run(test_files=[world.test_file()])
    assert "a metadata test cannot be created" in str(found.not_evaluated)
    assert found.evaluated == 0
    assert world.sink.evaluations == []
    assert set(MODELS) <= set(world.sink.stored)


# --- the client reads no more than it has to -----------------------------------------------------


def requests(world: World) -> tuple[list[list[str]], int]:
    """Return the URNs of the read requests since the last call, and the write requests."""
    found = [sorted(urns) for urns in world.sink.reads], len(world.sink.writes)
    world.sink.reads.clear()
    world.sink.writes.clear()
    return found


def test_new_entities_are_evaluated_without_reading_them(by_client: World, tmp_path: Path) -> None:
    by_client.run()
    reads, _ = requests(by_client)
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    other.run(where="service")
    assert sorted(reads) == sorted([*requests(other)[0], [NAMED]])


def test_a_catalog_that_checks_no_versions_is_read_again(by_client: World) -> None:
    by_client.test(NAMED, f"{HOME}.description")
    by_client.source.models = {"a": {HOME: {"name": "a"}}}
    by_client.sink.checks_versions = False
    edits = [{"description": "theirs"}]

    def edit(urns: object) -> None:
        # Between our write and the look at the versions after it.
        if urns == MODELS[:1] and MODELS[0] in by_client.sink.stored and edits:
            stored = by_client.sink.stored[MODELS[0]][HOME]
            by_client.sink.put(MODELS[0], HOME, {**stored, **edits.pop()})

    by_client.sink.before_read = edit
    by_client.run()
    assert edits == []
    assert by_client.results("a") == ([NAMED], [])


def test_of_a_changed_entity_the_aspects_that_were_not_written_are_read(by_client: World) -> None:
    by_client.test(NAMED, "ownership.owners.owner")
    by_client.run()
    assert by_client.results("a") == ([], [NAMED])
    owners = [{"owner": "urn:li:corpuser:u", "type": "DATAOWNER"}]
    by_client.sink.put(model_urn("a"), "ownership", {"owners": owners})
    by_client.source.models["a"] = {HOME: {"name": "other"}}
    requests(by_client)
    by_client.run()
    assert by_client.results("a") == ([NAMED], [])
    # The probe of the conditions, the entity and its results: none of them is refused.
    assert requests(by_client)[1] == 3


def test_an_aspect_that_was_deleted_is_known_to_be_absent(by_client: World) -> None:
    version: dict[str, Any] = {
        "versionSet": "urn:li:versionSet:(x,mlModel)",
        "version": {"versionTag": "1"},
        "sortId": "1",
    }
    by_client.test(NAMED, "versionProperties.sortId")
    by_client.source.models = {"a": {HOME: {"name": "a"}, "versionProperties": version}}
    by_client.run()
    assert by_client.results("a") == ([NAMED], [])
    by_client.source.models["a"]["versionProperties"] = dict.fromkeys(version)
    by_client.run()
    assert by_client.results("a") == ([], [NAMED])


def test_groups_are_read_before_they_are_evaluated(by_client: World) -> None:
    group = group_urn("g")
    definition = {
        "on": {"types": ["mlModelGroup"]},
        "rules": {"property": "mlModelGroupProperties.name", "operator": "exists"},
    }
    info = {"name": "n", "category": "c"}
    text = dumps(definition).decode()
    by_client.sink.put(NAMED, "testInfo", {**info, "definition": {"type": "JSON", "json": text}})
    entity = Entity(group, {"mlModelGroupProperties": {"name": "g"}})
    report = run(by_client.sink, entity, evaluate=by_client.options)
    assert report.evaluation.passing == 1
    assert by_client.sink.reads[-1] == [group]


# --- what is evaluated anew ----------------------------------------------------------------------


def test_when_the_set_of_tests_changes_all_entities_are_evaluated_anew(by_client: World) -> None:
    assert by_client.run().evaluated == 3
    assert by_client.run().evaluated == 0
    by_client.test(NAMED, f"{HOME}.description")
    assert by_client.run().failing == 3
    assert by_client.run().evaluated == 0
    by_client.test(OTHER, f"{HOME}.name")
    assert by_client.run(test_urns=[NAMED, OTHER]).evaluated == 3


def test_a_service_is_not_asked_anew_when_tests_change(by_client: World) -> None:
    assert by_client.run(where="service").evaluated == 3
    requests(by_client)
    by_client.test(NAMED, f"{HOME}.description")
    assert by_client.run(where="service").evaluated == 0
    assert by_client.run(where="auto").evaluated == 0
    # Nobody reads the tests.
    assert [NAMED] not in requests(by_client)[0]


def test_a_service_that_evaluates_by_now_takes_over_with_all_entities(by_client: World) -> None:
    assert by_client.run().evaluated == 3
    by_client.test(NAMED, f"{HOME}.description")
    assert by_client.run(where="auto").evaluated == 3
    assert sorted(by_client.sink.evaluations[0]) == MODELS
    assert by_client.run(where="auto").evaluated == 0


def test_tests_that_cannot_be_read_change_nothing(by_client: World) -> None:
    assert by_client.run().evaluated == 3

    def guard(urns: list[str]) -> None:
        if NAMED in urns:
            raise NotAuthorizedError("no")

    by_client.sink.before_read = guard  # type: ignore[assignment]
    assert by_client.run().evaluated == 0
    by_client.sink.before_read = lambda _: None
    assert by_client.run().evaluated == 0


def test_tests_that_cannot_be_evaluated_are_named_though_nothing_changed(by_client: World) -> None:
    options = {"test_urns": [NAMED, OTHER]}
    assert set(by_client.run(**options).unevaluated_tests) == {OTHER}
    assert set(by_client.run(**options).unevaluated_tests) == {OTHER}


def test_an_evaluation_that_stopped_is_made_up_for_under_the_same_tests(by_client: World) -> None:
    class Stopping(FakeSink):
        """Stops after the first batch."""

        def evaluate_batch(self, urns: Any, **options: Any) -> Evaluation:
            found = super().evaluate_batch(urns, **options)
            return replace(found, not_evaluated="enough")

    world = replace(by_client, sink=Stopping(place="fake://catalog"))
    assert world.run(where="service").not_evaluated == "enough"
    assert world.run(where="service").evaluated == 0


def test_a_full_pass_evaluates_what_has_no_result(world: World) -> None:
    assert world.run(enabled=False).evaluated == 0
    assert world.run().evaluated == 0
    (world.folder / "state.db").unlink()
    assert world.run(scope="all").evaluated == 3


def test_entities_of_other_types_are_not_evaluated(world: World) -> None:
    tag = Entity("urn:li:tag:t", {"tagProperties": {"name": "t"}})
    kinds = [
        Entity(model_urn("m"), {HOME: {"name": "m"}}),
        Entity(group_urn("g"), {"mlModelGroupProperties": {"name": "g"}}),
        Entity("urn:li:mlFeature:(t,f)", {"mlFeatureProperties": {"dataType": "COUNT"}}),
        Entity(
            "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,t)",
            {"mlFeatureTableProperties": {"description": "t"}},
        ),
    ]
    for entity in (tag, *kinds):
        run(world.sink, entity)
    assert world.sink.evaluations == [[one.urn] for one in kinds]


def test_batches_are_of_the_size_of_a_request(world: World) -> None:
    world.source.models = {f"m{n:03}": {HOME: {"name": "m"}} for n in range(401)}
    assert world.run().evaluated == 401
    assert sorted(map(len, world.sink.evaluations)) == [1, 200, 200]


def test_a_service_that_stops_is_asked_for_no_further_batch(world: World) -> None:
    world.source.models = {f"m{n}": {HOME: {"name": "m"}} for n in range(1_201)}
    world.sink.not_evaluated = "no"
    assert world.run().not_evaluated == "no"
    assert len(world.sink.evaluations) < 7
