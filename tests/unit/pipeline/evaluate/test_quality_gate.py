"""The gate on metadata tests: failing, newly failing, passing, and never passed unseen."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from mlcat_ingest.client.base import Evaluation
from mlcat_ingest.errors import CatalogUnavailableError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.evaluate.quality_gate import (
    QualityGateOptions,
    QualityGateResult,
    _has_result,
    junit_lines,
)
from mlcat_ingest.pipeline.report.report import FailedTest, Report, TestVerdict, Verdict
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.sources.base import Finished, Page, Partition, ReadRequest, RecordVersion
from support.fakes import FakeRecord, FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

OWNED, NAMED = "urn:li:test:owned", "urn:li:test:named"
PLACE = "fake://catalog"


@dataclass
class Models(FakeSource):
    """Reads models by name and value, and remembers each; `gone` are those marked as removed."""

    values: dict[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        identity = {"thing": model_urn("0")}
        partition = request.state.partition(Partition("fake:1", "", identity, ""))
        records = [
            FakeRecord(name, RecordVersion("thing", name, f"{value}{name in self.gone}"))
            for name, value in self.values.items()
        ]
        yield Page(records, partition)
        yield Finished(partition, {"read": True}, complete=True)

    def map(self, record: FakeRecord) -> list[Entity]:
        name = record.value
        properties = {"name": self.values[name]}
        status = {"removed": name in self.gone}
        return [Entity(model_urn(name), {"mlModelProperties": properties, "status": status})]


@dataclass
class Silent(FakeSink):
    """Gives no result for some entities, or dies when it is asked for any."""

    silent: Sequence[str] = ()
    dead: bool = False

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        if self.dead:
            raise CatalogUnavailableError("gone")
        reported = super().evaluate_batch(urns, should_push=should_push, test_urns=test_urns)
        outcomes = {urn: one for urn, one in reported.outcomes.items() if urn not in self.silent}
        return Evaluation(outcomes, reported.not_evaluated)


@dataclass
class World:
    url: str | None
    sink: Silent = field(default_factory=lambda: Silent(place=PLACE))
    source: Models = field(default_factory=lambda: Models(values={"a": "1", "b": "1", "c": "1"}))

    def run(self, pattern: str | None = "owned", **evaluate: object) -> Report:
        gate = None if pattern is None else QualityGateOptions(re.compile(pattern))
        options = RunOptions(
            a_recipe("r", evaluate=evaluate),
            state=StateSession(self.url, StateOptions("r")),
            quality_gate=gate,
        )
        return PipelineRun([self.source], self.sink, options).execute()

    def verdict(self, pattern: str = "owned", **evaluate: object) -> Verdict:
        report = self.run(pattern, **evaluate)
        assert report.gate is not None
        assert report.failure is None
        assert report.exit_code == (0 if report.gate.passed else 3)
        return report.gate

    def failing(self, *names: str, test: str = OWNED) -> None:
        self.sink.failing_tests = {model_urn(name): (test,) for name in names}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(f"sqlite:///{tmp_path / 'state.db'}")


def test_what_fails_is_new_once_and_then_still_fails(world: World) -> None:
    world.failing("a")
    first = world.verdict()
    assert first.tests == (TestVerdict(OWNED, failing=1, newly_failing=1),)
    assert first.examples == (FailedTest(model_urn("a"), OWNED, newly=True, name="1"),)
    # Nothing changed and nothing is evaluated: the last known results count.
    again = world.verdict()
    assert len(world.sink.evaluations) == 1
    assert again.tests == (TestVerdict(OWNED, failing=1),)
    assert again.examples == (FailedTest(model_urn("a"), OWNED, newly=False, name="1"),)


def test_what_is_evaluated_again_is_held_against_the_run_before(world: World) -> None:
    world.failing("a")
    world.verdict()
    world.source.values = {"a": "2", "b": "2", "c": "1"}
    world.failing("a", "b")
    found = world.verdict()
    assert found.tests == (TestVerdict(OWNED, failing=2, newly_failing=1),)
    assert [(one.entity, one.newly) for one in found.examples] == [
        (model_urn("b"), True),
        (model_urn("a"), False),
    ]
    world.source.values = {"a": "3", "b": "3", "c": "1"}
    world.failing()
    cured = world.verdict("owned|named")
    assert cured.passed
    assert cured.tests == (TestVerdict(NAMED, passing=3),)


def test_only_tests_that_match_by_urn_or_name_count(world: World) -> None:
    world.failing("a")
    world.sink.put(NAMED, "testInfo", {"name": "Has a name"})
    world.sink.put(OWNED, "testInfo", {"name": "Has an owner\x1b[31m"})
    assert world.verdict("^urn:li:test:named$").passed
    by_name = world.verdict("an owner")
    assert not by_name.passed
    assert [test.label for test in by_name.tests] == [f"Has an owner\\u001b[31m ({OWNED})"]


def test_a_pattern_that_matches_nothing_is_not_passed(world: World) -> None:
    assert world.verdict("nosuch").not_evaluated == ("no evaluated metadata test matches 'nosuch'",)


def test_a_run_of_nothing_is_not_passed(world: World) -> None:
    world.source.values = {}
    assert world.verdict().not_evaluated == ("nothing was evaluated: no test matches 'owned'",)


@pytest.mark.parametrize("with_state", [True, False])
def test_a_service_that_does_not_evaluate_is_not_passed(world: World, with_state: bool) -> None:  # noqa: FBT001
    if not with_state:
        world.url = None
    world.sink.not_evaluated = "the token may not (403)"
    found = world.verdict()
    assert found.not_evaluated == ("the token may not (403)",)
    assert (found.unevaluated, found.tests) == (3, ())


def test_evaluation_that_is_switched_off_is_not_passed(world: World) -> None:
    assert world.verdict("named").passed
    world.source.values["a"] = "2"
    found = world.verdict("named", enabled=False)
    assert found.not_evaluated == ("switched off in the recipe",)
    # What was written since is not known; the last result of the others still is.
    assert (found.passing, found.unevaluated) == (2, 1)
    # And it stays unknown until it is evaluated, which the next run catches up on.
    assert world.verdict("named").passing == 3
    assert world.sink.evaluations[-1] == [model_urn("a")]


def test_a_new_entity_that_is_not_evaluated_is_not_passed(world: World) -> None:
    assert world.verdict("named").passed
    world.source.values["d"] = "1"
    found = world.verdict("named", enabled=False)
    assert (found.passing, found.unevaluated) == (3, 1)


def test_what_was_never_evaluated_is_caught_up_on(world: World) -> None:
    world.run(None, enabled=False)
    assert world.sink.evaluations == []
    assert world.verdict("named").passing == 3
    assert sorted(world.sink.evaluations[0]) == [model_urn(name) for name in "abc"]
    # Without a gate nobody needs to know.
    world.source.values["d"] = "1"
    world.run(None, enabled=False)
    world.run(None)
    assert len(world.sink.evaluations) == 1


def test_an_entity_without_a_result_is_not_passed(world: World) -> None:
    world.sink.silent = [model_urn("b")]
    found = world.verdict("named")
    assert found.not_evaluated == ("no result for 1 entity",)
    assert (found.passing, found.unevaluated) == (2, 1)
    assert len(world.sink.evaluations) == 1  # it is not asked twice in one run
    world.sink.silent = ()
    assert world.verdict("named").passing == 3


def test_a_test_of_the_recipe_without_any_result_is_not_passed(world: World) -> None:
    found = world.verdict("lost|named", test_urns=("urn:li:test:lost", NAMED))
    assert found.not_evaluated == ("no result of urn:li:test:lost",)
    assert world.verdict("named", test_urns=("urn:li:test:lost", NAMED)).passed


@pytest.mark.parametrize("scope", ["all", "written"])
def test_what_is_removed_fails_nothing_any_more(world: World, scope: str) -> None:
    world.failing("a")
    assert world.verdict(scope=scope).failing == 1
    world.source.gone = ["a"]
    assert world.verdict("owned|named", scope=scope).failing == 0
    assert world.verdict("owned|named", scope=scope).failing == 0
    world.source.gone = []
    assert world.verdict(scope=scope).failing == 1


def test_a_run_that_was_killed_leaves_no_old_result(world: World) -> None:
    assert world.verdict("named").passed
    world.source.values["a"] = "2"
    world.failing("a", test=NAMED)

    world.sink.dead = True
    assert world.run(None).exit_code == 1
    world.sink.dead = False
    found = world.verdict("named")
    assert (found.failing, found.newly_failing) == (1, 1)


def test_a_failed_run_is_a_failed_run_whatever_the_gate_says(world: World) -> None:
    world.failing("a")
    world.sink.before_write = lambda _: (_ for _ in ()).throw(CatalogUnavailableError("down"))
    report = world.run()
    assert report.exit_code == 1
    assert report.gate is not None
    assert not report.gate.passed


def test_refused_entities_come_before_failing_tests(world: World) -> None:
    world.sink.refuse = [model_urn("b")]
    world.failing("a")
    report = world.run()
    assert report.exit_code == 4
    assert report.gate is not None
    assert report.gate.failing == 1


def test_results_can_be_read_entity_by_entity(world: World) -> None:
    seen: list[tuple[str, list[tuple[str, bool, bool]]]] = []

    def keep(result: QualityGateResult) -> None:
        for test in result.tests:
            assert result.results is not None
            results = [
                (urn, test.urn in found.outcome.failing, test.urn in found.newly_failing)
                for urn, found in result.results.with_result(partial(_has_result, test.urn))
            ]
            seen.append((test.urn, results))

    world.failing("b")
    options = RunOptions(a_recipe("r"), quality_gate=QualityGateOptions(re.compile("."), keep))
    PipelineRun([world.source], world.sink, options).execute()
    models = [model_urn(name) for name in "abc"]
    assert seen == [
        (NAMED, [(urn, False, False) for urn in models]),
        (OWNED, [(models[1], True, True)]),
    ]


def test_a_verdict_stays_small(world: World) -> None:
    world.source.values = {f"m{n}": "1" for n in range(300)}
    world.failing(*world.source.values)
    found = world.verdict()
    assert (found.failing, len(found.examples)) == (300, 20)


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, " and 1 more"), (5, " and 2 more")])
def test_of_many_tests_without_a_result_three_are_named(
    world: World, count: int, more: str
) -> None:
    lost = [f"urn:li:test:lost{n}" for n in range(count)]
    found = world.verdict("lost", test_urns=lost)
    assert found.not_evaluated == (f"no result of {', '.join(lost[:3])}{more}",)


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_test_without_a_name_is_named_by_its_urn(world: World, name: object) -> None:
    world.failing("a")
    world.sink.put(OWNED, "testInfo", {"name": name})
    [test] = world.verdict().tests
    assert (test.name, test.label) == (None, OWNED)


def test_every_test_may_match_by_its_name(world: World) -> None:
    world.sink.put(NAMED, "testInfo", {"name": "Has a name"})
    world.failing("a")
    assert [test.urn for test in world.verdict("Has a name").tests] == [NAMED]


def test_a_test_that_cannot_be_evaluated_is_named_with_its_reason(world: World) -> None:
    lost = "urn:li:test:lost"
    found = world.verdict("lost", where="client", test_urns=[lost])
    assert f"{lost}: no such test" in found.not_evaluated


def test_a_verdict_without_results_names_no_entity() -> None:
    result = QualityGateResult(Verdict("x", not_evaluated=("down",)))
    document = "".join(junit_lines(result, "r", 1_700_000_000_000))
    assert 'timestamp="2023-11-14T22:13:20"' in document
    assert document.count("<testcase") == document.count('<skipped message="down"/>') == 1
